package mcpserve

import (
	"context"
	"testing"

	"attend/internal/engine"
)

// A wait that is open when the caller's rights end is an error, and loses
// nothing: what came at that moment comes again to whoever may have it.
func TestWait_EndsWithTheCallersRights(t *testing.T) {
	revoked := make(chan struct{})
	caller := Caller{Name: "ann", Revoked: revoked}
	d := newDaemon(t, settings{options: func(o *Options) {
		o.Caller = func(context.Context) Caller { return caller }
	}})
	d.use(modern, "attend_wait", `{"consumer":"bot","timeoutMs":0}`)
	var calls []<-chan *reply
	for _, era := range []string{legacy, modern} {
		h, body := longWait(era, "1")
		calls = append(calls, d.inBackground(t.Context(), h, body))
	}
	h, body := requestID(modern, "tools/call", `"name":"attend_wait","arguments":{"timeoutMs":240000,"consumer":"bot"}`, "2")
	h.Set("Mcp-Name", "attend_wait")
	calls = append(calls, d.inBackground(t.Context(), h, body))
	eventually(t, "all wait", func() bool { return d.waiting() == 3 })
	close(revoked)
	for _, done := range calls {
		r := <-done
		if r.msg.Error == nil || r.msg.Error.Code != codeForbidden || r.msg.Error.Data["reason"] != "revoked" {
			t.Errorf("got %s", r.body)
		}
	}
	caller.Revoked = nil
	d.decide("a", engine.Queue, nil)
	if _, out := d.use(modern, "attend_wait", `{"consumer":"bot","timeoutMs":0}`); len(decisionIDs(out)) != 1 {
		t.Errorf("got %v", out)
	}
}

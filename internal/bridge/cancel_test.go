package bridge

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`

func TestCancel_TheConnectionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{handle: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}
		h := connect(t, d)
		ask := `{"jsonrpc":"2.0","id":"7","method":"tools/call","params":{"name":"attend_wait",` + modernMeta + `}}`
		h.say(ask)
		d.requests()
		for _, other := range []string{`7`, `"8"`, `null`} {
			h.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + other + `}}`)
		}
		h.say(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`)
		if n := d.gaveUp(); n != 0 {
			t.Fatalf("%d requests were ended by cancellations of others", n)
		}
		h.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"7"}}`)
		if n := d.gaveUp(); n != 1 {
			t.Errorf("%d requests were ended, want one", n)
		}
		if got := d.requests(); len(got) != 0 {
			t.Errorf("without sessions the end of the connection says it all, and the daemon was told %q", got)
		}
		h.hears() // no answer: the host has forgotten the id, and may use it again
		h.say(ask)
		if got := d.requests(); len(got) != 1 {
			t.Errorf("the same id again: the daemon was asked %q", got)
		}
	})
}

func TestCancel_ASessionIsToldToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{handle: func(w http.ResponseWriter, r *http.Request) {
			if idOf(r) == "" {
				w.WriteHeader(http.StatusAccepted)
				return
			}
			<-r.Context().Done()
		}}
		h := connect(t, d)
		h.say(`{"jsonrpc":"2.0","id":7,"method":"tools/call"}`)
		d.requests()
		cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`
		h.say(cancel)
		if n := d.gaveUp(); n != 1 {
			t.Errorf("%d requests were ended, want one", n)
		}
		if diff := cmp.Diff([]string{`POST version="" method="" name="" session="" ` + cancel}, d.requests()); diff != "" {
			t.Error(diff)
		}
		h.hears()
	})
}

// The stream of an answer that has begun is ended as well.
func TestCancel_AStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		d := &daemon{handle: func(w http.ResponseWriter, r *http.Request) {
			asEvents(w, `data: {"jsonrpc":"2.0","method":"notifications/events/active"}`+"\n\n")
			<-r.Context().Done()
			ended = true
		}}
		h := connect(t, d)
		h.say(`{"jsonrpc":"2.0","id":7,"method":"events/stream","params":{` + modernMeta + `}}`)
		h.hears(`{"jsonrpc":"2.0","method":"notifications/events/active"}`)
		h.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
		synctest.Wait()
		if !ended {
			t.Error("the daemon goes on streaming")
		}
		h.hears()
	})
}

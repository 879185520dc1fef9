package source

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// The seed's table ("MCP Events sources", "Errors"): what is done about each
// error of each method.
func TestErrors_TheTable(t *testing.T) {
	answer := func(code int64) error { return &ServerError{Code: code, Message: "no"} }
	const (
		backs   = "backs off, and subscribes again"
		redials = "backs off, and connects again"
		ends    = "ends"
		polls   = "polls"
	)
	anywhere := []struct {
		err    error
		kind   string
		remedy string
	}{
		{answer(-32025), "limited", backs},
		{context.DeadlineExceeded, "timeout", backs},
		{errors.New("503"), "connection", backs},
		{fmt.Errorf("%w: it has gone", ErrClosed), "connection", redials},
		{answer(-32023), "refused", ends},
		{answer(-32024), "refused", ends},
		{answer(-32027), "refused", ends},
		{answer(-32601), "refused", ends},
		{answer(-32603), "refused", ends},
		{answer(-32602), "refused", ends},
		{answer(7), "refused", ends},
	}
	for _, c := range anywhere {
		for _, method := range []string{"events/list", "events/poll", "events/stream"} {
			t.Run(method+" "+c.err.Error(), func(t *testing.T) { fails(t, method, ModeAuto, c.err, c.kind, c.remedy) })
		}
	}
	unsupported := answer(-32026)
	for _, c := range []struct {
		method string
		mode   Mode
		remedy string
	}{
		{"events/stream", ModeAuto, polls},
		{"events/stream", ModeStream, ends},
		{"events/poll", ModePoll, ends},
		{"events/poll", ModeAuto, ends},
		{"events/list", ModeAuto, ends},
	} {
		t.Run(c.method+" unsupported "+string(c.mode), func(t *testing.T) { fails(t, c.method, c.mode, unsupported, "refused", c.remedy) })
	}
}

// fails lets a method fail once, and looks what is done about it.
func fails(t *testing.T, method string, mode Mode, err error, kind, remedy string) {
	t.Helper()
	inBubble(t, func(w *world) {
		w.source.Mode = mode
		once := failing(err)
		w.stream = says(active("c0", false))
		w.poll = func(context.Context, Request) (Page, error) { return page("c0"), nil }
		list := w.list
		switch method {
		case "events/list":
			w.list = func() ([]EventType, error) { types, _ := list(); return types, once() }
		case "events/poll":
			w.list = func() ([]EventType, error) { return nil, nil }
			w.poll = func(context.Context, Request) (Page, error) { return page("c0"), once() }
		default:
			w.stream = func(ctx context.Context, r Request, hear func(Notification)) error {
				if err := once(); err != nil {
					return err
				}
				return says(active("c0", false))(ctx, r, hear)
			}
		}
		w.start()
		s := w.status()
		before := w.requests()
		if remedy == "polls" {
			if s.State != Polling || s.Mode != ModePoll || s.LastError != nil || before != "dial, list, stream -, poll -" {
				t.Errorf("it stands as %+v after %s", s, before)
			}
			return
		}
		if s.LastError == nil || s.LastError.Kind != kind || w.errors(kind) != 1 || s.Counts.Accepted != 0 {
			t.Fatalf("it stands as %+v, %+v", s, s.LastError)
		}
		if remedy == "ends" {
			w.pass(time.Hour)
			if got := w.requests(); w.status().State != Ended || got != "" || w.open != 0 || !strings.Contains(w.status().LastError.Message, method) {
				t.Errorf("afterwards it stands as %+v, %+v: %s, %d sessions", w.status(), w.status().LastError, got, w.open)
			}
			return
		}
		if s.State != BackingOff || s.RetryAt-s.LastError.At != 1000 || !strings.Contains(w.log.String(), "msg=retrying stage=source source=ci") {
			t.Errorf("it stands as %+v, %+v", s, s.LastError)
		}
		w.pass(time.Second)
		again := strings.TrimPrefix(before, "dial, ")
		if remedy == "backs off, and connects again" {
			again = before
		}
		if got := w.requests(); !strings.HasPrefix(got, again) {
			t.Errorf("a second later it asks %q, before it asked %q", got, before)
		}
		if state := w.status().State; state != Streaming && state != Polling {
			t.Errorf("then it is %s", state)
		}
	})
}

func TestErrors_TheLastRungIsRepeatedAndSuccessStartsAnew(t *testing.T) {
	inBubble(t, func(w *world) {
		w.source.Mode = ModePoll
		limited := &ServerError{Code: codeResourceExhausted}
		once := failing(limited, limited, limited, limited, limited, nil, limited)
		w.poll = func(context.Context, Request) (Page, error) {
			if err := once(); err != nil {
				return Page{}, err
			}
			return page("c1"), nil
		}
		w.start()
		var waits []int64
		for range 5 {
			s := w.status()
			waits = append(waits, int64(s.RetryAt-s.LastError.At))
			w.pass(time.Duration(waits[len(waits)-1]) * time.Millisecond)
		}
		equal(t, "waits", waits, []int64{1000, 5000, 15000, 60000, 60000})
		equal(t, "state", w.status().State, Polling)
		w.pass(10 * time.Second)
		s := w.status()
		equal(t, "the wait after a success", int64(s.RetryAt-s.LastError.At), int64(1000))
	})
}

func TestErrors_AServerThatCannotBeReached(t *testing.T) {
	inBubble(t, func(w *world) {
		w.dial = failing(errors.New("127.0.0.1:1: connection refused"))
		w.stream = says(active("c0", false))
		w.start()
		s := w.status()
		if s.State != BackingOff || s.LastError.Kind != "connection" || s.LastError.Message != "connect to https://ci.example.com/mcp: 127.0.0.1:1: connection refused" {
			t.Errorf("it stands as %+v, %+v", s, s.LastError)
		}
		w.pass(time.Second)
		equal(t, "requests", w.requests(), "dial, dial, list, stream -")
		equal(t, "state", w.status().State, Streaming)
	})
}

// Rungs are lengthened by a jitter that follows from the key: sources that
// fail at once do not come back at once.
func TestErrors_JitterFollowsFromTheKey(t *testing.T) {
	wait := func(name string) (ms int64) {
		inBubble(t, func(w *world) {
			w.policy.Default.RetryJitter = 0.2
			w.source.Name = name
			w.dial = func() error { return errors.New("no") }
			w.start()
			s := w.status()
			ms = int64(s.RetryAt - s.LastError.At)
		})
		return ms
	}
	a, b := wait("a"), wait("b")
	if a == b || a < 1000 || a >= 1200 || b < 1000 || b >= 1200 || a != wait("a") {
		t.Errorf("the waits are %d and %d", a, b)
	}
}

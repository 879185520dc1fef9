package source

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
)

// equal compares, and shows what differs.
func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestStream_EventsAndTheirCursorAreOneCommit(t *testing.T) {
	inBubble(t, func(w *world) {
		w.source.Arguments = []byte(`{"repo":"a"}`)
		w.stream = says(active("c0", false), event("a", "c1"), event("b", "c2"), beat("c3"))
		w.behind = []place{{"a", "c1"}, {"b", "c2"}}
		w.start()
		equal(t, "requests", w.requests(), "dial, list, stream -")
		equal(t, "commits", w.story(), "a b @c3")
		at := engine.Time(1000)
		equal(t, "the event", w.taken()[0], Event{Scope: "s", Name: "x.happened", ID: "a", At: &at, Data: []byte(`{"n":1}`)})
		equal(t, "the key", w.batches[0].Put.Key, `mcp:ci:x:{"repo":"a"}`)
		s := w.status()
		if s.State != Streaming || s.Mode != ModeStream || !s.Cursor || s.Counts.Accepted != 2 || s.LastError != nil {
			t.Errorf("it stands as %+v", s)
		}

		w.stop() // and the next life goes on from there
		w.start()
		equal(t, "requests of the next life", w.requests(), "dial, list, stream c3")
		equal(t, "what was committed, twice", w.story(), "a b a b @c3")
		if d := w.status().Counts; d.Duplicates != 2 || d.Accepted != 0 {
			t.Errorf("what came again counts as %+v", d)
		}
	})
}

func TestStream_AHeartbeatMovesTheCursor(t *testing.T) {
	inBubble(t, func(w *world) {
		w.stream = func(ctx context.Context, r Request, hear func(Notification)) error {
			hear(active("c0", false))
			for i := range 3 {
				rest(20 * time.Second)
				hear(beat(fmt.Sprintf("c%d", i/2+1)))
			}
			return silent(ctx, r, hear)
		}
		w.start()
		w.pass(time.Minute)
		equal(t, "commits", w.committed(), []string{"@c0", "@c1", "@c2"})
	})
}

// Truncated marks the scope before what comes next, on both ways.
func TestGap_StandsBeforeTheEvents(t *testing.T) {
	inBubble(t, func(w *world) {
		w.stream = says(active("c0", true), event("a", "c1"), active("c2", true), event("b", "c3"))
		w.start()
		equal(t, "commits of a stream", w.story(), "gap:s a gap:s b @c3")
		equal(t, "gaps", w.status().Counts.Gaps, int64(2))
	})
	inBubble(t, func(w *world) {
		w.source.Mode = ModePoll
		first := true
		w.poll = func(context.Context, Request) (Page, error) {
			p := page("c1", occurs("a", ""))
			p.Truncated, first = first, false
			return p, nil
		}
		w.start()
		w.pass(11 * time.Second)
		equal(t, "commits of polls", w.committed(), []string{"gap:s a @c1", "a @c1"})
	})
	inBubble(t, func(w *world) { // at once, without any event
		w.stream = says(active("c0", true))
		w.start()
		equal(t, "commits without events", w.committed(), []string{"gap:s @c0"})
	})
}

// Where the data tells the scope, each scope hears of the loss with its first
// event; until one does, the old cursor stays.
func TestGap_OfManyScopes(t *testing.T) {
	inBubble(t, func(w *world) {
		w.source.Scope, w.source.ScopeOf = "", func(data json.RawMessage) (string, error) { return "s" + string(data), nil }
		of := func(id, data, cursor string) Notification {
			return told("event", fmt.Sprintf(`{"eventId":%q,"name":"x","timestamp":"1970-01-01T00:00:01Z","data":%s,"cursor":%q}`, id, data, cursor))
		}
		hear := make(chan Notification)
		w.stream = func(ctx context.Context, _ Request, tell func(Notification)) error {
			for {
				select {
				case n := <-hear:
					tell(n)
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
		w.start()
		for _, n := range []Notification{active("c0", true), of("a", "1", "c1"), of("b", "2", "c2"), of("c", "1", "c3"), beat("c4")} {
			hear <- n
			w.pass(time.Millisecond)
		}
		equal(t, "commits", w.committed(), []string{"gap:s1 a @c1", "gap:s2 b @c2", "c @c3", "@c4"})
	})
}

func TestMode(t *testing.T) {
	types := func(delivery ...string) func() ([]EventType, error) {
		return func() ([]EventType, error) {
			return []EventType{{Name: "y", Delivery: []string{"push"}}, {Name: "x", Delivery: delivery}}, nil
		}
	}
	for _, c := range []struct {
		name string
		mode Mode
		list func() ([]EventType, error)
		want string
	}{
		{"auto, pushed", "", types("webhook", "push"), "dial, list, stream -"},
		{"auto, polled", "", types("poll"), "dial, list, poll -"},
		{"auto, not listed", "", types(), "dial, list, poll -"},
		{"stream", ModeStream, types("poll"), "dial, stream -"},
		{"poll", ModePoll, types("push"), "dial, poll -"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				w.source.Mode, w.list = c.mode, c.list
				w.start()
				equal(t, "requests", w.requests(), c.want)
			})
		})
	}
}

func TestPoll_Paces(t *testing.T) {
	ms := func(v float64) *float64 { return &v }
	for _, c := range []struct {
		name  string
		poll  time.Duration
		page  Page
		after time.Duration // the next poll
	}{
		{"by default", 0, page("c1"), 10 * time.Second},
		{"as configured", 3 * time.Second, page("c1"), 3 * time.Second},
		{"as the server says", time.Second, Page{NextPollMs: ms(2500)}, 2500 * time.Millisecond},
		{"not too often", time.Second, Page{NextPollMs: ms(0)}, 100 * time.Millisecond},
		{"not backwards", time.Second, Page{NextPollMs: ms(-1)}, time.Second},
		{"more that does not come nearer", time.Second, Page{HasMore: true}, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				w.source.Mode, w.source.Poll = ModePoll, c.poll
				w.poll = func(context.Context, Request) (Page, error) { return c.page, nil }
				w.start()
				w.requests()
				w.pass(c.after - time.Millisecond)
				equal(t, "requests before", w.requests(), "")
				w.pass(time.Millisecond)
				if got := w.requests(); !strings.HasPrefix(got, "poll ") || strings.Contains(got, ",") {
					t.Errorf("requests then: %q", got)
				}
			})
		})
	}
}

func TestPoll_MoreIsAskedForAtOnce(t *testing.T) {
	inBubble(t, func(w *world) {
		w.source.Mode, w.source.MaxAge, w.source.MaxEvents = ModePoll, time.Hour, 7
		var asked []Request
		w.poll = func(_ context.Context, r Request) (Page, error) {
			asked = append(asked, r)
			p := page(fmt.Sprintf("c%d", len(asked)), occurs(fmt.Sprint(len(asked)), ""))
			p.HasMore = len(asked) < 3
			return p, nil
		}
		w.start()
		equal(t, "requests", w.requests(), "dial, poll -, poll c1, poll c2")
		equal(t, "commits", w.committed(), []string{"1 @c1", "2 @c2", "3 @c3"})
		if r := asked[0]; r.MaxAgeMs != 3600000 || r.MaxEvents != 7 || r.Name != "x" {
			t.Errorf("asked with %+v", r)
		}
	})
}

func TestMalformed_IsSkippedAndItsCursorCounts(t *testing.T) {
	for _, params := range []string{
		`{"name":"x","timestamp":"2026-01-31T12:00:00Z","cursor":"c1"}`,
		`{"eventId":"a","timestamp":"2026-01-31T12:00:00Z","cursor":"c1"}`,
		`{"eventId":"a","name":"x","cursor":"c1"}`,
		`{"eventId":"a","name":"x","timestamp":"yesterday","cursor":"c1"}`,
		`{"eventId":7,"name":"x","timestamp":"2026-01-31T12:00:00Z","cursor":"c1"}`,
	} {
		inBubble(t, func(w *world) {
			w.stream = says(active("c0", false), told("event", params))
			w.start()
			equal(t, "commits after "+params, w.story(), "@c1")
			if s := w.status(); s.Counts.Malformed != 1 || s.LastError.Kind != "malformed" || w.errors("malformed") != 1 {
				t.Errorf("%s: it stands as %+v, %+v", params, s, s.LastError)
			}
		})
	}
	inBubble(t, func(w *world) { // what ingest would refuse
		w.reject = func(e *Event) string { return map[bool]string{true: "too large"}[e.ID != "b"] }
		w.stream = says(active("c0", false), event("a", "c1"), event("b", "c2"), event("c", "c3"))
		w.start()
		if s := w.status(); s.Counts.Malformed != 2 || s.Counts.Accepted != 1 || s.LastError.Message != "skipped: too large" || w.errors("malformed") != 2 || !s.Cursor {
			t.Errorf("it stands as %+v, %+v", s, s.LastError)
		}
	})
}

func TestOnly_LeavesEventsOutAndMovesOn(t *testing.T) {
	inBubble(t, func(w *world) {
		w.source.Only = []string{"build.*", "x.happened"}
		other := told("event", `{"eventId":"b","name":"heartbeat","timestamp":"1970-01-01T00:00:01Z","cursor":"c2"}`)
		w.stream = says(active("c0", false), event("a", "c1"), other)
		w.start()
		equal(t, "commits", w.story(), "a @c2")
		equal(t, "filtered", w.status().Counts.Filtered, int64(1))
	})
}

func TestOverflow_DropsAndComesAgain(t *testing.T) {
	inBubble(t, func(w *world) {
		w.source.MaxBuffered = 3
		block, streams := make(chan struct{}), 0
		w.refuse = func(b *Batch) error {
			w.mu.Unlock()
			<-block
			w.mu.Lock()
			return nil
		}
		w.stream = func(ctx context.Context, r Request, hear func(Notification)) error {
			streams++
			hear(active("c0", false))
			rest(time.Millisecond) // it is being stored
			for i := range 4 * (2 - streams) {
				hear(event(fmt.Sprint(i), fmt.Sprintf("c%d", i+1)))
			}
			return silent(ctx, r, hear)
		}
		w.start()
		w.pass(2 * time.Millisecond)
		close(block)
		w.pass(time.Millisecond)
		equal(t, "commits", w.committed(), []string{"@c0"})
		if s := w.status(); s.LastError == nil || s.LastError.Kind != "overflow" || s.State != Connecting {
			t.Errorf("it stands as %+v, %+v", s, s.LastError)
		}
		w.requests()
		w.pass(time.Second)
		equal(t, "requests a second later", w.requests(), "list, stream c0")
	})
}

func TestIdle_OpensAgain(t *testing.T) {
	inBubble(t, func(w *world) {
		w.source.IdleTimeout = 10 * time.Second
		w.stream = func(ctx context.Context, r Request, hear func(Notification)) error {
			hear(active("c0", false))
			rest(6 * time.Second)
			hear(beat("c1"))
			return silent(ctx, r, hear)
		}
		w.start()
		w.requests()
		w.pass(16*time.Second - time.Millisecond)
		equal(t, "state before", w.status().State, Streaming)
		w.pass(time.Millisecond)
		if s := w.status(); s.LastError == nil || s.LastError.Kind != "idle" || s.State != Connecting {
			t.Errorf("it stands as %+v, %+v", s, s.LastError)
		}
		w.pass(time.Second)
		equal(t, "requests a second later", w.requests(), "list, stream c1")
	})
}

func TestStream_ThatEndsIsOpenedAfterASecond(t *testing.T) {
	for name, end := range map[string]func(hear func(Notification)){
		"answered":   func(func(Notification)) {},
		"terminated": func(hear func(Notification)) { hear(told("terminated", `{"error":{"code":-32026,"message":"moved"}}`)) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				w.stream = func(_ context.Context, _ Request, hear func(Notification)) error {
					hear(active("c0", false))
					hear(event("a", "c1"))
					end(hear)
					return nil
				}
				w.start()
				equal(t, "commits", w.story(), "a @c1")
				w.requests()
				w.pass(time.Second - time.Millisecond)
				equal(t, "requests before", w.requests(), "")
				w.pass(time.Millisecond)
				equal(t, "requests then", w.requests(), "list, stream c1")
				if got := w.errors("stream"); got != 2 { // the second one has ended too
					t.Errorf("counted %v times", got)
				}
			})
		})
	}
}

func TestStream_AnErrorNotificationIsToldAndTheStreamGoesOn(t *testing.T) {
	inBubble(t, func(w *world) {
		w.stream = says(active("c0", false), told("error", `{"error":{"code":-32603,"message":"the log\ncannot be read"}}`), event("a", "c1"))
		w.start()
		s := w.status()
		if s.State != Streaming || s.Counts.Accepted != 1 || s.LastError.Kind != "stream" || s.LastError.Message != `error -32603: the log\ncannot be read` {
			t.Errorf("it stands as %+v, %+v", s, s.LastError)
		}
	})
}

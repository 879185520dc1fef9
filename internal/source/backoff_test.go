package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"attend/internal/engine"
	"attend/internal/store"
)

// failing returns each error once, then none.
func failing(errs ...error) func() error {
	return func() error {
		if len(errs) == 0 {
			return nil
		}
		err := errs[0]
		errs = errs[1:]
		return err
	}
}

// The store and the scopes hold the source up, never the other way round.
func TestBackOff_WhenWhatCameCannotBeStored(t *testing.T) {
	for kind, err := range map[string]error{
		"full":  fmt.Errorf("%w: scope s", ErrFull),
		"store": fmt.Errorf("append: %w", store.ErrUnavailable),
	} {
		t.Run(kind, func(t *testing.T) {
			inBubble(t, func(w *world) {
				fails := failing(nil, err, err, err, err, err, err)
				w.refuse = func(*Batch) error { return fails() }
				w.stream = func(ctx context.Context, r Request, hear func(Notification)) error {
					hear(active("c0", false))
					rest(time.Millisecond)
					hear(event("a", "c1"))
					return silent(ctx, r, hear)
				}
				w.start()
				for _, rung := range []int{1, 5, 15, 60, 60, 60} {
					w.pass(time.Millisecond)
					if s := w.status(); s.State != BackingOff || s.LastError.Kind != kind {
						t.Fatalf("it stands as %+v, %+v", s, s.LastError)
					}
					w.requests()
					w.pass(time.Duration(rung)*time.Second - time.Millisecond)
					equal(t, "requests before", w.requests(), "")
					w.pass(time.Millisecond)
					equal(t, "requests then", w.requests(), "list, stream c0")
				}
				w.pass(time.Millisecond)
				equal(t, "commits", w.committed(), []string{"@c0", "a @c1"})
				if s := w.status(); s.State != Streaming || s.Counts.Retries != 6 || s.RetryAt != 0 {
					t.Errorf("it stands as %+v", s)
				}
			})
		})
	}
}

// Whoever has lost the shard writes nothing more; whoever has it goes on.
func TestFence_TakesTheSourceAway(t *testing.T) {
	inBubble(t, func(w *world) {
		w.stream = says(active("c0", false))
		w.start()
		own := func(f store.Fence) {
			w.mu.Lock()
			w.fence = f
			w.mu.Unlock()
			w.pass(2*time.Second + time.Millisecond)
		}
		own(store.Fence{})
		if s := w.status(); s.State != Elsewhere || s.Cursor || w.open != 0 {
			t.Errorf("without the shard it stands as %+v, with %d sessions", s, w.open)
		}
		w.requests()
		own(store.Fence{Shard: -1, Token: 2})
		equal(t, "requests of the next owner", w.requests(), "dial, list, stream c0")
		equal(t, "state", w.status().State, Streaming)
	})
}

func TestNew_RefusesWhatCannotRun(t *testing.T) {
	inBubble(t, func(w *world) {
		for name, spoil := range map[string]func(*Source){
			"no name": func(s *Source) { s.Name = "" }, "no event": func(s *Source) { s.Event = "" },
			"no scope": func(s *Source) { s.Scope = "" }, "no dialer": func(s *Source) { s.Dialer = nil },
		} {
			s := w.source
			s.Dialer = w
			spoil(&s)
			_, err := New(Options{
				Sources: []Source{s}, Rows: w, Intake: w, Fence: func(int) (store.Fence, bool) { return w.fence, true },
				Policy: func() *engine.Policy { return w.policy }, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
			})
			if err == nil {
				t.Errorf("%s: it is taken", name)
			}
		}
		if _, err := New(Options{}); err == nil || errors.Is(err, store.ErrInvalid) {
			t.Errorf("without options: %v", err)
		}
	})
}

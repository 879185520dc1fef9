package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
)

func concurrentCases() []testCase {
	return []testCase{
		{"WaitReturnsAtOnceBehindTheHead", func(e *env) {
			e.write(entry("a", "b"))
			for after := range engine.Position(2) {
				if err := e.s.Wait(e.Context(), after); err != nil {
					e.Errorf("wait after %d: %v", after, err)
				}
			}
		}},
		{"AnAppendEndsEveryWait", func(e *env) {
			e.write(entry("a"))
			done := make(chan error)
			for range 20 {
				go func() { done <- waitFor(e.Context(), e.s, 1) }()
			}
			e.write(entry("b"))
			for range 20 {
				if err := <-done; err != nil {
					e.Errorf("wait: %v", err)
				}
			}
		}},
		{"WaitEndsWithItsContext", func(e *env) {
			ctx, cancel := context.WithCancel(e.Context())
			done := make(chan error)
			go func() { done <- waitFor(ctx, e.s, 0) }()
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				e.Errorf("wait: %v, want canceled", err)
			}
			late, cancel := context.WithDeadline(e.Context(), time.Now().Add(-time.Second))
			defer cancel()
			if err := waitFor(late, e.s, 0); !errors.Is(err, context.DeadlineExceeded) {
				e.Errorf("wait: %v, want deadline exceeded", err)
			}
		}},
		{"CallsOfAnEndedContextFail", func(e *env) {
			ctx, cancel := context.WithCancel(e.Context())
			cancel()
			for name, call := range callsOf(ctx, e.s, store.Fence{}) {
				if err := call(); !errors.Is(err, context.Canceled) {
					e.Errorf("%s: %v, want canceled", name, err)
				}
			}
		}},
		{"AppendersShareOneLog", appendersShareOneLog},
	}
}

// waitFor waits until the head is past after; a single Wait may return early.
func waitFor(ctx context.Context, s store.Store, after engine.Position) error {
	for {
		if err := s.Wait(ctx, after); err != nil {
			return err
		}
		h, err := s.Head(ctx)
		if err != nil || h.Position > after {
			return err
		}
	}
}

// appendersShareOneLog runs producers, an owner and a reader side by side. The
// reader must see one log without gaps in which every entry is whole, and
// every appender's entries stand in its own order.
func appendersShareOneLog(e *env) {
	const producers, calls = 6, 40
	fence := e.own()
	var group sync.WaitGroup
	total := 0
	for p := range producers {
		for c := range calls {
			total += c%4 + 1 + p%2
		}
		group.Go(func() { produce(e, p, calls) })
	}
	total += calls
	group.Go(func() {
		var after engine.Position
		for range calls {
			rs, err := e.s.Append(e.Context(), store.Entry{Steps: []engine.Step{settled("w")}, Scope: "owner", Fence: fence, After: after})
			if err != nil || rs[0].Err != nil {
				e.Errorf("owner's append: %v %+v", err, rs)
				return
			}
			after = rs[0].Last
		}
	})
	var log []engine.Record
	for len(log) < total && !e.Failed() {
		after := engine.Position(len(log))
		if err := waitFor(e.Context(), e.s, after); err != nil {
			e.Fatalf("wait: %v", err)
		}
		rs, err := e.s.Read(e.Context(), after, 7)
		if err != nil {
			e.Fatalf("read: %v", err)
		}
		log = append(log, rs...)
	}
	group.Wait()
	next := make(map[string]int)
	var stamp engine.Time
	for i, r := range log {
		if r.Position != engine.Position(i+1) || r.Stamp < stamp {
			e.Fatalf("record %d stands at %d with stamp %d after %d", i, r.Position, r.Stamp, stamp)
		}
		stamp = r.Stamp
		if r.Event != nil {
			if want := fmt.Sprint(next[r.Scope]); r.Event.ID != want {
				e.Fatalf("scope %s: event %s where %s belongs", r.Scope, r.Event.ID, want)
			}
			next[r.Scope]++
		}
		// The events of an entry carry its length and their place in it.
		if r.Event != nil && strings.HasPrefix(r.Event.Text, "0/") {
			var n int
			if _, err := fmt.Sscanf(r.Event.Text, "0/%d", &n); err != nil {
				e.Fatal(err)
			}
			for k := 1; k < n; k++ {
				if other := log[i+k]; other.Event == nil || other.Event.Text != fmt.Sprintf("%d/%d", k, n) || other.Scope != r.Scope {
					e.Fatalf("the entry at %d is torn: %+v", r.Position, other)
				}
			}
		}
	}
	e.same("records", len(log), total)
}

// produce appends calls of one to five events, counted in their ids.
func produce(e *env, p, calls int) {
	scope := fmt.Sprintf("p%d", p)
	id := 0
	for c := range calls {
		n := c%4 + 1
		entries := []store.Entry{{}}
		if p%2 == 1 { // a call of two entries
			entries = append(entries, store.Entry{})
		}
		for i := range entries {
			size := n
			if i == 1 {
				size = 1
			}
			for k := range size {
				ev := event(scope, fmt.Sprint(id))
				ev.Text = fmt.Sprintf("%d/%d", k, size)
				entries[i].Events = append(entries[i].Events, ev)
				id++
			}
		}
		rs, err := e.s.Append(e.Context(), entries...)
		if err != nil {
			e.Errorf("append: %v", err)
			return
		}
		for i := range rs {
			if rs[i].Err != nil || int(rs[i].Last-rs[i].First)+1 != len(entries[i].Events) || (i > 0 && rs[i].First <= rs[i-1].Last) {
				e.Errorf("receipts %+v", rs)
				return
			}
		}
	}
}

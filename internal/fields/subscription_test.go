package fields_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"attend/internal/field"
	"attend/internal/fields"
	"attend/internal/store"
	"attend/internal/store/memory"
)

// result is a pushed result as a reader sees it.
type result struct {
	Field     string            `json:"field"`
	Entries   *[]field.Scored   `json:"entries"`
	Conflicts *[]field.Conflict `json:"conflicts"`
	Epoch     int64             `json:"epoch"`
	Cut       *int              `json:"cut"`
}

func subscribe(t *testing.T, s *fields.Service, op field.Op, p json.RawMessage) *fields.Subscription {
	t.Helper()
	sub, err := s.Subscribe(t.Context(), op, "", p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sub.Close)
	return sub
}

func look(t *testing.T, sub *fields.Subscription) fields.Snapshot {
	t.Helper()
	seen, err := sub.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

// next waits for a push; ok is unset when none came for a while.
func next(t *testing.T, sub *fields.Subscription, since fields.Mark) (seen fields.Snapshot, ok bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	seen, err := sub.Next(ctx, since)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	return seen, err == nil
}

func read(t *testing.T, seen fields.Snapshot) (r result) {
	t.Helper()
	b, err := json.Marshal(seen.Result)
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// bubble runs a test in a synctest bubble with a service of its own.
func bubble(t *testing.T, test func(t *testing.T, s *fields.Service, st *memory.Store)) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New(memory.Options{})
		s := open(t, st)
		t.Cleanup(s.Close)
		test(t, s, st)
	})
}

func TestSubscription_GivesEachChangeOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *fields.Service, _ *memory.Store) {
		sub := subscribe(t, s, field.OpAttune, params("agent", "kelp", "topic", "tide"))
		first, ok := next(t, sub, fields.Mark{})
		if r := read(t, first); !ok || r.Field != "default" || len(*r.Entries) != 0 || r.Cut == nil || *r.Cut != 0 {
			t.Fatalf("the zero mark gives %s, %v, want the empty result", first.Result, ok)
		}
		if seen, ok := next(t, sub, first.Mark); ok {
			t.Fatalf("without a change it gives %s", seen.Result)
		}
		id := do[field.Written](t, s, "", field.OpWrite, note("gull", "tide", "height", 4)).ID
		second, ok := next(t, sub, first.Mark)
		if r := read(t, second); !ok || len(*r.Entries) != 1 || (*r.Entries)[0].ID != id || r.Conflicts != nil || r.Epoch != 1 {
			t.Fatalf("after a write it gives %s", second.Result)
		}
		do[field.Done](t, s, "", field.OpRetract, params("id", id, "agent", "gull", "intent", "it was mistaken"))
		third, ok := next(t, sub, second.Mark)
		if r := read(t, third); !ok || len(*r.Entries) != 0 {
			t.Fatalf("after the retraction it gives %s", third.Result)
		}
		if first.Mark.Identity != third.Mark.Identity || first.Mark.Number == third.Mark.Number {
			t.Errorf("marks %v and %v: want one result at two numbers", first.Mark, third.Mark)
		}
		if sub.EventID(first.Mark) == sub.EventID(third.Mark) {
			t.Error("two pushes have one id")
		}
	})
}

// What is given moves as the paces say: the first change at once, then at most
// one a second, the last state, and nothing where it has come back.
func TestSubscription_Paces(t *testing.T) {
	bubble(t, func(t *testing.T, s *fields.Service, _ *memory.Store) {
		sub := subscribe(t, s, field.OpAttune, params("agent", "kelp", "topic", "tide", "max_units", 1000))
		mark := look(t, sub).Mark
		start := time.Now()
		stop := make(chan struct{})
		written := 0
		go func() {
			tick := time.NewTicker(30 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					do[field.Written](t, s, "", field.OpWrite, note("gull", "tide", "n", written))
					written++
				case <-stop:
					return
				}
			}
		}()
		for i := range 5 {
			seen, ok := next(t, sub, mark)
			want := 30*time.Millisecond + time.Duration(i)*time.Second
			if at := time.Since(start); !ok || at != want {
				t.Fatalf("push %d came after %v, want %v", i, at, want)
			}
			synctest.Wait()
			if r := read(t, seen); len(*r.Entries) < written-1 {
				t.Errorf("push %d has %d entries of %d", i, len(*r.Entries), written)
			}
			mark = seen.Mark
		}
		close(stop)
		synctest.Wait()

		mark = look(t, sub).Mark
		id := do[field.Written](t, s, "", field.OpWrite, note("gull", "tide")).ID
		do[field.Done](t, s, "", field.OpRetract, params("id", id, "agent", "gull", "intent", "it was mistaken"))
		if seen, ok := next(t, sub, mark); ok {
			t.Errorf("a result that came back to what was known is given: %s", seen.Result)
		}
	})
}

// An earlier change that was none for the reader does not make a contradiction
// wait; a third within the second does.
func TestSubscription_WhatIsNotToldTakesNoTime(t *testing.T) {
	bubble(t, func(t *testing.T, s *fields.Service, _ *memory.Store) {
		do[field.Written](t, s, "", field.OpWrite, note("kelp", "price", "price", 49))
		sub := subscribe(t, s, field.OpReckon, params("agent", "writer", "topic", "price"))
		mark := look(t, sub).Mark
		for i, c := range []struct {
			vain int           // changes before that are none for the reader
			want time.Duration // from the contradiction to its push
		}{{0, 0}, {1, 0}, {2, 800 * time.Millisecond}} {
			time.Sleep(10 * time.Second) //arch:sleep the clock of a synctest bubble
			given := make(chan fields.Snapshot, 1)
			go func() {
				if seen, ok := next(t, sub, mark); ok {
					given <- seen
				}
				close(given)
			}()
			synctest.Wait()
			for range c.vain {
				do[field.Written](t, s, "", field.OpWrite, note("kelp", "price", "note", "fine"))
				time.Sleep(100 * time.Millisecond) //arch:sleep as above
			}
			do[field.Written](t, s, "", field.OpWrite, note("gull", "price", "price", i))
			start := time.Now()
			seen, ok := <-given
			if took := time.Since(start); !ok || took != c.want {
				t.Errorf("after %d changes that were none it came after %v, want %v", c.vain, took, c.want)
			}
			mark = seen.Mark
		}
	})
}

func TestSubscription_NotConcerned(t *testing.T) {
	bubble(t, func(t *testing.T, s *fields.Service, _ *memory.Store) {
		sub := subscribe(t, s, field.OpAttune, params("agent", "kelp", "topic", "tide"))
		wide := subscribe(t, s, field.OpAttune, params("agent", "kelp", "topic", "tide", "only_topic", false))
		mark, wideMark := look(t, sub).Mark, look(t, wide).Mark
		do[field.Written](t, s, "", field.OpWrite, note("gull", "reef"))
		do[field.Written](t, s, "", field.OpWrite, note("kelp", "tide")) // one's own
		do[field.Drafted](t, s, "", field.OpDraft, note("gull", "tide")) // somebody's draft
		if seen, ok := next(t, sub, mark); ok {
			t.Errorf("what does not concern it gives %s", seen.Result)
		}
		if n := sub.Checked(); n != 3 {
			t.Errorf("it has looked up to change %d, want 3", n)
		}
		do[field.Written](t, s, "", field.OpWrite, note("gull", "tide"))
		synctest.Wait()
		if n := sub.Checked(); n != 3 {
			t.Errorf("it says that it has looked up to change %d, and nobody has", n)
		}
		if look(t, sub); sub.Checked() != 4 {
			t.Errorf("after a look it stands at %d, want 4", sub.Checked())
		}
		if seen, ok := next(t, wide, wideMark); !ok || len(*read(t, seen).Entries) != 2 {
			t.Errorf("who asked for all topics gets %s, %v", seen.Result, ok)
		}
	})
}

// A role that changes may change the order.
func TestSubscription_RegistrationConcernsEverybody(t *testing.T) {
	bubble(t, func(t *testing.T, s *fields.Service, _ *memory.Store) {
		do[field.Written](t, s, "", field.OpWrite, note("gull", "tide", "n", 1))
		do[field.Written](t, s, "", field.OpWrite, note("mara", "tide", "n", 2))
		sub := subscribe(t, s, field.OpAttune, params("agent", "kelp", "topic", "tide", "role", "pilot"))
		seen := look(t, sub)
		do[field.Registered](t, s, "", field.OpRegister, params("id", "gull", "role", "pilot"))
		after, ok := next(t, sub, seen.Mark)
		if r := read(t, after); !ok || (*r.Entries)[0].Agent != "gull" {
			t.Errorf("after gull became a pilot: %s, %v", after.Result, ok)
		}
	})
}

func TestSubscription_Reckon(t *testing.T) {
	bubble(t, func(t *testing.T, s *fields.Service, _ *memory.Store) {
		only := subscribe(t, s, field.OpReckon, params("agent", "writer", "topic", "price"))
		both := subscribe(t, s, field.OpReckon, params("agent", "writer", "topic", "price", "conflictsOnly", false))
		mark, bothMark := look(t, only).Mark, look(t, both).Mark
		do[field.Written](t, s, "", field.OpWrite, note("kelp", "price", "price", 49))
		if seen, ok := next(t, only, mark); ok {
			t.Errorf("one entry is no conflict: %s", seen.Result)
		}
		seen, ok := next(t, both, bothMark)
		if r := read(t, seen); !ok || len(*r.Entries) != 1 || len(*r.Conflicts) != 0 {
			t.Errorf("with entries it gives %s, %v", seen.Result, ok)
		}
		do[field.Written](t, s, "", field.OpWrite, note("gull", "price", "price", 39))
		seen, ok = next(t, only, mark)
		r := read(t, seen)
		if !ok || r.Entries != nil || len(*r.Conflicts) != 1 || (*r.Conflicts)[0].A.Agent != "gull" {
			t.Errorf("the conflict is given as %s, %v", seen.Result, ok)
		}
		do[field.Written](t, s, "", field.OpWrite, note("mara", "price", "seats", 3))
		if seen, ok := next(t, only, seen.Mark); ok {
			t.Errorf("an entry that contradicts nobody gives %s", seen.Result)
		}
	})
}

// A mark means the same to a service that has just started.
func TestSubscription_ResumesAfterARestart(t *testing.T) {
	bubble(t, func(t *testing.T, s *fields.Service, st *memory.Store) {
		ask := params("agent", "kelp", "topic", "tide")
		do[field.Written](t, s, "", field.OpWrite, note("gull", "tide"))
		sub := subscribe(t, s, field.OpAttune, ask)
		seen := look(t, sub)
		sub.Close()
		s.Close()

		s = open(t, st)
		t.Cleanup(s.Close)
		do[field.Written](t, s, "", field.OpWrite, note("gull", "reef"))
		sub = subscribe(t, s, field.OpAttune, ask)
		if again, ok := next(t, sub, seen.Mark); ok {
			t.Fatalf("nothing changed, and it gives %s", again.Result)
		}
		sub.Close()
		do[field.Written](t, s, "", field.OpWrite, note("gull", "tide"))
		sub = subscribe(t, s, field.OpAttune, ask)
		changed, ok := next(t, sub, seen.Mark)
		if !ok || len(*read(t, changed).Entries) != 2 {
			t.Fatalf("what changed meanwhile is given as %s, %v", changed.Result, ok)
		}
		if again, ok := next(t, sub, changed.Mark); ok {
			t.Errorf("it is given twice: %s", again.Result)
		}
	})
}

func TestSubscription_EqualOnesHaveOneEventID(t *testing.T) {
	bubble(t, func(t *testing.T, s *fields.Service, _ *memory.Store) {
		id := func(op field.Op, p string) string {
			return subscribe(t, s, op, json.RawMessage(p)).EventID(fields.Mark{Number: 7})
		}
		a := id(field.OpAttune, `{"agent":"kelp","topic":"tide"}`)
		for p, same := range map[string]bool{ //arch:sorted each by itself
			` {"topic": "tide", "agent":"kel\u0070"} `: true,
			`{"agent":"kelp","topic":"reef"}`:          false,
			`{"agent":"kelp"}`:                         false,
		} {
			if b := id(field.OpAttune, p); (a == b) != same {
				t.Errorf("the same id for %s: %v, want %v", p, a == b, same)
			}
		}
		if a == id(field.OpReckon, `{"agent":"kelp","topic":"tide"}`) {
			t.Error("attune and reckon share an id")
		}
	})
}

func TestSubscription_ResultFits(t *testing.T) {
	bubble(t, func(t *testing.T, s *fields.Service, _ *memory.Store) {
		small := do[field.Written](t, s, "", field.OpWrite, note("gull", "tide", "n", -1)).ID
		for i := range 12 {
			do[field.Written](t, s, "", field.OpWrite, note("gull", "tide", "n", i, "text", strings.Repeat("<", 9<<10)))
		}
		for _, c := range []struct {
			op  field.Op
			all int
		}{{field.OpAttune, 13}, {field.OpReckon, 13 * 12 / 2}} {
			seen := look(t, subscribe(t, s, c.op, params("agent", "kelp", "topic", "tide")))
			b, _ := json.Marshal(seen.Result)
			r := read(t, seen)
			given := 0
			if r.Entries != nil {
				given += len(*r.Entries)
			}
			if r.Conflicts != nil {
				given += len(*r.Conflicts)
			}
			if len(b) > 256<<10 || len(b) < 100<<10 || given+*r.Cut != c.all || *r.Cut == 0 {
				t.Errorf("%s: %d bytes, %d given and %d cut, want %d together in 256 KiB", c.op, len(b), given, *r.Cut, c.all)
			}
			if c.op == field.OpAttune && (*r.Entries)[given-1].ID != small {
				t.Error("the small entry at the end is kept out by the large ones before it")
			}
		}
	})
}

func TestSubscription_Refuses(t *testing.T) {
	s := open(t, memory.New(memory.Options{}))
	defer s.Close()
	for _, c := range []struct {
		op   field.Op
		name string
		p    string
		code string
	}{
		{field.OpAttune, "", `{}`, field.AgentRequired},
		{field.OpAttune, "", ``, field.AgentRequired},
		{field.OpAttune, "", `null`, field.AgentRequired},
		{field.OpReckon, "", `{"agent":"a","max_units":-1}`, field.InvalidQuery},
		{field.OpAttune, "", `{"agent":"a","conflictsOnly":true}`, field.InvalidQuery},
		{field.OpAttune, "\x00", `{"agent":"a"}`, field.InvalidQuery},
	} {
		_, err := s.Subscribe(t.Context(), c.op, c.name, json.RawMessage(c.p))
		var refused *field.Error
		if !errors.As(err, &refused) || refused.Code != c.code {
			t.Errorf("%s %s: %v, want %s", c.op, c.p, err, c.code)
		}
	}
	if _, err := s.Subscribe(t.Context(), field.OpWrite, "", nil); !errors.Is(err, fields.ErrUnknownOperation) {
		t.Errorf("a subscription to write: %v", err)
	}
}

// What another replica writes is pushed, too; so is what was written although
// its writer was told that nobody knows.
func TestSubscription_SeesWhatOthersWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New(memory.Options{})
		one, two := open(t, st, shared), open(t, st, shared)
		defer one.Close()
		defer two.Close()
		sub := subscribe(t, one, field.OpAttune, params("agent", "kelp"))
		seen := look(t, sub)
		time.Sleep(100 * time.Millisecond) //arch:sleep the clock of a synctest bubble
		start := time.Now()
		do[field.Written](t, two, "", field.OpWrite, note("gull", "tide"))
		if _, ok := next(t, sub, seen.Mark); !ok || time.Since(start) > time.Second {
			t.Errorf("another replica's write: pushed %v after %v", ok, time.Since(start))
		}
		sub.Close()
	})
}

// lostAnswer is a store that loses the answers to appends.
type lostAnswer struct{ *memory.Store }

func (s lostAnswer) Append(ctx context.Context, entries ...store.Entry) ([]store.Receipt, error) {
	if _, err := s.Store.Append(ctx, entries...); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("append: %w", store.ErrUnavailable)
}

func TestSubscription_SeesWhatNobodyKnowsOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, lostAnswer{memory.New(memory.Options{})})
		defer s.Close()
		sub := subscribe(t, s, field.OpAttune, params("agent", "kelp"))
		seen := look(t, sub)
		if _, err := s.Do(t.Context(), "", field.OpWrite, note("gull", "tide")); !errors.Is(err, fields.ErrUnknownOutcome) || !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("the writer is told: %v", err)
		}
		after, ok := next(t, sub, seen.Mark)
		if diff := cmp.Diff(1, len(*read(t, after).Entries)); !ok || diff != "" {
			t.Errorf("pushed: %v, %s", ok, after.Result)
		}
		sub.Close()
	})
}

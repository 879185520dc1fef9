package fields_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"attend/internal/field"
	"attend/internal/fields"
	"attend/internal/store"
	"attend/internal/store/memory"
	"attend/internal/store/storetest"
)

// action is one operation as a check draws it. Ids are of what was
// acknowledged before, by its place.
type action struct {
	op     field.Op
	agent  string
	topic  string
	value  int
	target int
}

func drawAction(t *rapid.T) action {
	return action{
		op: rapid.SampledFrom([]field.Op{
			field.OpWrite, field.OpWrite, field.OpDraft, field.OpDraft, field.OpCommit, field.OpDiscard,
			field.OpRetract, field.OpSupersede, field.OpRegister, field.OpDeregister, field.OpAttune,
		}).Draw(t, "op"),
		agent:  rapid.SampledFrom([]string{"gull", "kelp", "mara"}).Draw(t, "agent"),
		topic:  rapid.SampledFrom([]string{"tide", "reef"}).Draw(t, "topic"),
		value:  rapid.IntRange(0, 2).Draw(t, "value"),
		target: rapid.IntRange(0, 30).Draw(t, "target"),
	}
}

// actor carries actions out, and keeps what was acknowledged.
type actor struct {
	mu     sync.Mutex
	acked  []string // ids of entries and drafts
	denied int      // operations without an answer
}

func (a *actor) id(n int) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.acked) == 0 {
		return "none"
	}
	return a.acked[n%len(a.acked)]
}

func (a *actor) act(t tester, s *fields.Service, x action) {
	var p json.RawMessage
	switch x.op {
	case field.OpWrite, field.OpDraft:
		p = note(x.agent, x.topic, "value", x.value)
	case field.OpCommit:
		p = params("draft_id", a.id(x.target))
	case field.OpDiscard:
		p = params("draft_id", a.id(x.target), "intent", "no longer needed")
	case field.OpRetract:
		p = params("id", a.id(x.target), "intent", "it was mistaken", "agent", x.agent)
	case field.OpSupersede:
		p = params("superseding_id", a.id(x.target), "intent", "known better now", "agent", x.agent, "entry", params("topic", x.topic, "value", x.value))
	case field.OpRegister:
		p = params("id", x.agent, "role", fmt.Sprint("role ", x.value))
	case field.OpDeregister:
		p = params("id", x.agent)
	default:
		p = params("agent", x.agent)
	}
	got, err := s.Do(context.Background(), "", x.op, p)
	a.mu.Lock()
	defer a.mu.Unlock()
	var refused *field.Error
	switch {
	case errors.Is(err, store.ErrUnavailable):
		if x.op.Changes() && !errors.Is(err, fields.ErrUnknownOutcome) && !strings.Contains(err.Error(), "not written") {
			t.Errorf("%s: the error does not say what is known: %v", x.op, err)
		}
		a.denied++
	case errors.As(err, &refused):
	case err != nil:
		t.Errorf("%s: %v", x.op, err)
	}
	switch r := got.(type) {
	case field.Written:
		a.acked = append(a.acked, r.ID)
	case field.Drafted:
		a.acked = append(a.acked, r.DraftID)
	}
}

// folded is the plain fold of what a store has of a Field.
func folded(t tester, st store.Fields, name string) *field.State {
	t.Helper()
	state := field.NewState()
	for {
		page, err := st.FieldChanges(context.Background(), name, state.Number(), 100)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			return state
		}
		for _, p := range page {
			c, err := field.DecodeChange(p.Format, p.Body)
			if err == nil {
				err = state.Apply(c)
			}
			if err != nil {
				t.Fatalf("change %d: %v", p.Number, err)
			}
		}
	}
}

// compare holds a service's answers against the fold of the store.
func compare(t tester, s *fields.Service, state *field.State, acked []string) {
	t.Helper()
	for _, agent := range []string{"gull", "kelp", "mara"} {
		for _, q := range []struct {
			op field.Op
			p  json.RawMessage
		}{
			{field.OpRead, params("caller", agent)},
			{field.OpReckon, params("agent", agent)},
			{field.OpAttune, params("agent", agent, "topic", "tide")},
		} {
			want, err := state.Decide(q.op, q.p, field.DefaultSettings(), field.Draw{})
			if err != nil {
				t.Fatal(err)
			}
			got := do[any](t, s, "", q.op, q.p)
			if !reflect.DeepEqual(want.Result, got) {
				t.Errorf("%s for %s (-fold +service):\n%s", q.op, agent, cmp.Diff(want.Result, got))
			}
		}
	}
	for _, id := range acked {
		_, entry := state.Entry(id)
		if _, draft := state.Draft(id); !entry && !draft {
			t.Errorf("%s was acknowledged, and the store does not have it", id)
		}
	}
}

// Whatever append fails, before or after its work: what was acknowledged is in
// the store, and the service holds what is in the store.
func TestService_IsTheFoldOfItsStore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inner := memory.New(memory.Options{})
		faulty := storetest.Faulty(inner, storetest.Fault{
			N:     rapid.IntRange(0, 12).Draw(t, "n"),
			Ops:   []storetest.Op{storetest.OpAppend, storetest.OpFieldChanges},
			After: rapid.Bool().Draw(t, "after"),
		})
		s := open(t, faulty, func(o *fields.Options) { o.Shared = rapid.Bool().Draw(t, "shared") })
		defer s.Close()
		var a actor
		for _, together := range rapid.SliceOfN(rapid.SliceOfN(rapid.Custom(drawAction), 1, 6), 1, 12).Draw(t, "actions") {
			var all sync.WaitGroup
			for _, x := range together {
				all.Go(func() { a.act(t, s, x) })
			}
			all.Wait()
		}
		if faulty.Fired() == storetest.OpAppend && a.denied == 0 {
			t.Error("an append failed, and nobody was told")
		}
		for range 12 { // a fault that is still to come comes now
			_, _ = faulty.FieldChanges(context.Background(), "none", 0, 1)
		}
		compare(t, s, folded(t, inner, "default"), a.acked)
	})
}

// Two replicas write to one store, and take turns in being faster.
func TestService_SharedStore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st := memory.New(memory.Options{})
		replicas := []*fields.Service{open(t, st, shared), open(t, st, shared)}
		var a actor
		var all sync.WaitGroup
		for i, line := range rapid.SliceOfN(rapid.SliceOfN(rapid.Custom(drawAction), 1, 8), 2, 8).Draw(t, "lines") {
			all.Go(func() {
				for _, x := range line {
					a.act(t, replicas[i%2], x)
				}
			})
		}
		all.Wait()
		state := folded(t, st, "default")
		for _, s := range replicas {
			compare(t, s, state, a.acked)
			s.Close()
		}
		if a.denied > 0 {
			t.Errorf("%d operations got no answer", a.denied)
		}
	})
}

// Even where nobody said that the store is shared, another writer costs no
// more than a second try.
func TestService_CatchesUpOnConflict(t *testing.T) {
	st := memory.New(memory.Options{})
	one, two := open(t, st), open(t, st)
	defer one.Close()
	defer two.Close()
	var want []string
	for range 5 {
		for _, s := range []*fields.Service{one, two} {
			want = append(want, do[field.Written](t, s, "", field.OpWrite, note("gull", "tide")).ID)
		}
	}
	do[field.Written](t, one, "", field.OpWrite, note("gull", "tide"))
	page := do[field.Page](t, one, "", field.OpRead, params())
	got := make([]string, len(page.Entries))
	for i, e := range page.Entries {
		got[i] = e.ID
	}
	if !slices.Equal(got[:len(want)], want) {
		t.Errorf("entries %q, want %q and one more", got, want)
	}
}

// alwaysConflict is a store in which somebody else is always faster.
type alwaysConflict struct {
	*memory.Store
	appends int
}

func (s *alwaysConflict) Append(_ context.Context, entries ...store.Entry) ([]store.Receipt, error) {
	s.appends++
	receipts := make([]store.Receipt, len(entries))
	for i := range receipts {
		receipts[i].Err = store.ErrConflict
	}
	return receipts, nil
}

func TestService_GivesUpOnConflicts(t *testing.T) {
	st := &alwaysConflict{Store: memory.New(memory.Options{})}
	s := open(t, st)
	defer s.Close()
	_, err := s.Do(t.Context(), "", field.OpWrite, note("gull", "tide"))
	if !errors.Is(err, store.ErrConflict) || !strings.Contains(err.Error(), "not written") || st.appends < 2 || st.appends > 100 {
		t.Errorf("after %d tries: %v", st.appends, err)
	}
}

func TestService_EveryCallMayFail(t *testing.T) {
	storetest.EveryCall(t, []storetest.Op{storetest.OpAppend, storetest.OpHead, storetest.OpFieldChanges}, func(t *testing.T, f storetest.Fault) *storetest.FaultyStore {
		inner := memory.New(memory.Options{})
		faulty := storetest.Faulty(inner, f)
		s := open(t, faulty)
		defer s.Close()
		var a actor
		for i, op := range []field.Op{field.OpRegister, field.OpWrite, field.OpDraft, field.OpCommit, field.OpSupersede, field.OpRetract} {
			a.act(t, s, action{op: op, agent: "gull", topic: "tide", target: i})
		}
		if sub, err := s.Subscribe(t.Context(), field.OpAttune, "", params("agent", "kelp")); err == nil {
			sub.Close()
		} else if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("subscribe: %v", err)
		}
		compare(t, s, folded(t, inner, "default"), a.acked)
		return faulty
	})
}

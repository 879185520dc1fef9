package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
	"attend/internal/store"
)

// Faults does what a daemon does on a store, of which one call after the other
// fails, before or after its work. Whoever tries again what failed, and looks
// first whether what is not to be written twice was written, ends with the same
// store and reads the same.
func Faults(t *testing.T, open Open) {
	EveryCall(t, nil, func(t *testing.T, f Fault) *FaultyStore {
		inner := open(t, time.Now)
		w := &faultyWork{t: t, s: Faulty(inner, f)}
		w.write()
		w.read(w.s)
		w.read(inner) // and it is so whoever asks
		return w.s
	})
}

// faultyWork tries again what fails.
type faultyWork struct {
	t     *testing.T
	s     *FaultyStore
	fence store.Fence
	steps []engine.Position
}

// again makes a call until it succeeds: the second time at the latest.
func again[T any](t *testing.T, call func(ctx context.Context) (T, error)) T {
	t.Helper()
	v, err := call(t.Context())
	if errors.Is(err, store.ErrUnavailable) {
		v, err = call(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// append writes an entry. Whether one was written whose answer was lost, there
// tells: then it is not written again.
func (w *faultyWork) append(e store.Entry, there func() bool) {
	w.t.Helper()
	rs, err := w.s.Append(w.t.Context(), e)
	if errors.Is(err, store.ErrUnavailable) && !there() {
		rs, err = w.s.Append(w.t.Context(), e)
	}
	if err == nil {
		err = rs[0].Err
	}
	if err != nil && !errors.Is(err, store.ErrUnavailable) {
		w.t.Fatal(err)
	}
}

const faultyRounds = 3

func (w *faultyWork) write() {
	w.fence = again(w.t, w.s.Own)
	for round := range faultyRounds {
		after := engine.Position(0)
		if round > 0 {
			after = w.steps[round-1]
		}
		said := fmt.Append(nil, round)
		e := store.Entry{
			Scope: "a", Fence: w.fence, After: after, Steps: []engine.Step{settled("w")},
			Events: []store.NewEvent{{Scope: "a", Event: engine.Event{ID: fmt.Sprint(round), Name: "n", Kind: engine.Closing}}},
			Puts:   []store.Put{{Space: "x", Key: "k", Value: said}},
			Field:  &store.FieldAppend{Name: "f", After: int64(round), Changes: []store.FieldChange{{Format: 1, Body: said}}},
		}
		w.append(e, func() bool {
			return again(w.t, func(ctx context.Context) (int64, error) { return w.s.FieldHead(ctx, "f") }) > int64(round)
		})
		recs := again(w.t, func(ctx context.Context) ([]engine.Record, error) {
			return w.s.Steps(ctx, store.StepQuery{Scope: "a", After: after})
		})
		if len(recs) != 1 {
			w.t.Fatalf("round %d: %d steps behind %d, want 1", round, len(recs), after)
		}
		w.steps = append(w.steps, recs[0].Position)
		row := store.StateRow{
			Scope: "a", Position: recs[0].Position, Live: true, Format: engine.Format, Body: said,
			Blocks: []store.Block{{Seq: int64(round), Body: said}},
		}
		again(w.t, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, w.s.SaveStates(ctx, w.fence, []store.StateRow{row}, recs[0].Position)
		})
	}
}

// faultySeen is what is read in the end.
type faultySeen struct {
	Head, Checkpoint engine.Position
	Log, Picked      []string
	State            store.StateRow
	Live             int
	Scopes, Fields   []string
	Row              string
	Rows             []store.Put
	Last             int64
	Changes          []store.FieldChange
	Secret           bool
}

func (w *faultyWork) read(s store.Store) {
	w.t.Helper()
	var got faultySeen
	got.Head = again(w.t, s.Head).Position
	again(w.t, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.Wait(ctx, got.Head-1) })
	names := func(recs []engine.Record) (out []string) {
		for i := range recs {
			if recs[i].Event != nil {
				out = append(out, recs[i].Event.ID)
			} else {
				out = append(out, string(recs[i].Step.Kind))
			}
		}
		return out
	}
	got.Log = names(again(w.t, func(ctx context.Context) ([]engine.Record, error) { return s.Read(ctx, 0, 100) }))
	got.Picked = names(again(w.t, func(ctx context.Context) ([]engine.Record, error) { return s.Events(ctx, []engine.Position{3}) }))
	got.Checkpoint = again(w.t, func(ctx context.Context) (engine.Position, error) { return s.Checkpoint(ctx, w.fence) })
	got.State = again(w.t, func(ctx context.Context) (store.StateRow, error) { return s.LoadState(ctx, "a") })
	got.Live = len(again(w.t, func(ctx context.Context) ([]store.StateRow, error) { return s.LiveStates(ctx, "", 10) }))
	got.Scopes = again(w.t, func(ctx context.Context) ([]string, error) { return s.ScopeNames(ctx, "", 10) })
	got.Row = string(again(w.t, func(ctx context.Context) ([]byte, error) { return s.Row(ctx, "x", "k") }))
	got.Rows = again(w.t, func(ctx context.Context) ([]store.Put, error) { return s.Rows(ctx, "x") })
	got.Last = again(w.t, func(ctx context.Context) (int64, error) { return s.FieldHead(ctx, "f") })
	got.Fields = again(w.t, func(ctx context.Context) ([]string, error) { return s.FieldNames(ctx, "", 10) })
	got.Changes = again(w.t, func(ctx context.Context) ([]store.FieldChange, error) { return s.FieldChanges(ctx, "f", 0, 10) })
	first, second := again(w.t, s.Secret), again(w.t, s.Secret)
	got.Secret = len(first) > 0 && slices.Equal(first, second)

	want := faultySeen{
		Head: 6, Checkpoint: 6, Log: []string{"0", "settled", "1", "settled", "2", "settled"}, Picked: []string{"1"},
		State: store.StateRow{Scope: "a", Position: 6, Live: true, Format: engine.Format, Body: []byte("2"), Blocks: []store.Block{
			{Seq: 0, Body: []byte("0")}, {Seq: 1, Body: []byte("1")}, {Seq: 2, Body: []byte("2")},
		}},
		Live: 1, Scopes: []string{"a"}, Fields: []string{"f"}, Row: "2", Rows: []store.Put{{Space: "x", Key: "k", Value: []byte("2")}}, Last: 3,
		Changes: []store.FieldChange{{Number: 1, Format: 1, Body: []byte("0")}, {Number: 2, Format: 1, Body: []byte("1")}, {Number: 3, Format: 1, Body: []byte("2")}},
		Secret:  true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("the store is another one (-want +got):\n%s", diff)
	}
}

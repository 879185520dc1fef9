package ingest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
	"attend/internal/store"
)

// wholeLog keeps entries as they were appended, and fails those of an old fence.
type wholeLog struct {
	*memoryLog
	entries []store.Entry
	err     error // of the next appends' last entry
}

func (l *wholeLog) Append(ctx context.Context, entries ...store.Entry) ([]store.Receipt, error) {
	receipts := make([]store.Receipt, len(entries))
	for i := range entries {
		if i == len(entries)-1 && l.err != nil {
			receipts[i].Err = l.err
			return receipts, nil
		}
		r, err := l.memoryLog.Append(ctx, entries[i])
		if err != nil {
			return nil, err
		}
		receipts[i] = r[0]
	}
	l.entries = append(l.entries, entries...)
	return receipts, nil
}

func newWholeWorld(t *testing.T) (*world, *wholeLog) {
	t.Helper()
	var log *wholeLog
	w := newWorld(t, func(w *world, o *Options) {
		log = &wholeLog{memoryLog: w.log}
		o.Log = log
		o.Allows = func(context.Context, string) bool { return false } // it is not asked
	})
	return w, log
}

func TestPushWhole_EventsAndRowsAreOneEntryBehindTheGaps(t *testing.T) {
	w, log := newWholeWorld(t)
	put, fence := store.Put{Space: "source", Key: "k", Value: []byte("c1")}, store.Fence{Shard: 3, Token: 9}
	whole := &Whole{
		Gaps: []string{"s", "no\x00scope", "t"},
		Lines: []Line{
			{Scope: "s", Name: "message.created", ID: "1"},
			{Scope: "s", Name: "", ID: "2"},
			{Scope: "t", Name: "n", ID: "3", Text: strings.Repeat("x", 1<<20)},
			{Scope: "t", Name: "n", ID: "4"},
			{Scope: "t", Name: "n", ID: "4"},
		},
		Puts: []store.Put{put}, Fence: fence,
	}
	got, err := w.PushWhole(t.Context(), whole)
	if err != nil || got.counts() != "422: 2 accepted, 1 duplicates, 2 rejected" || len(got.Errors) != 2 || got.Errors[1].Line != 3 {
		t.Fatal(got, err)
	}
	want := []store.Entry{
		{Scope: "s", Steps: []engine.Step{{Kind: engine.StepGap}}},
		{Scope: "t", Steps: []engine.Step{{Kind: engine.StepGap}}},
		{Events: []store.NewEvent{
			{Scope: "s", Event: engine.Event{ID: "1", Name: "message.created", Kind: engine.Flush, Policy: 7}},
			{Scope: "t", Event: engine.Event{ID: "4", Name: "n", Kind: engine.Passive, Policy: 7}},
		}, Puts: []store.Put{put}, Fence: fence},
	}
	if diff := cmp.Diff(want, log.entries, cmp.AllowUnexported(engine.Event{})); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

// What is known already is left out, and its rows are written all the same.
func TestPushWhole_DuplicatesMoveTheCursor(t *testing.T) {
	w, log := newWholeWorld(t)
	line := []Line{{Scope: "s", Name: "n", ID: "1"}}
	for n, want := range []string{"200: 1 accepted, 0 duplicates, 0 rejected", "200: 0 accepted, 1 duplicates, 0 rejected"} {
		got, err := w.PushWhole(t.Context(), &Whole{Lines: line, Puts: []store.Put{{Space: "source", Key: fmt.Sprint(n)}}})
		if err != nil || got.counts() != want {
			t.Error(got, err)
		}
	}
	if len(log.entries) != 2 || len(log.entries[1].Events) != 0 || len(log.entries[1].Puts) != 1 {
		t.Errorf("entries: %+v", log.entries)
	}
}

// Whole or not at all: where one event may pass later, nothing is written.
func TestPushWhole_BusyTakesNothing(t *testing.T) {
	for _, why := range []Code{CodeWindowFull, CodeOutboxFull} {
		w, log := newWholeWorld(t)
		w.owner.refuse = func(scope string, _ engine.Kind) string { return map[string]string{"full": string(why)}[scope] }
		_, err := w.PushWhole(t.Context(), &Whole{Gaps: []string{"s"}, Lines: []Line{{Scope: "s", Name: "n"}, {Scope: "full", Name: "n"}}})
		var busy *Busy
		if !errors.As(err, &busy) || busy.Code != why || busy.Scope != "full" || len(log.entries) != 0 {
			t.Errorf("%s: %v, %d entries", why, err, len(log.entries))
		}
	}
}

func TestPushWhole_TellsTheStoresErrors(t *testing.T) {
	for _, cause := range []error{store.ErrFenced, store.ErrUnavailable} {
		w, log := newWholeWorld(t)
		log.err = fmt.Errorf("append: %w", cause)
		if _, err := w.PushWhole(t.Context(), &Whole{Lines: []Line{{Scope: "s", Name: "n"}}}); !errors.Is(err, cause) {
			t.Errorf("%v: %v", cause, err)
		}
	}
}

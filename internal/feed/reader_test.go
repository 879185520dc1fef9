package feed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/memory"
)

func TestReader_PageAdvancesPastWhatDoesNotMatch(t *testing.T) {
	w := newWorld(t, memory.Options{})
	w.happen("a", 3)
	w.decide("a", engine.Queue, nil)
	w.decide("b", engine.Queue, nil)
	w.happen("a", 5)
	r := NewReader(w.store)

	page, err := r.Page(t.Context(), 0, Filter{Scopes: []string{"a"}}, 10, 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"d1"}, ids(page.Items)); diff != "" {
		t.Error(diff)
	}
	if page.Next != w.head() || page.More || page.Truncated {
		t.Errorf("next %d of %d, more %t, truncated %t", page.Next, w.head(), page.More, page.Truncated)
	}
	again, err := r.Page(t.Context(), page.Next, Filter{Scopes: []string{"a"}}, 10, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(again.Items) != 0 || again.Next != w.head() {
		t.Errorf("an empty page gave %v, next %d of %d", ids(again.Items), again.Next, w.head())
	}
}

// countedLog counts what is asked of the log.
type countedLog struct {
	store.Log
	calls []string
}

func (l *countedLog) Head(ctx context.Context) (store.Head, error) {
	l.calls = append(l.calls, "head")
	return l.Log.Head(ctx)
}

func (l *countedLog) Read(ctx context.Context, after engine.Position, limit int) ([]engine.Record, error) {
	l.calls = append(l.calls, fmt.Sprintf("read after %d", after))
	return l.Log.Read(ctx, after, limit)
}

func (l *countedLog) Steps(ctx context.Context, q store.StepQuery) ([]engine.Record, error) {
	l.calls = append(l.calls, "steps of "+q.Scope)
	return l.Log.Steps(ctx, q)
}

func TestReader_AsksLittleOfTheLog(t *testing.T) {
	w := newWorld(t, memory.Options{})
	w.decide("a", engine.Queue, nil)
	w.decide("a", engine.Queue, nil)
	log := &countedLog{Log: w.store}
	r := NewReader(log)
	for _, c := range []struct {
		name   string
		after  engine.Position
		scopes []string
		want   []string
	}{
		{"caught up", 2, nil, []string{"head"}},
		{"a little behind", 1, nil, []string{"head", "steps of "}},
		{"behind", 0, nil, []string{"head", "steps of "}},
		{"one scope", 0, []string{"a"}, []string{"head", "steps of a"}},
		{"a glob", 0, []string{"a*"}, []string{"head", "steps of "}},
		{"several scopes", 0, []string{"a", "b"}, []string{"head", "steps of "}},
	} {
		log.calls = nil
		if _, err := r.Page(t.Context(), c.after, Filter{Scopes: c.scopes}, 10, 0); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, log.calls); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestReader_PageSkipsAheadOfTheNextMatch(t *testing.T) {
	w := newWorld(t, memory.Options{})
	w.decide("a", engine.Queue, nil)
	w.decide("b", engine.Queue, nil)
	w.decide("a", engine.Queue, nil)
	r := NewReader(w.store)
	page, err := r.Page(t.Context(), 0, Filter{Scopes: []string{"a"}}, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !page.More || page.Next != 2 {
		t.Errorf("more %t, next %d; want the position before the next match, 2", page.More, page.Next)
	}
}

func TestReader_PageBytes(t *testing.T) {
	w := newWorld(t, memory.Options{})
	for range 4 {
		w.decide("a", engine.Queue, func(d *engine.Decision) { d.Notice = strings.Repeat("n", 1000) })
	}
	r := NewReader(w.store)
	one, err := r.Page(t.Context(), 0, Filter{}, 10, 1)
	if err != nil {
		t.Fatal(err)
	}
	size := jsonSize(&one.Items[0])
	for _, c := range []struct {
		bytes, items int
		more         bool
	}{
		{1, 1, true}, {size, 1, true}, {2 * size, 2, true}, {3*size - 1, 2, true}, {4 * size, 4, false}, {0, 4, false},
	} {
		page, err := r.Page(t.Context(), 0, Filter{}, 10, c.bytes)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Items) != c.items || page.More != c.more {
			t.Errorf("%d bytes: %d items, more %t; want %d, %t", c.bytes, len(page.Items), page.More, c.items, c.more)
		}
	}
}

// Paging through with any limits gives exactly what the filter selects.
func TestReader_PagesAreTheWholeFeed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, memory.Options{})
		f := Filter{
			Scopes: rapid.SampledFrom([][]string{nil, {"a"}, {"?"}, {"a", "b"}}).Draw(t, "scopes"),
			Routes: rapid.SampledFrom([][]engine.Route{nil, DefaultRoutes(), {engine.Skip}}).Draw(t, "routes"),
			Kinds:  rapid.SampledFrom([][]Kind{nil, {KindDecision, KindDeadLetter}, {KindDeadLetter}}).Draw(t, "kinds"),
		}
		var want []string
		for range rapid.IntRange(0, 250).Draw(t, "records") {
			scope := rapid.SampledFrom([]string{"a", "b", "long"}).Draw(t, "scope")
			var it Item
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				w.happen(scope, 1)
				continue
			case 1:
				it = Item{Scope: scope, DeadLetter: w.giveUp(scope)}
			default:
				it = Item{Scope: scope, Decision: w.decide(scope, rapid.SampledFrom(engine.Routes()[:5]).Draw(t, "route"), nil)}
			}
			if f.Match(&it) {
				want = append(want, it.ID())
			}
		}
		r := NewReader(w.store)
		var got []string
		after := engine.Position(0)
		for more := true; more; {
			page, err := r.Page(context.Background(), after, f, rapid.IntRange(1, 120).Draw(t, "limit"), rapid.SampledFrom([]int{0, 1, 900}).Draw(t, "bytes"))
			if err != nil {
				t.Fatalf("page: %v", err)
			}
			if page.More && page.Next <= after {
				t.Fatalf("no progress at %d", after)
			}
			got = append(got, ids(page.Items)...)
			after, more = page.Next, page.More
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s", diff)
		}
		if after != w.head() {
			t.Fatalf("ended at %d of %d", after, w.head())
		}
	})
}

func TestReader_Truncated(t *testing.T) {
	w := newWorld(t, memory.Options{})
	for range 5 {
		w.decide("a", engine.Queue, nil)
	}
	r := NewReader(&aged{Store: w.store, before: 2})
	for _, c := range []struct {
		after     engine.Position
		truncated bool
		want      []string
	}{
		{0, true, []string{"d3", "d4", "d5"}},
		{1, true, []string{"d3", "d4", "d5"}},
		{2, false, []string{"d3", "d4", "d5"}},
		{4, false, []string{"d5"}},
		{5, false, []string{}},
	} {
		page, err := r.Page(t.Context(), c.after, Filter{}, 10, 0)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, ids(page.Items)); diff != "" || page.Truncated != c.truncated {
			t.Errorf("after %d: truncated %t, want %t; %s", c.after, page.Truncated, c.truncated, diff)
		}
	}
	oldest, err := r.Oldest(t.Context())
	if err != nil || oldest != 2 {
		t.Errorf("oldest: got %d, %v; want 2", oldest, err)
	}
}

// eventless is a store that keeps steps longer than events.
type eventless struct{ Store }

func (e *eventless) Kept(ctx context.Context) (store.Kept, error) {
	head, err := e.Head(ctx)
	return store.Kept{Events: head.Position}, err
}

func (e *eventless) Read(ctx context.Context, after engine.Position, limit int) ([]engine.Record, error) {
	recs, err := e.Store.Read(ctx, after, 1000)
	recs = slices.DeleteFunc(slices.Clone(recs), func(r engine.Record) bool { return r.Event != nil })
	return recs[:min(limit, len(recs))], err
}

func TestReader_EventsThatAreGoneTruncateNothing(t *testing.T) {
	w := newWorld(t, memory.Options{})
	w.decide("a", engine.Queue, nil)
	w.happen("a", 3)
	w.decide("a", engine.Queue, nil)
	w.happen("a", 3)
	r := NewReader(&eventless{w.store})
	for after, want := range [][]string{0: {"d1", "d2"}, 1: {"d2"}, 2: {"d2"}, 5: {}, 6: {}, 8: {}} {
		if want == nil {
			continue
		}
		page, err := r.Page(t.Context(), engine.Position(after), Filter{}, 10, 0)
		if diff := cmp.Diff(want, ids(page.Items)); err != nil || diff != "" || page.Truncated || page.Next != w.head() {
			t.Errorf("after %d: next %d, truncated %t, %v; %s", after, page.Next, page.Truncated, err, diff)
		}
	}
}

func TestReader_OldestOfAnEmptiedLog(t *testing.T) {
	w := newWorld(t, memory.Options{})
	w.decide("a", engine.Queue, nil)
	r := NewReader(&aged{Store: w.store, before: 1})
	if oldest, err := r.Oldest(t.Context()); err != nil || oldest != 1 {
		t.Errorf("got %d, %v; want the head, 1", oldest, err)
	}
	page, err := r.Page(t.Context(), 0, Filter{}, 1, 0)
	if err != nil || !page.Truncated || page.Next != 1 {
		t.Errorf("got %+v, %v; want truncated, next 1", page, err)
	}
}

// Since finds the same place as a look at every record.
func TestReader_Since(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.UnixMilli(1000)
		w := newWorld(t, memory.Options{Now: func() time.Time { return now }})
		stamps := []engine.Time{}
		for range rapid.IntRange(0, 40).Draw(t, "records") {
			now = now.Add(time.Duration(rapid.IntRange(0, 2).Draw(t, "ms")) * time.Millisecond)
			w.happen("a", 1)
			stamps = append(stamps, engine.Time(now.UnixMilli()))
		}
		after := engine.Position(rapid.IntRange(0, len(stamps)).Draw(t, "after"))
		stamp := engine.Time(rapid.Int64Range(995, 1090).Draw(t, "stamp"))
		want := after
		for int(want) < len(stamps) && stamps[want] < stamp {
			want++
		}
		got, err := NewReader(w.store).Since(context.Background(), after, stamp)
		if err != nil || got != want {
			t.Fatalf("after %d since %d: got %d, %v; want %d of %v", after, stamp, got, err, want, stamps)
		}
	})
}

func TestReader_WaitWakesForWhatMatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.Options{})
		w.decide("a", engine.Queue, nil)
		r := NewReader(w.store)
		done := make(chan engine.Position, 1)
		go func() {
			at, err := r.Wait(t.Context(), 0, Filter{Scopes: []string{"b"}})
			if err != nil {
				t.Error(err)
			}
			done <- at
		}()
		synctest.Wait()
		w.happen("b", 10)
		w.decide("a", engine.Queue, nil)
		synctest.Wait()
		select {
		case at := <-done:
			t.Fatalf("returned %d without a match", at)
		default:
		}
		w.decide("b", engine.Queue, nil)
		synctest.Wait()
		if at := <-done; at != w.head()-1 {
			t.Errorf("got %d, want the position before the match, %d", at, w.head()-1)
		}
	})
}

func TestReader_WaitFindsWhatIsThere(t *testing.T) {
	w := newWorld(t, memory.Options{})
	w.happen("a", 2)
	w.decide("a", engine.Queue, nil)
	if at, err := NewReader(w.store).Wait(t.Context(), 0, Filter{}); err != nil || at != 2 {
		t.Errorf("got %d, %v; want 2", at, err)
	}
}

func TestReader_WaitEndsWithTheContextAndTellsHowFar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.Options{})
		w.happen("a", 7)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		at, err := NewReader(w.store).Wait(ctx, 0, Filter{})
		if !errors.Is(err, context.DeadlineExceeded) || at != 7 {
			t.Errorf("got %d, %v; want 7 and the deadline", at, err)
		}
	})
}

func TestReader_WaitReportsAClosedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.Options{})
		r := NewReader(w.store)
		done := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := r.Wait(t.Context(), 0, Filter{})
				done <- err
			}()
		}
		synctest.Wait()
		if err := w.store.Close(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := <-done; !errors.Is(err, store.ErrClosed) {
				t.Errorf("got %v, want the store's error", err)
			}
		}
	})
}

// lateLog holds up the goroutine that follows the log as it starts.
type lateLog struct {
	store.Log
	start chan struct{}
}

type readerKey struct{}

func (l *lateLog) Head(ctx context.Context) (store.Head, error) {
	if ctx.Value(readerKey{}) == nil {
		<-l.start
	}
	return l.Log.Head(ctx)
}

// What is written after a reader's look and before the follower has begun
// would else be seen by neither.
func TestReader_WaitMissesNothingAsTheFollowerStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.Options{})
		log := &lateLog{w.store, make(chan struct{})}
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), readerKey{}, true), time.Hour)
		defer cancel()
		done := make(chan error, 1)
		go func() {
			_, err := NewReader(log).Wait(ctx, 0, Filter{})
			done <- err
		}()
		synctest.Wait()
		w.decide("a", engine.Queue, nil)
		close(log.start)
		if err := <-done; err != nil {
			t.Errorf("got %v", err)
		}
	})
}

// countingLog counts how often the log is waited on, and how often readers look
// into it.
type countingLog struct {
	store.Log
	waits, looks atomic.Int64
}

func (l *countingLog) Steps(ctx context.Context, q store.StepQuery) ([]engine.Record, error) {
	if q.Limit == scanBatch {
		l.looks.Add(1)
	}
	return l.Log.Steps(ctx, q)
}

func (l *countingLog) Wait(ctx context.Context, after engine.Position) error {
	l.waits.Add(1)
	return l.Log.Wait(ctx, after)
}

// However many wait, one goroutine follows the log, and none when all have
// gone.
func TestReader_OneFollowerForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.Options{})
		log := &countingLog{Log: w.store}
		r := NewReader(log)
		done := make(chan error, 100)
		wait := func(n int) {
			for range n {
				go func() {
					_, err := r.Wait(t.Context(), w.head(), Filter{})
					done <- err
				}()
			}
			synctest.Wait()
		}
		wait(100)
		looks := log.looks.Load()
		w.happen("a", 1)
		synctest.Wait()
		if n := log.looks.Load(); n != looks {
			t.Errorf("an event made %d readers look", n-looks)
		}
		if n := log.waits.Load(); n != 2 {
			t.Errorf("the log was waited on %d times for 1 growth; want 2", n)
		}
		w.decide("a", engine.Queue, nil)
		for range 100 {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		before := log.waits.Load()
		w.happen("a", 1)
		synctest.Wait()
		if n := log.waits.Load(); n != before {
			t.Errorf("the log is followed although nobody waits")
		}
		wait(1) // and it starts again
		w.decide("a", engine.Queue, nil)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

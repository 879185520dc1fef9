package feed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
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

func idsOf(items []*TailItem) string {
	list := make([]string, len(items))
	for i := range items {
		list[i] = items[i].ID()
	}
	return strings.Join(list, " ")
}

func TestTail_GivesWhatComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.Options{})
		defer w.store.Close()
		w.decide("a", engine.Queue, nil)
		tail := NewTail(NewReader(w.store), nil)
		leave := tail.Follow()
		defer leave()
		place := w.head()
		synctest.Wait() // it knows where it begins

		w.decide("a", engine.Skip, nil)
		w.giveUp("b")
		synctest.Wait()
		w.happen("a", 3)
		items, upTo, err := tail.Next(t.Context(), place)
		if err != nil || idsOf(items) != "d2 l3" || upTo < items[1].Position {
			t.Errorf("%q up to %d (%v), want the decision and the dead letter", idsOf(items), upTo, err)
		}
		if items, _, err = tail.Next(t.Context(), items[0].Position); err != nil || idsOf(items) != "l3" {
			t.Errorf("from between the two: %q (%v)", idsOf(items), err)
		}
		if _, _, err := tail.Next(t.Context(), place-1); !errors.Is(err, ErrBehind) {
			t.Errorf("from before it began: %v, want ErrBehind", err)
		}
	})
}

func TestTail_AWaitThatEndsSaysHowFarItLooked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.Options{})
		defer w.store.Close()
		tail := NewTail(NewReader(w.store), nil)
		leave := tail.Follow()
		defer leave()
		w.happen("a", 5)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		items, upTo, err := tail.Next(ctx, 0)
		for errors.Is(err, ErrBehind) { // it began behind the events
			items, upTo, err = tail.Next(ctx, w.head())
		}
		if !errors.Is(err, context.DeadlineExceeded) || len(items) != 0 || upTo != w.head() {
			t.Errorf("%d items up to %d (%v), want none up to the head, %d", len(items), upTo, err, w.head())
		}
		w.happen("a", 5)
		later, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, upTo, _ := tail.Next(later, upTo); upTo != w.head() {
			t.Errorf("up to %d, want the head, %d", upTo, w.head())
		}
	})
}

// askedLog counts how often steps are asked for.
type askedLog struct {
	store.Log
	asked atomic.Int64
}

func (l *askedLog) Steps(ctx context.Context, q store.StepQuery) ([]engine.Record, error) {
	l.asked.Add(1)
	return l.Log.Steps(ctx, q)
}

func TestTail_ReadsTheLogOnceForAllReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.Options{})
		defer w.store.Close()
		log := &askedLog{Log: w.store}
		tail := NewTail(NewReader(log), nil)
		const readers = 1000
		var all sync.WaitGroup
		for range readers {
			all.Go(func() {
				leave := tail.Follow()
				defer leave()
				items, _, err := tail.Next(t.Context(), 0)
				if err != nil || idsOf(items) != "d1" {
					t.Errorf("%q (%v)", idsOf(items), err)
				}
			})
		}
		synctest.Wait()
		before := log.asked.Load()
		w.decide("a", engine.Queue, nil)
		all.Wait()
		synctest.Wait()
		if asked := log.asked.Load() - before; asked > 5 { // the watch, the wait, the page
			t.Errorf("%d readers asked the log for steps %d times", readers, asked)
		}
	})
}

func TestTail_StopsWithItsLastReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.Options{})
		defer w.store.Close()
		tail := NewTail(NewReader(w.store), nil)
		one, other := tail.Follow(), tail.Follow()
		one()
		synctest.Wait() // it knows where it begins
		w.decide("a", engine.Queue, nil)
		if items, _, err := tail.Next(t.Context(), 0); err != nil || len(items) != 1 {
			t.Errorf("with one reader left: %d items (%v)", len(items), err)
		}
		other()
		w.decide("a", engine.Queue, nil)
		leave := tail.Follow() // begins where the log ends now
		defer leave()
		if _, _, err := tail.Next(t.Context(), 1); !errors.Is(err, ErrBehind) {
			t.Errorf("a new run knows what came before it: %v", err)
		}
	}) // a bubble with a goroutine left would fail
}

func TestTail_DoesNotHideThatRetentionWasFaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.Options{})
		defer w.store.Close()
		log := &aged{Store: w.store}
		tail := NewTail(NewReader(log), nil)
		leave := tail.Follow()
		defer leave()
		synctest.Wait()
		log.before = 2
		for range 3 {
			w.decide("a", engine.Queue, nil)
		}
		if items, _, err := tail.Next(t.Context(), 0); !errors.Is(err, ErrBehind) {
			t.Errorf("%q (%v), want ErrBehind: the log tells what is missing", idsOf(items), err)
		}
	})
}

func TestTail_EndsWithTheDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.Options{})
		defer w.store.Close()
		stopping := make(chan struct{})
		tail := NewTail(NewReader(w.store), stopping)
		leave := tail.Follow()
		defer leave()
		ended := make(chan error)
		go func() {
			_, _, err := tail.Next(t.Context(), 0)
			ended <- err
		}()
		synctest.Wait()
		close(stopping)
		if err := <-ended; !errors.Is(err, ErrStopping) {
			t.Errorf("error %v", err)
		}
	})
}

// brokenLog fails once it is told to.
type brokenLog struct {
	store.Log
	broken chan struct{}
}

func (l *brokenLog) Wait(ctx context.Context, after engine.Position) error {
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-l.broken:
			cancel()
		case <-both.Done():
		}
	}()
	if err := l.Log.Wait(both, after); err == nil || ctx.Err() != nil {
		return err
	}
	return store.ErrUnavailable
}

func TestTail_TellsEveryReaderThatTheLogFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.Options{})
		defer w.store.Close()
		log := &brokenLog{Log: w.store, broken: make(chan struct{})}
		tail := NewTail(NewReader(log), nil)
		leave := tail.Follow()
		defer leave()
		const readers = 3
		ended := make(chan error, readers)
		for range readers {
			go func() {
				_, _, err := tail.Next(t.Context(), 0)
				ended <- err
			}()
		}
		synctest.Wait()
		close(log.broken)
		for range readers {
			if err := <-ended; !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("error %v", err)
			}
		}
		log.broken = make(chan struct{}) // it is back
		place := w.head()
		go func() {
			_, _, err := tail.Next(t.Context(), place)
			ended <- err
		}()
		synctest.Wait()
		w.decide("a", engine.Queue, nil)
		if err := <-ended; err != nil {
			t.Errorf("after the log was back: %v", err)
		}
	})
}

func TestTail_MadeOnceForAll(t *testing.T) {
	it := new(TailItem)
	calls := 0
	bad := errors.New("no")
	result := func(b []byte, err error) func() ([]byte, error) {
		return func() ([]byte, error) { calls++; return b, err }
	}
	if _, err := it.Made(result(nil, bad)); !errors.Is(err, bad) {
		t.Errorf("error %v", err)
	}
	large := make([]byte, tailMade+1)
	if b, err := it.Made(result(large, nil)); err != nil || len(b) != len(large) {
		t.Errorf("%d bytes (%v)", len(b), err)
	}
	for range 3 {
		if b, err := it.Made(result([]byte("made"), nil)); err != nil || string(b) != "made" {
			t.Errorf("%q (%v)", b, err)
		}
	}
	if calls != 3 {
		t.Errorf("made %d times, want once for each failure, each large one, and once more", calls)
	}
}

// Whatever comes, and however slow a reader is, it sees every item once and in
// order: from the tail while it keeps up, from the log when it does not.
func TestTail_NobodyMissesAnything(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		bursts := rapid.SliceOfN(rapid.IntRange(0, 20), 1, 5).Draw(rt, "bursts")
		naps := rapid.SliceOfN(rapid.IntRange(0, 3), 3, 3).Draw(rt, "naps")
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(rt, memory.Options{})
			defer w.store.Close()
			reader := NewReader(w.store)
			tail := NewTail(reader, nil)
			tail.most = 8
			total := 0
			for _, n := range bursts {
				total += n
			}
			var all sync.WaitGroup
			got := make([][]string, len(naps))
			for i, nap := range naps {
				all.Go(func() { got[i] = followAll(t.Context(), reader, tail, total, time.Duration(nap)*time.Second) })
			}
			for _, n := range bursts {
				for range n {
					w.decide("a", engine.Queue, nil)
				}
				w.happen("a", 1)
				time.Sleep(time.Second) //arch:sleep virtual time between the bursts
			}
			all.Wait()
			want := make([]string, total)
			for i := range want {
				want[i] = fmt.Sprintf("d%d", i+1)
			}
			for i := range got {
				if diff := cmp.Diff(want, append([]string{}, got[i]...)); diff != "" {
					rt.Errorf("a reader that naps for %d s (-want +got):\n%s", naps[i], diff)
				}
			}
		})
	})
}

// followAll reads from the beginning until it has seen so many items.
func followAll(ctx context.Context, reader *Reader, tail *Tail, total int, nap time.Duration) (seen []string) {
	leave := tail.Follow()
	defer leave()
	place := engine.Position(0)
	for len(seen) < total {
		items, upTo, err := tail.Next(ctx, place)
		if errors.Is(err, ErrBehind) {
			page, _ := reader.Page(ctx, place, Filter{}, 10, 0)
			place = page.Next
			seen = append(seen, ids(page.Items)...)
			continue
		}
		for _, it := range items {
			seen = append(seen, it.ID())
		}
		place = upTo
		time.Sleep(nap) //arch:sleep virtual time of a slow reader
	}
	return seen
}

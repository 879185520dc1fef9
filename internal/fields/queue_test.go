package fields_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"attend/internal/field"
	"attend/internal/fields"
	"attend/internal/store"
	"attend/internal/store/memory"
)

// slowStore takes a while for each append, as a disk does, and counts.
type slowStore struct {
	*memory.Store
	takes time.Duration

	mu      sync.Mutex
	appends []int // how many entries each had
	reads   int
}

func (s *slowStore) Append(ctx context.Context, entries ...store.Entry) ([]store.Receipt, error) {
	s.mu.Lock()
	s.appends = append(s.appends, len(entries))
	s.mu.Unlock()
	time.Sleep(s.takes) //arch:sleep the clock of a synctest bubble
	return s.Store.Append(ctx, entries...)
}

func (s *slowStore) FieldChanges(ctx context.Context, name string, after int64, limit int) ([]store.FieldChange, error) {
	s.mu.Lock()
	s.reads++
	s.mu.Unlock()
	time.Sleep(s.takes) //arch:sleep the clock of a synctest bubble
	return s.Store.FieldChanges(ctx, name, after, limit)
}

func newSlow() *slowStore {
	return &slowStore{Store: memory.New(memory.Options{}), takes: 10 * time.Millisecond}
}

func TestQueue_WritersShareCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSlow()
		s := open(t, st)
		defer s.Close()
		do[field.Written](t, s, "", field.OpWrite, note("gull", "tide"))
		start := time.Now()
		var all sync.WaitGroup
		epochs := make([]bool, 65)
		for range 64 {
			all.Go(func() { epochs[do[field.Written](t, s, "", field.OpWrite, note("gull", "tide")).Epoch] = true })
		}
		all.Wait()
		if took := time.Since(start); took > 30*time.Millisecond {
			t.Errorf("64 writes took %v: they did not share the commits %v of 10ms", took, st.appends)
		}
		for epoch, taken := range epochs[1:] {
			if !taken {
				t.Errorf("nobody has epoch %d", epoch+1)
			}
		}
	})
}

// What looks at the Field is decided after what stands before it in the queue.
func TestQueue_KeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSlow()
		ids := []string{"0", "1", "2", "3", "4"}
		s := open(t, st, func(o *fields.Options) {
			o.NewID = func() string { id := ids[0]; ids = ids[1:]; return id }
		})
		defer s.Close()
		do[field.Written](t, s, "", field.OpWrite, note("gull", "tide"))
		var all sync.WaitGroup
		for _, x := range []struct {
			op field.Op
			p  []byte
		}{
			{field.OpWrite, note("gull", "tide")},
			{field.OpDraft, note("gull", "tide")},
			{field.OpCommit, params("draft_id", "2")},
			{field.OpRetract, params("id", "2", "agent", "gull", "intent", "a mistake of mine")},
		} {
			all.Go(func() { do[any](t, s, "", x.op, x.p) })
			synctest.Wait() // one after the other, while the first is written
		}
		all.Wait()
		if got, want := fmt.Sprint(st.appends), "[1 1 1 1 1]"; got != want {
			t.Errorf("appends of %s entries, want %s", got, want)
		}
		page := do[field.Page](t, s, "", field.OpRead, params())
		if len(page.Entries) != 3 || page.Entries[2].ID != "2" || page.Entries[2].Status != field.StatusRetracted {
			t.Errorf("the Field has %+v", page.Entries)
		}
	})
}

func TestQueue_CallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSlow()
		s := open(t, st)
		defer s.Close()
		do[field.Written](t, s, "", field.OpWrite, note("gull", "tide"))
		leave := func() (context.Context, chan error) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			ended := make(chan error, 1)
			go func() {
				defer cancel()
				_, err := s.Do(ctx, "", field.OpWrite, note("gull", "tide"))
				ended <- err
			}()
			synctest.Wait()
			return ctx, ended
		}
		_, taken := leave()
		_, queued := leave()
		if err := <-queued; !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, fields.ErrUnknownOutcome) {
			t.Errorf("who left the queue is told: %v", err)
		}
		if err := <-taken; !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, fields.ErrUnknownOutcome) {
			t.Errorf("who left while it was written is told: %v", err)
		}
		do[field.Written](t, s, "", field.OpWrite, note("gull", "tide"))
		if page := do[field.Page](t, s, "", field.OpRead, params()); len(page.Entries) != 3 {
			t.Errorf("%d entries, want the first, the one that was being written, and the last", len(page.Entries))
		}
	})
}

func TestQueue_HasALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSlow()
		s := open(t, st)
		defer s.Close()
		do[field.Written](t, s, "", field.OpWrite, note("gull", "tide"))
		st.takes = time.Hour // nobody is let in
		ctx, cancel := context.WithCancel(t.Context())
		busy := make(chan error, 5000)
		for range 5000 {
			go func() {
				if _, err := s.Do(ctx, "", field.OpWrite, note("gull", "tide")); errors.Is(err, fields.ErrBusy) {
					busy <- err
				}
			}()
		}
		synctest.Wait()
		if n := len(busy); n < 500 || n > 904 {
			t.Errorf("%d of 5,000 were sent away, want all above 4,096 and those being written", n)
		}
		cancel()
		synctest.Wait()
	})
}

func TestField_SeveralLoadsAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSlow()
		for i := range 1500 {
			body, _ := (&field.Change{Kind: field.KindWritten, ID: fmt.Sprint(i), Epoch: int64(i), Entry: params("i", i)}).Encode()
			append1(t, st.Store, &store.FieldAppend{Name: "default", After: int64(i), Changes: []store.FieldChange{{Format: 1, Body: body}}})
		}
		s := open(t, st)
		defer s.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Millisecond)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() { _, _ = s.Do(ctx, "", field.OpRead, params()) }) // leaves in the middle
		for range 20 {
			all.Go(func() {
				if got := do[field.Attuned](t, s, "", field.OpAttune, params("agent", "gull")); got.Epoch != 1500 {
					t.Errorf("epoch %d after loading, want 1500", got.Epoch)
				}
			})
		}
		all.Wait()
		if st.reads > 4 { // two pages, the end, and perhaps one that was left
			t.Errorf("the changes were read in %d pages by 21 readers at once", st.reads)
		}
	})
}

func TestRegistry_LetsIdleFieldsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSlow()
		s := open(t, st, func(o *fields.Options) { o.MaxLoaded, o.IdleAfter = 3, time.Minute })
		defer s.Close()
		loads := func(name string) bool {
			before := st.reads
			do[field.Attuned](t, s, name, field.OpAttune, params("agent", "gull"))
			return st.reads > before
		}
		sub, err := s.Subscribe(t.Context(), field.OpAttune, "watched", params("agent", "gull"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b", "c"} { // a is the longest idle when c comes
			loads(name)
			time.Sleep(time.Second) //arch:sleep the clock of a synctest bubble
		}
		for _, c := range []struct {
			name  string
			loads bool
		}{{"c", false}, {"b", false}, {"watched", false}, {"a", true}, {"c", true}} {
			if got := loads(c.name); got != c.loads {
				t.Errorf("%s was loaded: %v, want %v", c.name, got, c.loads)
			}
			time.Sleep(time.Second) //arch:sleep the clock of a synctest bubble
		}
		time.Sleep(time.Minute) //arch:sleep the clock of a synctest bubble
		for name, want := range map[string]bool{"a": true, "c": true, "watched": false} {
			if got := loads(name); got != want {
				t.Errorf("after a minute %s was loaded: %v, want %v", name, got, want)
			}
		}
		sub.Close()
		time.Sleep(2 * time.Minute) //arch:sleep the clock of a synctest bubble
		if !loads("watched") {
			t.Error("a Field that nobody watches any longer is kept")
		}
	})
}

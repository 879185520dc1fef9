package silences_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
	"attend/internal/silences"
	"attend/internal/store"
	"attend/internal/store/memory"
)

// world is a log, and a clock that is set by hand.
type world struct {
	t   *testing.T
	log *memory.Store
	at  time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, at: time.UnixMilli(1_000_000)}
	w.log = memory.New(memory.Options{Now: func() time.Time { return w.at }})
	t.Cleanup(func() { _ = w.log.Close() })
	return w
}

// service is one of a daemon that has just started.
func (w *world) service() *silences.Service { return silences.New(w.log, w.log.Now) }

func all(*engine.Silence) bool { return true }

// ann may silence every scope.
var ann = silences.Maker{Name: "ann"}

// list shows what there is as a new daemon sees it, in short words, oldest first.
func (w *world) list() (words []string) {
	w.t.Helper()
	list, more, err := w.service().List(w.t.Context(), true, 100, all)
	if err != nil || more {
		w.t.Fatal(more, err)
	}
	for i := range list {
		s := &list[len(list)-1-i]
		word := s.Scope + " ended"
		if s.Active {
			word = s.Scope + " active"
		}
		if s.EndedBy != nil {
			word += " by " + *s.EndedBy
		}
		words = append(words, word)
	}
	return words
}

func (w *world) want(what string, words ...string) {
	w.t.Helper()
	if diff := cmp.Diff(words, w.list()); diff != "" {
		w.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func (w *world) configure(want ...silences.Configured) (changed bool) {
	w.t.Helper()
	changed, err := w.service().Configure(w.t.Context(), want)
	if err != nil {
		w.t.Fatal(err)
	}
	w.at = w.at.Add(time.Second)
	return changed
}

// What stands in the configuration is in force for as long as it stands there,
// over restarts, and through whatever is done by hand.
func TestConfigure(t *testing.T) {
	w := newWorld(t)
	a := silences.Configured{Scope: "a", Why: "x", Until: silences.Forever}
	b := silences.Configured{Scope: "b", Why: "x", Until: 1_060_000}
	if !w.configure(a, b) || w.configure(b, a) || w.configure(a, b, a) {
		t.Error("the first start writes them, and others do not")
	}
	w.want("as they are configured", "a active", "b active")

	service := w.service()
	list, _, err := service.List(t.Context(), false, 100, func(s *engine.Silence) bool { return s.Scope == "a" })
	if err != nil || len(list) != 1 || list[0].Who != silences.File || list[0].Until != nil {
		t.Fatalf("%+v, %v", list, err)
	}
	if _, err := service.End(t.Context(), "ann", list[0].ID, all); err != nil {
		t.Fatal(err)
	}
	w.want("one is ended by hand", "a ended by ann", "b active")
	if !w.configure(a, b) || w.configure(a, b) {
		t.Error("it comes again with the next start, once")
	}
	w.want("it comes again", "a ended by ann", "b active", "a active")

	if !w.configure(b) || w.configure(b) {
		t.Error("its entry goes, once")
	}
	w.want("its entry goes", "a ended by ann", "b active", "a ended by attend.yaml")
	w.at = time.UnixMilli(1_060_000)
	w.want("the other's time has come", "a ended by ann", "b ended", "a ended by attend.yaml")
	if w.configure(b) || w.configure() {
		t.Error("what has ended by itself is neither made nor ended")
	}
	if w.configure(silences.Configured{Scope: "c", Why: "x", Until: 1_000_001}) {
		t.Error("one is made that has ended already")
	}
}

// Two daemons that start at once with the same configuration make one silence.
func TestConfigure_ByTwoAtOnce(t *testing.T) {
	w := newWorld(t)
	late := &overtaken{Log: w.log, first: func() { w.configure(silences.Configured{Scope: "a", Why: "x", Until: silences.Forever}) }}
	if _, err := silences.New(late, w.log.Now).Configure(t.Context(), []silences.Configured{{Scope: "a", Why: "x", Until: silences.Forever}}); err != nil {
		t.Fatal(err)
	}
	w.want("of two records the first counts", "a active")
}

// overtaken lets another go first before it writes.
type overtaken struct {
	silences.Log
	first func()
}

func (o *overtaken) Append(ctx context.Context, entries ...store.Entry) ([]store.Receipt, error) {
	o.first()
	return o.Log.Append(ctx, entries...)
}

// There is an end to how many are in force; those that have ended count no more.
func TestAdd_Bounded(t *testing.T) {
	w := newWorld(t)
	s := w.service()
	hour := int64(3_600_000)
	add := func(i int) (silences.Silence, error) {
		return s.Add(t.Context(), ann, &silences.Request{Scope: fmt.Sprint("s", i), ForMs: &hour, Why: "x"})
	}
	var last silences.Silence
	for i := range silences.MaxActive {
		var err error
		if last, err = add(i); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := add(0); !errors.Is(err, silences.ErrTooMany) {
		t.Errorf("one too many: %v", err)
	}
	if _, err := s.End(t.Context(), "ann", last.ID, all); err != nil {
		t.Fatal(err)
	}
	if _, err := add(0); err != nil {
		t.Errorf("in the place of one that has ended: %v", err)
	}
	if list, more, err := s.List(t.Context(), false, 7, all); err != nil || !more || len(list) != 7 || list[0].Scope != "s0" {
		t.Errorf("%d of them, %t, %v", len(list), more, err)
	}
}

// One that is limited to some scopes does not fill the place of the others, and
// what the configuration silences takes nobody's.
func TestAdd_BoundedForOne(t *testing.T) {
	w := newWorld(t)
	w.configure(silences.Configured{Scope: "file", Why: "x", Until: silences.Forever})
	s := w.service()
	hour := int64(3_600_000)
	add := func(who silences.Maker) (silences.Silence, error) {
		return s.Add(t.Context(), who, &silences.Request{Scope: "s", ForMs: &hour, Why: "x"})
	}
	bob := silences.Maker{Name: "bob", Limited: true}
	var last silences.Silence
	for range silences.MaxLimited {
		var err error
		if last, err = add(bob); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := add(bob); !errors.Is(err, silences.ErrTooMany) || !strings.Contains(err.Error(), "100 silences of this token") {
		t.Errorf("one too many: %v", err)
	}
	for _, other := range []silences.Maker{{Name: "eve", Limited: true}, ann} {
		if _, err := add(other); err != nil {
			t.Errorf("%s: %v", other.Name, err)
		}
	}
	if _, err := s.End(t.Context(), "bob", last.ID, all); err != nil {
		t.Fatal(err)
	}
	if _, err := add(bob); err != nil {
		t.Errorf("in the place of one that has ended: %v", err)
	}
	for i := silences.MaxLimited + 2; i < silences.MaxActive; i++ {
		if _, err := add(ann); err != nil {
			t.Fatalf("the %dth, beside that of the file: %v", i, err)
		}
	}
	if _, err := add(ann); !errors.Is(err, silences.ErrTooMany) {
		t.Errorf("one more than there may be: %v", err)
	}
}

// A store that fails is the caller's to be told of, and nothing is half made.
func TestStoreFails(t *testing.T) {
	w := newWorld(t)
	s := w.service()
	hour := int64(3_600_000)
	made, err := s.Add(t.Context(), ann, &silences.Request{Scope: "a", ForMs: &hour, Why: "x"})
	if err != nil {
		t.Fatal(err)
	}
	_ = w.log.Close()
	for what, do := range map[string]func() error{
		"add": func() error {
			_, err := s.Add(t.Context(), ann, &silences.Request{Scope: "b", ForMs: &hour, Why: "x"})
			return err
		},
		"end":  func() error { _, err := s.End(t.Context(), "ann", made.ID, all); return err },
		"find": func() error { _, err := s.Find(t.Context(), made.ID, all); return err },
		"list": func() error { _, _, err := s.List(t.Context(), true, 1, all); return err },
	} {
		if err := do(); !errors.Is(err, store.ErrClosed) || !strings.Contains(err.Error(), "silence") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

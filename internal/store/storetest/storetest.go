// Package storetest is what every store must pass: one suite of cases over the
// contract in package store, a comparison with the memory store under random
// operations, and a store that fails on purpose.
//
// A change of the contract is a change of this suite.
package storetest

import (
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"attend/internal/engine"
	"attend/internal/store"
)

// Clock is a clock that stands still until it is moved. It is safe for
// concurrent use.
type Clock struct {
	mu sync.Mutex
	at time.Time
}

// NewClock returns a clock that shows an instant, in Unix milliseconds.
func NewClock(at engine.Time) *Clock { return &Clock{at: time.UnixMilli(int64(at))} }

// Now is the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// Set moves the clock to an instant, forwards or back.
func (c *Clock) Set(at engine.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = time.UnixMilli(int64(at))
}

// Open returns a fresh, empty store whose stamps come from now. It fails the
// test when it cannot. The suite closes the store.
type Open func(t *testing.T, now func() time.Time) store.Store

// Option changes what Run asks of a store.
type Option func(*suite)

// Reopen adds the cases of a store that outlives the process. The function
// ends the store that it is given, by Close or more rudely, and opens what it
// had stored.
func Reopen(f func(t *testing.T, s store.Store, now func() time.Time) store.Store) Option {
	return func(s *suite) { s.reopen = f }
}

type suite struct {
	fresh  Open // opens a second store
	reopen func(t *testing.T, s store.Store, now func() time.Time) store.Store
}

// start is where the clock of every case stands at first.
const start engine.Time = 1_760_000_000_000

// Run runs every case, each with a store of its own.
func Run(t *testing.T, open Open, options ...Option) {
	t.Helper()
	var s suite
	for _, o := range options {
		o(&s)
	}
	s.fresh = open
	groups := []group{
		{"Log", logCases()},
		{"Values", valueCases()},
		{"Owner", ownerCases()},
		{"Query", queryCases()},
		{"Rows", rowCases()},
		{"States", stateCases()},
		{"Fields", fieldCases()},
		{"Concurrent", concurrentCases()},
		{"Close", closeCases()},
	}
	if s.reopen != nil {
		groups = append(groups, group{"Reopen", reopenCases()})
	}
	groups = append(groups, optional(t, open)...)
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			for _, c := range g.cases {
				t.Run(c.name, func(t *testing.T) {
					clock := NewClock(start)
					e := &env{T: t, clock: clock, s: open(t, clock.Now), suite: &s}
					t.Cleanup(func() {
						if err := e.s.Close(); err != nil {
							t.Errorf("close: %v", err)
						}
					})
					c.run(e)
				})
			}
		})
	}
}

// group is the rules about one thing.
type group struct {
	name  string
	cases []testCase
}

// optional returns the rules of what the store offers beyond store.Store.
func optional(t *testing.T, open Open) (groups []group) {
	t.Helper()
	s := open(t, time.Now)
	if _, ok := s.(store.Compactor); ok {
		groups = append(groups, group{"Compact", compactCases()})
	}
	if _, ok := s.(store.Importer); ok {
		groups = append(groups, group{"Import", importCases()})
	}
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	return groups
}

// testCase is one rule of the contract; its name says the rule.
type testCase struct {
	name string
	run  func(*env)
}

// env is what a case works with. Its methods fail the test on any error that
// the case does not expect.
type env struct {
	*testing.T
	s     store.Store
	clock *Clock
	suite *suite
}

// reopen ends the store and opens it again.
func (e *env) reopen() {
	e.Helper()
	e.s = e.suite.reopen(e.T, e.s, e.clock.Now)
}

// append appends and returns the receipts, refused entries included.
func (e *env) append(entries ...store.Entry) []store.Receipt {
	e.Helper()
	rs, err := e.s.Append(e.Context(), entries...)
	if err != nil {
		e.Fatalf("append: %v", err)
	}
	if len(rs) != len(entries) {
		e.Fatalf("append of %d entries gave %d receipts", len(entries), len(rs))
	}
	return rs
}

// write appends entries of which none may be refused.
func (e *env) write(entries ...store.Entry) []store.Receipt {
	e.Helper()
	rs := e.append(entries...)
	for i := range rs {
		if rs[i].Err != nil {
			e.Fatalf("entry %d was refused: %v", i, rs[i].Err)
		}
	}
	return rs
}

func (e *env) own() store.Fence {
	e.Helper()
	f, err := e.s.Own(e.Context())
	if err != nil {
		e.Fatalf("own: %v", err)
	}
	return f
}

func (e *env) head() store.Head {
	e.Helper()
	h, err := e.s.Head(e.Context())
	if err != nil {
		e.Fatalf("head: %v", err)
	}
	return h
}

// log reads everything after a position, a page at a time.
func (e *env) log(after engine.Position, page int) []engine.Record {
	e.Helper()
	var out []engine.Record
	for {
		rs, err := e.s.Read(e.Context(), after, page)
		if err != nil {
			e.Fatalf("read after %d: %v", after, err)
		}
		if len(rs) == 0 {
			return out
		}
		if len(rs) > page {
			e.Fatalf("read gave %d records, more than %d", len(rs), page)
		}
		out = append(out, rs...)
		after = rs[len(rs)-1].Position
	}
}

func (e *env) steps(q store.StepQuery) []engine.Record {
	e.Helper()
	rs, err := e.s.Steps(e.Context(), q)
	if err != nil {
		e.Fatalf("steps %+v: %v", q, err)
	}
	return rs
}

// same fails unless got is what was wanted; a want of nil is nothing at all.
func (e *env) same(what string, got, want any) {
	e.Helper()
	if want == nil && reflect.ValueOf(got).Len() == 0 {
		return
	}
	if d := Compare(got, want); d != "" {
		e.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// Compare tells how two values that came through a store differ, "" for not at
// all: nil and empty are the same, and what a policy prepares is left out.
func Compare(got, want any) string {
	return cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(engine.Policy{}))
}

// positions lists where records stand.
func positions(rs []engine.Record) []engine.Position {
	out := make([]engine.Position, len(rs))
	for i := range rs {
		out[i] = rs[i].Position
	}
	return out
}

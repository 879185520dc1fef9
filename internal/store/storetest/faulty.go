package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
)

// Op names an operation of a store, as its method is called.
type Op string

// The operations that can be made to fail.
const (
	OpAppend       Op = "Append"
	OpHead         Op = "Head"
	OpRead         Op = "Read"
	OpWait         Op = "Wait"
	OpEvents       Op = "Events"
	OpSteps        Op = "Steps"
	OpSaveStates   Op = "SaveStates"
	OpLoadState    Op = "LoadState"
	OpLiveStates   Op = "LiveStates"
	OpScopeNames   Op = "ScopeNames"
	OpCheckpoint   Op = "Checkpoint"
	OpRow          Op = "Row"
	OpRows         Op = "Rows"
	OpFieldChanges Op = "FieldChanges"
	OpFieldHead    Op = "FieldHead"
	OpFieldNames   Op = "FieldNames"
	OpOwn          Op = "Own"
	OpSecret       Op = "Secret"
)

// Fault says which call fails, and when.
type Fault struct {
	// N is the number of the call that fails, from 1; 0 fails none. Calls of
	// the operations in Ops are counted together.
	N int
	// Ops are the operations that count; none are all.
	Ops []Op
	// After lets the call do its work and then lose the answer, as when a
	// connection breaks between a commit and its word. Otherwise the call fails
	// and does nothing.
	After bool
}

func (f Fault) String() string {
	when := "before"
	if f.After {
		when = "after"
	}
	return fmt.Sprintf("call %d fails %s its work", f.N, when)
}

// FaultyStore is a store of which one call fails with store.ErrUnavailable.
// Use Faulty.
type FaultyStore struct {
	store.Store
	fault Fault

	mu    sync.Mutex
	calls int
	fired Op
}

// Faulty wraps a store. Every other call goes through unchanged.
func Faulty(s store.Store, f Fault) *FaultyStore { return &FaultyStore{Store: s, fault: f} }

// Fired returns the operation that was made to fail, "" for none yet.
func (f *FaultyStore) Fired() Op {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fired
}

// EveryCall runs a piece of work with a fault at its first call, its second
// and so on, before and after the call's work, until a run meets no fault. The
// body wraps its store by Faulty with the fault it is given, asserts what must
// hold whatever fails, and returns the wrapped store. EveryCall fails the test
// when no run met a fault: then the body made none of the calls.
func EveryCall(t *testing.T, ops []Op, body func(t *testing.T, f Fault) *FaultyStore) {
	t.Helper()
	for _, after := range []bool{false, true} {
		met := 0
		for n := 1; ; n++ {
			f := Fault{N: n, Ops: ops, After: after}
			clean := false
			t.Run(f.String(), func(t *testing.T) {
				clean = body(t, f).Fired() == ""
			})
			if clean || t.Failed() {
				break
			}
			met++
		}
		if met == 0 && !t.Failed() {
			t.Errorf("no call of %v was made", ops)
		}
	}
}

// hit counts a call and tells whether it is the one to fail.
func (f *FaultyStore) hit(op Op) bool {
	if len(f.fault.Ops) > 0 && !slices.Contains(f.fault.Ops, op) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if f.calls != f.fault.N {
		return false
	}
	f.fired = op
	return true
}

// call makes a call of one result, or makes it fail.
func call[T any](f *FaultyStore, op Op, work func() (T, error)) (T, error) {
	var none T
	if !f.hit(op) {
		return work()
	}
	if f.fault.After {
		if _, err := work(); err != nil {
			return none, err
		}
	}
	return none, fmt.Errorf("%s: %w: fault on purpose, %v", op, store.ErrUnavailable, f.fault)
}

// Append implements store.Log.
func (f *FaultyStore) Append(ctx context.Context, entries ...store.Entry) ([]store.Receipt, error) {
	return call(f, OpAppend, func() ([]store.Receipt, error) { return f.Store.Append(ctx, entries...) })
}

// Head implements store.Log.
func (f *FaultyStore) Head(ctx context.Context) (store.Head, error) {
	return call(f, OpHead, func() (store.Head, error) { return f.Store.Head(ctx) })
}

// Read implements store.Log.
func (f *FaultyStore) Read(ctx context.Context, after engine.Position, limit int) ([]engine.Record, error) {
	return call(f, OpRead, func() ([]engine.Record, error) { return f.Store.Read(ctx, after, limit) })
}

// Wait implements store.Log.
func (f *FaultyStore) Wait(ctx context.Context, after engine.Position) error {
	_, err := call(f, OpWait, func() (struct{}, error) { return struct{}{}, f.Store.Wait(ctx, after) })
	return err
}

// Events implements store.Log.
func (f *FaultyStore) Events(ctx context.Context, positions []engine.Position) ([]engine.Record, error) {
	return call(f, OpEvents, func() ([]engine.Record, error) { return f.Store.Events(ctx, positions) })
}

// Steps implements store.Log.
func (f *FaultyStore) Steps(ctx context.Context, q store.StepQuery) ([]engine.Record, error) {
	return call(f, OpSteps, func() ([]engine.Record, error) { return f.Store.Steps(ctx, q) })
}

// SaveStates implements store.States.
func (f *FaultyStore) SaveStates(ctx context.Context, fence store.Fence, rows []store.StateRow, checkpoint engine.Position) error {
	_, err := call(f, OpSaveStates, func() (struct{}, error) {
		return struct{}{}, f.Store.SaveStates(ctx, fence, rows, checkpoint)
	})
	return err
}

// LoadState implements store.States.
func (f *FaultyStore) LoadState(ctx context.Context, scope string) (store.StateRow, error) {
	return call(f, OpLoadState, func() (store.StateRow, error) { return f.Store.LoadState(ctx, scope) })
}

// LiveStates implements store.States.
func (f *FaultyStore) LiveStates(ctx context.Context, after string, limit int) ([]store.StateRow, error) {
	return call(f, OpLiveStates, func() ([]store.StateRow, error) { return f.Store.LiveStates(ctx, after, limit) })
}

// ScopeNames implements store.States.
func (f *FaultyStore) ScopeNames(ctx context.Context, after string, limit int) ([]string, error) {
	return call(f, OpScopeNames, func() ([]string, error) { return f.Store.ScopeNames(ctx, after, limit) })
}

// Checkpoint implements store.States.
func (f *FaultyStore) Checkpoint(ctx context.Context, fence store.Fence) (engine.Position, error) {
	return call(f, OpCheckpoint, func() (engine.Position, error) { return f.Store.Checkpoint(ctx, fence) })
}

// Row implements store.Rows.
func (f *FaultyStore) Row(ctx context.Context, space, key string) ([]byte, error) {
	return call(f, OpRow, func() ([]byte, error) { return f.Store.Row(ctx, space, key) })
}

// Rows implements store.Rows.
func (f *FaultyStore) Rows(ctx context.Context, space string) ([]store.Put, error) {
	return call(f, OpRows, func() ([]store.Put, error) { return f.Store.Rows(ctx, space) })
}

// FieldChanges implements store.Fields.
func (f *FaultyStore) FieldChanges(ctx context.Context, name string, after int64, limit int) ([]store.FieldChange, error) {
	return call(f, OpFieldChanges, func() ([]store.FieldChange, error) { return f.Store.FieldChanges(ctx, name, after, limit) })
}

// FieldHead implements store.Fields.
func (f *FaultyStore) FieldHead(ctx context.Context, name string) (int64, error) {
	return call(f, OpFieldHead, func() (int64, error) { return f.Store.FieldHead(ctx, name) })
}

// FieldNames implements store.Fields.
func (f *FaultyStore) FieldNames(ctx context.Context, after string, limit int) ([]string, error) {
	return call(f, OpFieldNames, func() ([]string, error) { return f.Store.FieldNames(ctx, after, limit) })
}

// Own implements store.Owner.
func (f *FaultyStore) Own(ctx context.Context) (store.Fence, error) {
	return call(f, OpOwn, func() (store.Fence, error) { return f.Store.Own(ctx) })
}

// Secret implements store.Store.
func (f *FaultyStore) Secret(ctx context.Context) ([]byte, error) {
	return call(f, OpSecret, func() ([]byte, error) { return f.Store.Secret(ctx) })
}

// Now implements store.Store. It cannot fail.
func (f *FaultyStore) Now() time.Time { return f.Store.Now() }

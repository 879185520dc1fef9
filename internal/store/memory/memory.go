// Package memory is a store that lives in the process and ends with it.
//
// It is the reference: each rule of the store's contract is written here in
// the plainest way, and the other stores are compared with it. It takes one
// lock for everything and no resource of the operating system, so it works
// inside a testing/synctest bubble.
//
// Steps pass through their stored form on the way in, so that a field which
// would not survive a disk does not survive here either.
package memory

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"attend/internal/engine"
	"attend/internal/store"
)

// Options of a store. The zero value is ready for use.
type Options struct {
	// Now is the clock behind the stamps, which never fall; nil is time.Now.
	Now func() time.Time
}

// Store is a store.Store in memory. Use New.
type Store struct {
	clock  *store.Clock
	epoch  string
	secret []byte

	mu       sync.Mutex
	closed   bool
	changed  chan struct{} // closed and replaced at each append, closed for good by Close
	metrics  *store.Metrics
	log      log
	numbered map[string]engine.Position
	fence    store.Fence // in force; the zero Fence until somebody owns the store
	leases   leases      // of the shards, where replicas share the store

	states     states
	checkpoint engine.Position
	rows       map[string]map[string][]byte   // space, key
	fields     map[string][]store.FieldChange // by name; the change of number n is at n-1
	importing  *importing                     // nil but while an import is not finished
}

var _ store.Store = (*Store)(nil)

// New returns an empty store.
func New(o Options) *Store {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	return &Store{
		clock: store.NewClock(o.Now, 0), epoch: rand.Text(), secret: secret,
		changed:  make(chan struct{}),
		numbered: make(map[string]engine.Position),
		states:   states{rows: make(map[string]*state)},
		rows:     make(map[string]map[string][]byte),
		fields:   make(map[string][]store.FieldChange),
	}
}

// Register adds the store's metrics to a registerer.
func (s *Store) Register(r prometheus.Registerer) error {
	m, err := store.NewMetrics(r, func() engine.Position {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.log.head()
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.metrics = m
	return nil
}

// Now returns the time of the store's clock.
func (s *Store) Now() time.Time { return s.clock.Time() }

// Close ends every Wait. What is done with the store afterwards fails with
// store.ErrClosed.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.changed)
	}
	return nil
}

// lock takes the lock for an operation, unless the store is closed or the
// context has ended. The caller unlocks when the error is nil.
func (s *Store) lock(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return store.Describe(op, err)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return store.Describe(op, store.ErrClosed)
	}
	return nil
}

// Append implements store.Log.
func (s *Store) Append(ctx context.Context, entries ...store.Entry) ([]store.Receipt, error) {
	start := time.Now()
	if err := s.lock(ctx, "append"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if s.importing != nil {
		return nil, store.Describe("append", store.ErrImporting)
	}
	before := s.log.head()
	stamp := s.clock.Stamp()
	receipts := make([]store.Receipt, len(entries))
	for i := range entries {
		receipts[i] = s.appendEntry(&entries[i], stamp)
	}
	if s.log.head() > before {
		close(s.changed)
		s.changed = make(chan struct{})
	}
	if s.metrics != nil {
		s.metrics.Appended(time.Since(start))
	}
	return receipts, nil
}

// appendEntry writes one entry whole, or nothing of it.
func (s *Store) appendEntry(e *store.Entry, stamp engine.Time) store.Receipt {
	steps, err := s.admit(e, stamp)
	if err != nil {
		return store.Receipt{Err: store.Describe("append", err)}
	}
	r := store.Receipt{Stamp: stamp}
	if len(e.Events)+len(steps) > 0 {
		r.First = s.log.head() + 1
	}
	for i := range e.Events {
		ev := &e.Events[i]
		s.log.add(engine.Record{Stamp: stamp, Scope: ev.Scope, Event: &ev.Event})
	}
	for _, step := range steps {
		at := s.log.add(engine.Record{Stamp: stamp, Scope: e.Scope, Step: step})
		if !step.Kind.Outside() {
			s.numbered[e.Scope] = at
		}
	}
	if r.First > 0 {
		r.Last = s.log.head()
	}
	for i := range e.Puts {
		s.put(&e.Puts[i])
	}
	if e.Field != nil {
		s.change(e.Field)
	}
	return r
}

// admit makes every comparison that an entry asks for, and returns its steps
// as a disk would give them back.
func (s *Store) admit(e *store.Entry, stamp engine.Time) ([]*engine.Step, error) {
	if err := e.Check(); err != nil {
		return nil, err
	}
	if e.Owned() {
		if err := e.CheckFence(s.inForce(e.Fence.Shard)); err != nil {
			return nil, err
		}
		if err := e.CheckAfterKept(s.numbered[e.Scope], s.log.kept()); err != nil {
			return nil, err
		}
		if err := e.CheckDue(stamp); err != nil {
			return nil, err
		}
		for r := range s.log.after(e.Applied) {
			if r.Stamp >= e.Due {
				break
			}
			if e.Concerns(r) {
				return nil, e.Unapplied(r.Position)
			}
		}
	}
	if e.Field != nil {
		if err := e.Field.CheckLast(int64(len(s.fields[e.Field.Name]))); err != nil {
			return nil, err
		}
	}
	steps := make([]*engine.Step, len(e.Steps))
	for i := range e.Steps {
		body, err := engine.EncodeStep(&e.Steps[i])
		if err != nil {
			return nil, fmt.Errorf("%w: %w", store.ErrInvalid, err)
		}
		if steps[i], err = engine.DecodeStep(body, engine.Format); err != nil {
			return nil, fmt.Errorf("%w: %w", store.ErrInvalid, err)
		}
	}
	return steps, nil
}

// Head implements store.Log.
func (s *Store) Head(ctx context.Context) (store.Head, error) {
	if err := s.lock(ctx, "read head"); err != nil {
		return store.Head{}, err
	}
	defer s.mu.Unlock()
	return store.Head{Position: s.log.head(), Stamp: s.log.stamp, Epoch: s.epoch}, nil
}

// Read implements store.Log.
func (s *Store) Read(ctx context.Context, after engine.Position, limit int) ([]engine.Record, error) {
	if err := s.lock(ctx, "read log"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return s.log.read(after, max(limit, 0)), nil
}

// Wait implements store.Log.
func (s *Store) Wait(ctx context.Context, after engine.Position) error {
	for {
		if err := s.lock(ctx, "wait for the log"); err != nil {
			return err
		}
		head, changed := s.log.head(), s.changed
		s.mu.Unlock()
		if head > after {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return store.Describe("wait for the log", ctx.Err())
		}
	}
}

// Events implements store.Log.
func (s *Store) Events(ctx context.Context, positions []engine.Position) ([]engine.Record, error) {
	if err := s.lock(ctx, "read events"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var out []engine.Record
	for _, p := range positions {
		if r := s.log.event(p); r != nil {
			out = append(out, *r)
		}
	}
	return out, nil
}

// Steps implements store.Log.
func (s *Store) Steps(ctx context.Context, q store.StepQuery) ([]engine.Record, error) {
	if err := s.lock(ctx, "read steps"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var out []engine.Record
	for r := range s.log.stepsAfter(q.After) {
		if q.Matches(r) {
			out = append(out, *r)
			if len(out) == q.Count() {
				break
			}
		}
	}
	return out, nil
}

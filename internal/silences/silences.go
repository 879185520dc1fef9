// Package silences keeps scopes quiet for a time: whoever is on call, or a tool
// that makes noise on purpose, says which windows no judge needs to see. A
// silence is a step of every scope in the log, and so is its end; the fold does
// the rest, exactly between the stamp of the one and the instant of the other.
//
// Nothing is lost by a silence: its windows settle as always, with the route
// skip, and can be counted and read.
package silences

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"attend/internal/engine"
	"attend/internal/store"
)

// Bounds of one silence, and of all of them.
const (
	MaxScope  = 512  // bytes of a scope pattern, as of a scope
	MaxEvent  = 256  // bytes of a pattern of event names
	MaxWhy    = 1024 // bytes
	MaxActive = 1000 // silences at once, but for those of the configuration
	// MaxLimited is how many may be in force of one principal that is limited to
	// some scopes, so that it cannot take the place of all others.
	MaxLimited = 100
	// MaxMs is a hundred years, the longest that a silence may last.
	MaxMs = 100 * 366 * 24 * 3600 * 1000
	// Counted is how many windows are counted of what a silence hid.
	Counted = 10_000
)

// Forever is the end of a silence that has none.
const Forever = engine.Time(1<<63 - 1)

// page is how many steps are read at once.
const page = 1000

// Errors of the service.
var (
	// ErrNotFound: there is no silence of that id.
	ErrNotFound = errors.New("there is no such silence")
	// ErrTooMany: MaxActive silences are in force, or MaxLimited of whoever asks.
	// Errors that say which wrap it.
	ErrTooMany = errors.New("end one first")

	errTooManyOfAll = fmt.Errorf("%d silences are in force, the most there may be: %w", MaxActive, ErrTooMany)
	errTooManyOfOne = fmt.Errorf("%d silences of this token are in force, the most that one limited to some scopes may have: %w", MaxLimited, ErrTooMany)
)

// Silence is one, as everyone is shown it. Times are Unix milliseconds.
type Silence struct {
	ID           string       `json:"id"`
	Scope        string       `json:"scope"` // glob
	Event        *string      `json:"event"` // glob over event names; null for all
	IncludeFlush bool         `json:"includeFlush"`
	Who          string       `json:"who"` // the principal; "" where there are no tokens
	Why          string       `json:"why"`
	Since        engine.Time  `json:"since"`
	Until        *engine.Time `json:"until"`   // exclusive; null while it stands in the configuration without an end
	Active       bool         `json:"active"`  // it has not ended
	EndedBy      *string      `json:"endedBy"` // the principal who ended it before its time; null for nobody
	Hid          *Hid         `json:"hid"`
}

// Hid is what a silence kept from the judge, as far as the log still tells.
type Hid struct {
	Windows int  `json:"windows"`
	Events  int  `json:"events"`
	More    bool `json:"more"` // there are more windows than are counted
}

// Log is what the service needs of the log.
type Log interface {
	Append(ctx context.Context, entries ...store.Entry) ([]store.Receipt, error)
	Steps(ctx context.Context, q store.StepQuery) ([]engine.Record, error)
}

// Service makes, ends and shows silences. It is safe for concurrent use.
type Service struct {
	log Log
	now func() time.Time // the store's clock, which gives the stamps

	mu     sync.Mutex
	rules  *engine.Rules     // of the silences alone
	ended  map[string]string // id → who ended it before its time
	after  engine.Position   // the silences up to here are known
	making sync.Mutex        // one is made at a time, so that MaxActive holds
}

// New returns the service of a log.
func New(log Log, now func() time.Time) *Service {
	return &Service{log: log, now: now, rules: engine.NewRules(nil), ended: make(map[string]string)}
}

// read takes in what the log tells of silences since it was last asked, and
// returns all of them, oldest first. Steps of silences are never deleted.
func (s *Service) read(ctx context.Context) ([]engine.Silence, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		recs, err := s.log.Steps(ctx, store.StepQuery{After: s.after, Kinds: []engine.StepKind{engine.StepSilence}, Limit: page})
		if err != nil {
			return nil, store.Describe("read the silences", err)
		}
		for i := range recs {
			if err := s.take(&recs[i]); err != nil {
				return nil, err
			}
		}
		if len(recs) < page {
			return s.rules.Silences(), nil
		}
	}
}

// take folds one record, by the engine's own rules.
func (s *Service) take(rec *engine.Record) error {
	said := rec.Step.Silence
	if said != nil && said.Ended {
		if of, known := s.rules.Silence(said.ID); known && of.Until > rec.Stamp+1 {
			s.ended[said.ID] = said.Who
		}
	}
	if err := s.rules.Apply(*rec); err != nil {
		return fmt.Errorf("read the silences: %w", err)
	}
	s.after = rec.Position
	return nil
}

// show makes the view of a silence, without what it hid.
func (s *Service) show(of *engine.Silence) Silence {
	v := Silence{
		ID: of.ID, Scope: of.Scope, IncludeFlush: of.IncludeFlush, Who: of.Who, Why: of.Why,
		Since: of.Since, Active: s.active(of),
	}
	if of.Event != "" {
		v.Event = &of.Event
	}
	if of.Until != Forever {
		v.Until = &of.Until
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if who, ended := s.ended[of.ID]; ended {
		v.EndedBy = &who
	}
	return v
}

// active tells whether a silence has not ended. One that was ended has, though it
// covers what is due at the millisecond at which its end was written.
func (s *Service) active(of *engine.Silence) bool {
	s.mu.Lock()
	_, ended := s.ended[of.ID]
	s.mu.Unlock()
	return !ended && engine.Time(s.now().UnixMilli()) < of.Until
}

// List returns silences that whoever asks may see, newest first: those that have
// not ended, or all of them; more when there are others beyond the limit.
func (s *Service) List(ctx context.Context, ended bool, limit int, may func(*engine.Silence) bool) (list []Silence, more bool, err error) {
	all, err := s.read(ctx)
	if err != nil {
		return nil, false, err
	}
	list = []Silence{}
	for i := range slices.Backward(all) {
		of := &all[i]
		if !ended && !s.active(of) || !may(of) {
			continue
		}
		if len(list) == limit {
			return list, true, nil
		}
		v, err := s.whole(ctx, of)
		if err != nil {
			return nil, false, err
		}
		list = append(list, v)
	}
	return list, false, nil
}

// Find returns one silence; ErrNotFound where there is none, or none that
// whoever asks may see.
func (s *Service) Find(ctx context.Context, id string, may func(*engine.Silence) bool) (Silence, error) {
	of, err := s.find(ctx, id, may)
	if err != nil {
		return Silence{}, err
	}
	return s.whole(ctx, of)
}

func (s *Service) find(ctx context.Context, id string, may func(*engine.Silence) bool) (*engine.Silence, error) {
	all, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(of engine.Silence) bool { return of.ID == id })
	if i < 0 || !may(&all[i]) {
		return nil, ErrNotFound
	}
	return &all[i], nil
}

// whole is the view with what the silence hid: the settles that name it.
func (s *Service) whole(ctx context.Context, of *engine.Silence) (Silence, error) {
	v := s.show(of)
	v.Hid = new(Hid)
	q := store.StepQuery{ID: of.ID, Kinds: []engine.StepKind{engine.StepSettled}, Limit: page}
	for {
		recs, err := s.log.Steps(ctx, q)
		if err != nil {
			return v, store.Describe("count what a silence hid", err)
		}
		for i := range recs {
			if v.Hid.Windows == Counted {
				v.Hid.More = true
				return v, nil
			}
			q.After = recs[i].Position
			v.Hid.Windows++
			v.Hid.Events += len(recs[i].Step.Settled.Events)
		}
		if len(recs) < page {
			return v, nil
		}
	}
}

// Maker is who makes a silence.
type Maker struct {
	Name    string // the principal; "" where there are no tokens
	Limited bool   // to some scopes
}

// Add makes a silence from now on.
//
// Errors: a *Mistake of what is asked; ErrTooMany.
func (s *Service) Add(ctx context.Context, who Maker, ask *Request) (Silence, error) {
	now := engine.Time(s.now().UnixMilli())
	of, err := ask.silence(now)
	if err != nil {
		return Silence{}, err
	}
	of.ID, of.Who = ulid.Make().String(), who.Name
	s.making.Lock()
	defer s.making.Unlock()
	all, err := s.read(ctx)
	if err != nil {
		return Silence{}, err
	}
	if err := s.room(all, who); err != nil {
		return Silence{}, err
	}
	stamp, err := s.write(ctx, of)
	if err != nil {
		return Silence{}, err
	}
	of.Since = stamp
	v := s.show(&of)
	v.Hid = new(Hid)
	return v, nil
}

// room tells whether there may be one more. Those of the configuration have a
// bound of their own.
func (s *Service) room(all []engine.Silence, who Maker) error {
	active, own := 0, 0
	for i := range all {
		of := &all[i]
		if strings.HasPrefix(of.ID, filePrefix) || !s.active(of) {
			continue
		}
		active++
		if of.Who == who.Name {
			own++
		}
	}
	switch {
	case active >= MaxActive:
		return errTooManyOfAll
	case who.Limited && own >= MaxLimited:
		return errTooManyOfOne
	}
	return nil
}

// End ends a silence now: what is due later is judged again. Ending one that has
// ended changes nothing.
func (s *Service) End(ctx context.Context, who, id string, may func(*engine.Silence) bool) (Silence, error) {
	of, err := s.find(ctx, id, may)
	if err != nil {
		return Silence{}, err
	}
	if s.active(of) {
		if _, err := s.write(ctx, engine.Silence{ID: id, Scope: of.Scope, Who: who, Ended: true}); err != nil {
			return Silence{}, err
		}
		if of, err = s.find(ctx, id, may); err != nil {
			return Silence{}, err
		}
	}
	return s.whole(ctx, of)
}

func (s *Service) write(ctx context.Context, all ...engine.Silence) (engine.Time, error) {
	steps := make([]engine.Step, len(all))
	for i := range all {
		steps[i] = engine.Step{Kind: engine.StepSilence, ID: all[i].ID, Silence: &all[i]}
	}
	receipts, err := s.log.Append(ctx, store.Entry{Steps: steps})
	if err = cmp.Or(err, firstError(receipts)); err != nil {
		return 0, store.Describe("write a silence", err)
	}
	return receipts[0].Stamp, nil
}

func firstError(receipts []store.Receipt) error {
	if len(receipts) == 0 {
		return nil
	}
	return receipts[0].Err
}

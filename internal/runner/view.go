package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
)

// ScopeView is S: what a scope holds now (design, section 6). Absent parts are
// null; times are Unix milliseconds.
type ScopeView struct {
	Scope   string       `json:"scope"`
	Open    *OpenView    `json:"open"`
	Held    *HeldView    `json:"held"`
	Judging *JudgingView `json:"judging"`
	Lanes   *LanesView   `json:"lanes"`
	// Silences are those in force that cover windows of the scope, or some.
	Silences []SilenceView `json:"silences"`
	Policy   uint32        `json:"policy"` // the number of the policy in force
}

// OpenView is the open window.
type OpenView struct {
	Events    int            `json:"events"`
	Acts      int            `json:"acts"` // flushes included
	Bytes     int64          `json:"bytes"`
	Since     engine.Time    `json:"since"`
	Dropped   int            `json:"dropped"`
	Gap       bool           `json:"gap"`
	Deadlines []DeadlineView `json:"deadlines"`
}

// DeadlineView is an instant at which the open window is due.
type DeadlineView struct {
	Reason engine.Reason `json:"reason"`
	At     engine.Time   `json:"at"`
	Event  *string       `json:"event"` // id of the event that set it; null for a flush call
}

// HeldView is a window whose verdict was wait.
type HeldView struct {
	ID    string      `json:"id"`
	Until engine.Time `json:"until"`
	Waits int         `json:"waits"`
}

// JudgingView is the window in the judge slot.
type JudgingView struct {
	ID      string       `json:"id"`
	Attempt int          `json:"attempt"`
	Since   *engine.Time `json:"since"`   // of the running call
	RetryAt *engine.Time `json:"retryAt"` // of the next attempt
}

// LanesView is what waits to be delivered; null where nothing does.
type LanesView struct {
	Outbox      *LaneView `json:"outbox"`      // decisions
	DeadLetters *LaneView `json:"deadLetters"` // for the handler
}

// LaneView is a lane and the first in it, which alone is on its way.
type LaneView struct {
	Waiting int          `json:"waiting"` // the first included
	Full    bool         `json:"full"`    // new events of the scope are refused
	ID      string       `json:"id"`      // of the decision or dead letter
	Sink    string       `json:"sink"`
	Attempt int          `json:"attempt"`
	Since   *engine.Time `json:"since"`   // of the running attempt
	RetryAt *engine.Time `json:"retryAt"` // of the next one
	Error   string       `json:"error,omitempty"`
}

// SilenceView is a silence in force.
type SilenceView struct {
	ID           string       `json:"id"`
	Event        *string      `json:"event"` // glob over the names that it covers; null for all
	IncludeFlush bool         `json:"includeFlush"`
	Since        engine.Time  `json:"since"`
	Until        *engine.Time `json:"until"` // null for one without an end
	Who          string       `json:"who"`
	Why          string       `json:"why"`
}

// Scope returns what a scope holds; one that was never heard of holds nothing.
func (r *Runner) Scope(ctx context.Context, name string) (ScopeView, error) {
	views, err := r.views(ctx, []string{name})
	if err != nil {
		return ScopeView{}, err
	}
	return views[0], nil
}

// Scopes returns scopes by name, after the one given.
func (r *Runner) Scopes(ctx context.Context, after string, limit int) ([]ScopeView, error) {
	names, err := r.store.ScopeNames(ctx, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list scopes: %w", err)
	}
	r.mu.RLock()
	for name, s := range r.mem.byName {
		if name > after && s.state != nil {
			names = append(names, name)
		}
	}
	r.mu.RUnlock()
	slices.Sort(names)
	names = slices.Compact(names)
	return r.views(ctx, names[:min(len(names), limit)])
}

func (r *Runner) views(ctx context.Context, names []string) ([]ScopeView, error) {
	views := make([]ScopeView, len(names))
	var ids []engine.Position
	for i, name := range names {
		v, err := r.view(ctx, name)
		if err != nil {
			return nil, err
		}
		views[i] = v.ScopeView
		ids = append(ids, v.events...)
	}
	recs, err := r.store.Events(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read the events of deadlines: %w", err)
	}
	byPosition := make(map[engine.Position]string, len(recs))
	for i := range recs {
		byPosition[recs[i].Position] = recs[i].Event.ID
	}
	for i := range views {
		if views[i].Open == nil {
			continue
		}
		for j := range views[i].Open.Deadlines {
			d := &views[i].Open.Deadlines[j]
			if len(ids) > 0 && d.Event != nil {
				if id, ok := byPosition[ids[0]]; ok {
					*d.Event = id
				}
				ids = ids[1:]
			}
		}
	}
	return views, nil
}

type viewed struct {
	ScopeView
	events []engine.Position // that set deadlines, in order
}

func (r *Runner) view(ctx context.Context, name string) (viewed, error) {
	r.mu.RLock()
	s := r.mem.byName[name]
	if s != nil && s.state != nil {
		defer r.mu.RUnlock()
		return r.show(s.state), nil
	}
	r.mu.RUnlock()
	row, err := r.store.LoadState(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		r.mu.RLock()
		defer r.mu.RUnlock()
		return viewed{ScopeView: r.empty(name)}, nil
	}
	if err != nil {
		return viewed{}, fmt.Errorf("read the state of %q: %w", name, err)
	}
	row.Blocks = nil
	r.mu.RLock()
	defer r.mu.RUnlock()
	st, err := engine.DecodeView(r.rules, row.Body, row.Format)
	if err != nil {
		return viewed{}, fmt.Errorf("read the state of %q: %w", name, err)
	}
	return r.show(st), nil
}

func (r *Runner) show(st *engine.State) viewed {
	v := viewed{ScopeView: r.empty(st.Scope)}
	if n := len(st.Open.Events); n > 0 || st.Open.Dropped > 0 || st.Open.Gap {
		o := &OpenView{Events: n, Bytes: st.Open.Bytes, Dropped: st.Open.Dropped, Gap: st.Open.Gap, Deadlines: []DeadlineView{}}
		for i := range st.Open.Events {
			if st.Open.Events[i].Kind.Act() {
				o.Acts++
			}
		}
		if n > 0 {
			o.Since = st.Open.Events[0].SeenAt
		}
		for _, d := range st.Open.Deadlines() {
			dv := DeadlineView{Reason: d.Reason, At: d.At}
			if d.Event != 0 {
				dv.Event = new(string)
				v.events = append(v.events, d.Event)
			}
			o.Deadlines = append(o.Deadlines, dv)
		}
		v.Open = o
	}
	if h := st.Held; h != nil {
		v.Held = &HeldView{ID: h.Settled.Window, Until: h.Until, Waits: h.Waits}
	}
	if slot := st.Slot; slot != nil {
		j := &JudgingView{ID: slot.Settled.Window, Attempt: slot.Attempt}
		switch slot.Phase {
		case engine.PhaseCalling:
			j.Since = &slot.Since
		case engine.PhaseBackoff:
			j.RetryAt = &slot.Failed.RetryAt
		case engine.PhaseClosed, engine.PhaseDead:
		}
		v.Judging = j
	}
	if st.Outbox != nil || st.Letters != nil {
		full, _ := st.Full(r.rules.Latest().For(st.Scope))
		v.Lanes = &LanesView{
			Outbox:      r.showLane(st, engine.LaneOutbox, full),
			DeadLetters: r.showLane(st, engine.LaneLetters, full),
		}
	}
	return v
}

func (r *Runner) showLane(st *engine.State, name, full engine.LaneName) *LaneView {
	l := st.Lane(name)
	if l == nil {
		return nil
	}
	v := &LaneView{Waiting: l.Len(), Full: name == full, ID: l.Queue[0].ID, Sink: l.Sink, Attempt: l.Attempt}
	switch l.Phase {
	case engine.LaneSends:
		v.Since = &l.Since
	case engine.LaneBackoff:
		v.RetryAt = &l.Failed.RetryAt
	case engine.LaneWaits, engine.LaneGivenUp:
	}
	if v.Sink == "" {
		v.Sink = st.SinkFor(r.rules, name)
	}
	if l.Failed != nil {
		v.Error = l.Failed.Message
	}
	return v
}

// readyLag is how far behind the head the fold may be, and how long its work
// may fail.
const readyLag = 5000 // milliseconds

// leased says what is wrong with the leases, if anything.
func (r *Runner) leased() error {
	if r.opt.Leases == nil {
		return nil
	}
	r.mu.RLock()
	until := r.shards.until
	r.mu.RUnlock()
	if until.IsZero() {
		return errors.New("the runner does not know its shards yet")
	}
	if late := time.Since(until); late > readyLag*time.Millisecond {
		return fmt.Errorf("the runner's leases could not be renewed for %d s; the log says why", (late+r.trust())/time.Second)
	}
	return nil
}

// Ready returns nil when the fold has caught up with the log after the start,
// is within five seconds of its head, its leases are renewed, and what follows
// from it has been written in the last five seconds, if there was anything.
func (r *Runner) Ready(ctx context.Context) error {
	if !r.caughtUp.Load() {
		return errors.New("the runner is still reading the log")
	}
	if since := r.failing.Load(); since != 0 && since < r.now()-readyLag {
		return fmt.Errorf("the runner could not do its work for %d s; the log says why", (r.now()-since)/1000)
	}
	if err := r.leased(); err != nil {
		return err
	}
	head, err := r.store.Head(ctx)
	if err != nil {
		return fmt.Errorf("the store does not answer: %w", err)
	}
	applied := engine.Position(r.applied.Load())
	if applied >= head.Position {
		return nil
	}
	recs, err := r.store.Read(ctx, applied, 1)
	if err != nil {
		return fmt.Errorf("the store does not answer: %w", err)
	}
	if len(recs) > 0 && int64(recs[0].Stamp) < r.now()-readyLag {
		return fmt.Errorf("the runner is %d records behind the head of the log", head.Position-applied)
	}
	return nil
}

package sim

import (
	"fmt"
	"slices"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/store"
)

// ledger is what the world outside knows, and the checks that it holds the log
// against. It shares nothing with the daemons but the rules.
type ledger struct {
	plan     *Plan
	findings []string
	totals   Totals

	records []engine.Record
	rules   *engine.Rules
	scopes  map[string]*folded
	names   []string // of scopes, in order of appearance

	windows map[string]*window
	inOrder []*window
	owner   map[engine.Position]*window // event → the final window that has it
	letters []*engine.DeadLetter

	requeued map[string]bool // ids of dead letters

	jumps       int                        // of the wall clock so far
	started     map[string]int             // scope and lane → jumps when the last delivery started
	inside      map[string]inside          // scope and lane → what a sink is at
	took        map[string]bool            // ids that a sink has taken
	undelivered map[string]int             // decision → dead letters of stage sink
	letterAt    map[string]engine.Position // of those

	acked  map[eventKey]bool
	stored map[eventKey]engine.Time // stamp of the last copy

	fences   map[int]store.Fence // shard → the one in force
	owners   map[int]int         // shard → the life that has it
	writes   []written           // by owners, that the log has not been compared with
	rows     []savedRows         // that have not been compared
	rungs    int                 // the longest ladder of all policies
	maxWaits int                 // the greatest of all policies
}

type eventKey struct{ scope, id string }

// written is an owner's entry that a store took.
type written struct {
	entry       store.Entry
	first, last engine.Position
}

type savedRows struct {
	shard      int
	scopes     []string
	checkpoint engine.Position
}

func newLedger(p *Plan) *ledger {
	l := &ledger{
		plan: p, rules: engine.NewRules(compile), scopes: make(map[string]*folded),
		windows: make(map[string]*window), owner: make(map[engine.Position]*window),
		requeued: make(map[string]bool), fences: make(map[int]store.Fence), owners: make(map[int]int),
		started: make(map[string]int), inside: make(map[string]inside), took: make(map[string]bool), undelivered: make(map[string]int), letterAt: make(map[string]engine.Position),
		acked: make(map[eventKey]bool), stored: make(map[eventKey]engine.Time),
	}
	for i := range p.Policies {
		l.rungs = max(l.rungs, len(p.Policies[i].Default.RetryBackoffMs))
		l.maxWaits = max(l.maxWaits, p.Policies[i].Default.MaxWaits)
	}
	return l
}

// add notes a breach of the promise. It begins with the name of the check.
func (l *ledger) add(check, format string, args ...any) {
	l.findings = append(l.findings, check+": "+fmt.Sprintf(format, args...))
}

func (l *ledger) head() engine.Position { return engine.Position(len(l.records)) }

// acknowledge notes that a producer was told that its event is safe: it must
// stand in the log by then.
func (l *ledger) acknowledge(scope, id string) {
	key := eventKey{scope, id}
	l.acked[key] = true
	l.totals.Acked++
}

// owned notes what a life has the right to write from now on: each token is
// one life's, and they grow.
func (l *ledger) owned(life int, fences ...store.Fence) {
	for _, f := range fences {
		switch before := l.fences[f.Shard]; {
		case f.Token < before.Token || f.Token == before.Token && l.owners[f.Shard] != life:
			l.add("fence", "life %d is given token %d of shard %d, life %d has token %d", life, f.Token, f.Shard, l.owners[f.Shard], before.Token)
		case f.Token > before.Token:
			l.fences[f.Shard], l.owners[f.Shard] = f, life
			l.totals.Takeovers++
		}
	}
}

// inForce reports whether a fence is the one of its shard, and is for the scope.
func (l *ledger) inForce(f store.Fence, scope string) bool {
	return f == l.fences[f.Shard] && (f.Shard < 0 || f.Shard == engine.Shard(scope))
}

// wrote notes what a store took, and that who wrote it had the right to.
func (l *ledger) wrote(entries []store.Entry, receipts []store.Receipt) {
	for i := range entries {
		e, r := &entries[i], &receipts[i]
		if r.Err != nil {
			continue
		}
		if e.Owned() {
			if !l.inForce(e.Fence, e.Scope) {
				l.add("fence", "positions %d to %d of scope %q were written under %+v, in force is %+v", r.First, r.Last, e.Scope, e.Fence, l.fences[e.Fence.Shard])
			}
			if r.Stamp < e.Due {
				l.add("early", "positions %d to %d were due at %d and are stamped %d", r.First, r.Last, e.Due, r.Stamp)
			}
		}
		l.writes = append(l.writes, written{*e, r.First, r.Last})
	}
}

// take checks new records of the log, one after the other, and then the scopes
// that they concern.
func (l *ledger) take(recs []engine.Record) {
	var touched []*folded
	for i := range recs {
		r := &recs[i]
		l.order(r)
		l.records = append(l.records, *r)
		if r.Event != nil {
			l.stored[eventKey{r.Scope, r.Event.ID}] = r.Stamp
		}
		if r.Scope == "" {
			if err := l.rules.Apply(*r); err != nil {
				l.add("fold", "position %d: %v", r.Position, err)
			}
			continue
		}
		s := l.scope(r.Scope)
		s.records = append(s.records, *r)
		l.step(r)
		l.apply(s, r)
		if !slices.Contains(touched, s) {
			touched = append(touched, s)
		}
	}
	l.checkWrites()
	for _, s := range touched {
		l.account(s)
	}
}

func (l *ledger) scope(name string) *folded {
	s := l.scopes[name]
	if s == nil {
		s = &folded{state: engine.NewState(name), copies: make(map[string]engine.Position)}
		l.scopes[name] = s
		l.names = append(l.names, name)
	}
	return s
}

// order: positions have no gaps, stamps never fall, a record is an event or a
// step.
func (l *ledger) order(r *engine.Record) {
	if want := l.head() + 1; r.Position != want {
		l.add("positions", "record %d of the log stands at position %d", want, r.Position)
	}
	if n := len(l.records); n > 0 && r.Stamp < l.records[n-1].Stamp {
		l.add("stamps", "position %d is stamped %d, the one before %d", r.Position, r.Stamp, l.records[n-1].Stamp)
	}
	if (r.Event == nil) == (r.Step == nil) {
		l.add("positions", "position %d holds neither an event nor a step, or both", r.Position)
	}
}

// checkWrites: each owner's step was written by an owner that knew the scope's
// last step, and all that was stamped before the entry was due.
func (l *ledger) checkWrites() {
	for i := range l.writes {
		w := &l.writes[i]
		if !w.entry.Owned() {
			continue
		}
		s := l.scopes[w.entry.Scope]
		if s == nil {
			continue
		}
		last := engine.Position(0)
		for j := range s.records {
			r := &s.records[j]
			if r.Position >= w.first {
				break
			}
			if r.Step != nil && !r.Step.Kind.Outside() {
				last = r.Position
			}
			if r.Position > w.entry.Applied && r.Stamp < w.entry.Due {
				l.add("behind", "position %d was written by an owner that had not applied position %d", w.first, r.Position)
			}
		}
		if last != w.entry.After {
			l.add("conflict", "position %d follows the scope's step at %d, its owner knew %d", w.first, last, w.entry.After)
		}
		s.written = max(s.written, w.last)
	}
	l.writes = l.writes[:0]
}

// asked: the start of a call stands in the log before the judge is called, and
// the judge sees the window's events as they were sent.
func (l *ledger) asked(in *judge.Input) {
	l.totals.Calls++
	w := l.windows[in.Window.ID]
	if w == nil || w.calls == 0 {
		l.add("call", "the judge is asked about window %s, and the log does not tell of a call", in.Window.ID)
		return
	}
	if len(in.Window.Events) != len(w.settled.Events) {
		l.add("call", "the judge is shown %d events of the %d of window %s", len(in.Window.Events), len(w.settled.Events), in.Window.ID)
		return
	}
	for i, p := range w.settled.Events {
		stored, shown := l.records[p-1].Event, &in.Window.Events[i]
		if stored.ID != shown.ID || stored.Text != shown.Text || stored.Name != shown.Name {
			l.add("call", "the judge is shown event %q of window %s otherwise than it is stored", stored.ID, in.Window.ID)
		}
	}
}

// deadLetter returns one of the dead letters, nil for none: mostly one that was
// not requeued, else one that two people ask for at once.
func (l *ledger) deadLetter(n int) *engine.DeadLetter {
	var open []*engine.DeadLetter
	for _, d := range l.letters {
		if !l.requeued[d.ID] || n%3 == 0 {
			open = append(open, d)
		}
	}
	if len(open) == 0 {
		return nil
	}
	return open[n%len(open)]
}

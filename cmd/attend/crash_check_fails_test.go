package main_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"attend/internal/engine"
	"attend/internal/judge"
)

// story is a small log as the daemon would write it, and what the world saw of
// it: the ground on which each check is shown to fail.
type story struct {
	t      *testing.T
	rules  *engine.Rules
	states map[string]*engine.State
	log    []engine.Record
	seen   evidence
	now    engine.Time
}

// newStory tells of two scopes: acts, consequences, a copy, what overflows,
// what is too old, flushes, and readers who see it all.
//
// The first window is settled rest milliseconds after its last event.
func newStory(t *testing.T, rest engine.Time) *story {
	t.Helper()
	s := &story{
		t: t, states: make(map[string]*engine.State), now: 1_000_000,
		rules: engine.NewRules(judge.Compile),
		seen:  evidence{events: make(map[eventKey]sentEvent), flushes: make(map[string]int), drained: true},
	}
	policy := engine.Policy{Number: 1, Judge: "rule", Default: engine.Defaults()}
	policy.Default.MaxEvents, policy.Default.MaxWindowMs, policy.Default.ClosingGraceMs = 3, 500, 100
	s.record(engine.Record{Step: &engine.Step{Kind: engine.StepPolicy, Policy: &policy}})

	s.event("a", "1", engine.Closing)
	s.event("b", "1", engine.Consequence)
	s.event("a", "2", engine.Consequence)
	s.event("a", "1", engine.Closing) // a copy
	s.pass(rest)                      // a settles by its closing act
	s.event("a", "3", engine.Flush)   // and at once
	for _, id := range []string{"2", "3", "4", "5"} {
		s.event("b", id, engine.Context) // one more than it holds, and one more
	}
	s.pass(600)
	s.event("b", "6", engine.Closing) // what is before it is too old
	s.flush("b")
	s.event("a", "7", engine.Context)
	s.flush("a")

	s.seen.lives = []life{{ready: time.UnixMilli(1_000_000), ended: time.UnixMilli(int64(s.now))}}
	for i := range s.log {
		if d := s.log[i].Step; d != nil && d.Kind == engine.StepDecision {
			raw, err := json.Marshal(d.Decision)
			if err != nil {
				t.Fatal(err)
			}
			s.seen.waits = append(s.seen.waits, waitAnswer{decisions: []json.RawMessage{raw}, token: d.ID, kept: true})
			if n := len(s.seen.waits); n > 1 {
				s.seen.waits[n-1].ack = s.seen.waits[n-2].token
			}
			s.seen.pages = append(s.seen.pages, []string{d.ID})
		}
	}
	return s
}

// record writes a record and does what its owner does next.
func (s *story) record(r engine.Record) {
	s.t.Helper()
	s.write(r)
	s.settle(r.Scope)
}

func (s *story) write(r engine.Record) {
	s.t.Helper()
	r.Position, r.Stamp = engine.Position(len(s.log)+1), s.now
	s.log = append(s.log, r)
	if r.Scope == "" {
		if err := s.rules.Apply(r); err != nil {
			s.t.Fatal(err)
		}
		return
	}
	if s.states[r.Scope] == nil {
		s.states[r.Scope] = engine.NewState(r.Scope)
	}
	s.states[r.Scope].Apply(s.rules, &r)
}

func (s *story) settle(scope string) {
	state := s.states[scope]
	if state == nil {
		return
	}
	p := state.Propose(s.rules, s.now)
	for i := range p.Steps {
		step := p.Steps[i]
		if step.Kind == engine.StepDecision {
			closed := p.Closed[0]
			p.Closed = p.Closed[1:]
			var bodies []engine.Record
			for _, m := range closed.Members {
				bodies = append(bodies, s.log[m.Position-1])
			}
			step.Decision = engine.ComposeDecision(scope, s.log[len(s.log)-1].Step.Settled, closed.Members, step.Verdict, bodies)
		}
		s.write(engine.Record{Scope: scope, Step: &step})
	}
}

func (s *story) event(scope, id string, kind engine.Kind) {
	s.t.Helper()
	s.now++
	e := engine.Event{ID: id, Name: "event", Kind: kind, Policy: 1, Data: []byte(`{"id":` + id + `}`), Text: "text"}
	s.seen.events[eventKey{scope, id}] = sentEvent{name: e.Name, sum: sumOf(e.Data, e.Text), acked: true, sends: 1}
	s.record(engine.Record{Scope: scope, Event: &e})
}

func (s *story) flush(scope string) {
	s.t.Helper()
	s.now++
	s.seen.flushes[scope]++
	s.record(engine.Record{Scope: scope, Step: &engine.Step{Kind: engine.StepFlush}})
}

// pass lets time go by, and settles what it makes due.
func (s *story) pass(ms engine.Time) {
	s.now += ms
	s.settle("a")
	s.settle("b")
}

// steps returns copies of the steps of a kind, which may be changed.
func (s *story) steps(kind engine.StepKind) []*engine.Step {
	var found []*engine.Step
	for i := range s.log {
		if s.log[i].Step == nil || s.log[i].Step.Kind != kind {
			continue
		}
		raw, err := engine.EncodeStep(s.log[i].Step)
		if err != nil {
			s.t.Fatal(err)
		}
		if s.log[i].Step, err = engine.DecodeStep(raw, engine.Format); err != nil {
			s.t.Fatal(err)
		}
		found = append(found, s.log[i].Step)
	}
	return found
}

// cut leaves out records, and closes the gap.
func (s *story) cut(out func(r *engine.Record) bool) {
	s.log = slices.DeleteFunc(s.log, func(r engine.Record) bool { return out(&r) })
	for i := range s.log {
		s.log[i].Position = engine.Position(i + 1)
	}
}

func TestCrashCheck_AcceptsWhatIsRight(t *testing.T) {
	s := newStory(t, 150)
	found, sum := checkCrash(s.log, &s.seen)
	if len(found) > 0 {
		t.Errorf("findings in a log that is right:\n%s", found.report())
	}
	want := totals{records: len(s.log), acked: 10, refused: 1, shed: 5, windows: 4, decisions: 4, lag: 53 * time.Millisecond}
	if sum.latest == nil {
		t.Error("no window is the latest")
	}
	sum.latest = nil
	if sum != want {
		t.Errorf("totals %+v, want %+v", sum, want)
	}
}

// Each row breaks one thing, and the check that is there for it says so.
func TestCrashCheck_Fails(t *testing.T) {
	for _, c := range []struct {
		name   string
		breaks func(s *story)
		want   string
	}{
		{"a position is missing", func(s *story) { s.log = slices.Delete(s.log, 4, 5) }, "positions: record 5"},
		{"a stamp falls", func(s *story) { s.log[5].Stamp -= 200 }, "stamps: position 6"},
		{"an acknowledged event is gone", func(s *story) {
			s.cut(func(r *engine.Record) bool { return r.Event != nil && r.Event.ID == "7" })
		}, `lost: event "7"`},
		{"an acknowledged flush is gone", func(s *story) { s.seen.flushes["a"]++ }, `lost: scope "a": 2 flush calls`},
		{"an event was not acknowledged", func(s *story) {
			s.seen.events[eventKey{"a", "9"}] = sentEvent{sends: 1}
		}, `unsent: event "9"`},
		{"an event comes from nowhere", func(s *story) { delete(s.seen.events, eventKey{"b", "2"}) }, `stranger: position`},
		{"an event is altered", func(s *story) {
			e := *s.log[1].Event
			e.Data = []byte(`{}`)
			s.log[1].Event = &e
		}, `altered: position 2`},

		{"a window has no decision", func(s *story) {
			last := len(s.log) - 1
			s.log = s.log[:last]
		}, "stuck: window"},
		{"a window has no settle", func(s *story) {
			s.log = s.log[:len(s.log)-2]
		}, `stuck: scope "a" has 1 closed windows that no step tells of`},
		{"a deadline stays", func(s *story) {
			s.seen.events[eventKey{"b", "8"}] = sentEvent{name: "event", sum: sumOf(nil, ""), acked: true}
			s.write(engine.Record{Scope: "b", Event: &engine.Event{ID: "8", Name: "event", Kind: engine.Closing, Policy: 1}})
		}, `stuck: scope "b" has an open window of 1 events, due`},
		{"what a flush should have settled stays", func(s *story) {
			s.seen.events[eventKey{"b", "8"}] = sentEvent{name: "event", sum: sumOf(nil, ""), acked: true}
			s.write(engine.Record{Scope: "b", Event: &engine.Event{ID: "8", Name: "event", Kind: engine.Context, Policy: 1}})
		}, `stuck: scope "b" has 1 open events after its flush`},

		{"an event is in two windows", func(s *story) {
			settled := s.steps(engine.StepSettled)
			settled[1].Settled.Events = append(slices.Clone(settled[0].Settled.Events), settled[1].Settled.Events...)
		}, "twice: the event at position 2"},
		{"a copy is in a window", func(s *story) {
			settled := s.steps(engine.StepSettled)
			settled[1].Settled.Events = append([]engine.Position{5}, settled[1].Settled.Events...)
		}, `twice: event "1" of scope "a" is in a window with position 2 and in one with 5`},
		{"a window is decided under another id too", func(s *story) {
			settle, decision := *s.steps(engine.StepSettled)[3], *s.steps(engine.StepDecision)[3]
			settle.Settled, decision.Decision, decision.Verdict = new(*settle.Settled), new(*decision.Decision), new(*decision.Verdict)
			settle.Window, settle.Settled.Window, decision.Window, decision.ID = "other", "other", "other", "other"
			decision.Decision.ID, decision.Verdict.Window = "other", "other"
			s.write(engine.Record{Scope: "a", Step: &settle})
			s.write(engine.Record{Scope: "a", Step: &decision})
		}, `identity: the same events of scope "a" are window`},
		{"a decision is made twice", func(s *story) {
			s.write(engine.Record{Scope: "a", Step: s.steps(engine.StepDecision)[3]})
		}, "identity: decision"},
		{"a window settles twice", func(s *story) {
			s.write(engine.Record{Scope: "a", Step: s.steps(engine.StepSettled)[3]})
		}, "identity: window"},
		{"an id does not follow from the events", func(s *story) {
			s.steps(engine.StepSettled)[0].Settled.Events = []engine.Position{2}
		}, "identity: window"},
		{"an event is too late for its window", func(s *story) {
			s.steps(engine.StepSettled)[0].Settled.Due = s.log[3].Stamp - 1
		}, "settled: window"},
		{"a window settles before it is due", func(s *story) {
			s.steps(engine.StepSettled)[0].Settled.Due += 1000
		}, "settled: window"},
		{"a window names what is no event", func(s *story) {
			s.steps(engine.StepSettled)[0].Settled.Events[0] = 1
		}, "settled: window"},
		{"a decision comes before its settle", func(s *story) {
			at := slices.IndexFunc(s.log, func(r engine.Record) bool { return r.Step != nil && r.Step.Kind == engine.StepSettled })
			s.log[at].Step, s.log[at+1].Step = s.log[at+1].Step, s.log[at].Step
		}, "steps: position"},
		{"settle and decision are apart", func(s *story) {
			at := slices.IndexFunc(s.log, func(r engine.Record) bool { return r.Step != nil && r.Step.Kind == engine.StepDecision })
			s.log[at], s.log[at+1] = s.log[at+1], s.log[at]
			s.log[at].Position, s.log[at+1].Position = engine.Position(at+1), engine.Position(at+2)
		}, "decision: decision"},
		{"a decision shows other events", func(s *story) {
			s.steps(engine.StepDecision)[0].Decision.Events[0].ID = "2"
		}, "decision: decision"},
		{"a decision leaves an event out", func(s *story) {
			d := s.steps(engine.StepDecision)[0].Decision
			d.Events = d.Events[1:]
		}, "decision: decision"},
		{"a decision has another reason", func(s *story) {
			s.steps(engine.StepDecision)[0].Decision.Reason = engine.ReasonAge
		}, "decision: position"},

		{"the rules would settle otherwise", func(s *story) {
			s.steps(engine.StepSettled)[0].Settled.Reason = engine.ReasonAge
		}, "diverged: position"},
		{"the rules would decide otherwise", func(s *story) {
			d := s.steps(engine.StepDecision)[0]
			d.Route, d.Verdict.Route, d.Decision.Route = engine.Note, engine.Note, engine.Note
		}, "diverged: position"},
		{"more is dropped than the rules shed", func(s *story) {
			s.steps(engine.StepSettled)[2].Settled.Dropped++
		}, `dropped: scope "b": its windows tell of`},
		{"a decision is never shown", func(s *story) {
			s.seen.waits = slices.Delete(s.seen.waits, 1, 2)
		}, "unseen: decision"},
		{"a decision is shown otherwise", func(s *story) {
			s.seen.waits[0].decisions[0] = json.RawMessage(strings.Replace(string(s.seen.waits[0].decisions[0]), "queue", "note", 1))
		}, "consumer: answer 0 shows decision"},
		{"an answer is out of order", func(s *story) {
			w := s.seen.waits
			w[0].decisions = []json.RawMessage{w[1].decisions[0], w[0].decisions[0]}
		}, "consumer: answer 0: decision"},
		{"an answer goes back", func(s *story) {
			w := s.seen.waits
			w[1].decisions, w[2].decisions = w[2].decisions, w[1].decisions
		}, "consumer: answer 2 begins at position"},
		{"an answer that was not acknowledged does not come again", func(s *story) {
			s.seen.waits[1].ack = ""
		}, "consumer: answer 1 has 1 other decisions, although"},
		{"an answer comes again and does not say so", func(s *story) {
			w := s.seen.waits
			again := w[0]
			s.seen.waits = slices.Insert(w, 1, again)
		}, "consumer: answer 1 came before"},
		{"an acknowledged answer comes back", func(s *story) {
			w := s.seen.waits
			again := w[0]
			again.ack, again.redelivered = again.token, true
			s.seen.waits = slices.Insert(w, 1, again)
		}, "consumer: answer 1 is one that was acknowledged"},
		{"the consumer is truncated", func(s *story) { s.seen.waits[0].truncated = true }, "consumer: answer 0 says"},
		{"the follower gets a decision twice", func(s *story) {
			s.seen.pages = slices.Insert(s.seen.pages, 1, s.seen.pages[0])
		}, "cursor: the decision read as number 2"},
		{"the follower misses the last decision", func(s *story) {
			s.seen.pages = s.seen.pages[:3]
		}, "cursor: 3 of 4 decisions were read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStory(t, 150)
			c.breaks(s)
			found, _ := checkCrash(s.log, &s.seen)
			if !slices.ContainsFunc(found, func(one string) bool { return strings.HasPrefix(one, c.want) }) {
				t.Errorf("want a finding that begins with %q, got:\n%s", c.want, found.report())
			}
		})
	}
}

// A fold that loses an act, or drops more than it says, is found out.
func TestCrashCheck_AccountsForEachEvent(t *testing.T) {
	w := &windows{
		owner: make(map[engine.Position]*window),
		events: map[engine.Position]*engine.Record{
			1: {Position: 1, Scope: "a", Event: &engine.Event{ID: "1", Kind: engine.Flush}},
			2: {Position: 2, Scope: "a", Event: &engine.Event{ID: "2", Kind: engine.Context}},
			3: {Position: 3, Scope: "a", Event: &engine.Event{ID: "2", Kind: engine.Closing}},
		},
	}
	var found findings
	s := &folded{state: engine.NewState("a"), accepted: []engine.Position{1, 2, 3}}
	s.state.Open.Events = engine.Members{{Position: 3}}
	s.account(&found, w)
	want := findings{
		`dropped: the flush event "1" of scope "a", at position 1, is in no window: acts are never shed`,
		`twice: event "2" of scope "a" was accepted at position 2 and at 3`,
		`dropped: scope "a": 1 events are in no window, and the rules shed 0`,
	}
	if !slices.Equal(found, want) {
		t.Errorf("got:\n%s\nwant:\n%s", found.report(), want.report())
	}
}

// What is right may look wrong: these are no findings.
func TestCrashCheck_Lets(t *testing.T) {
	for _, c := range []struct {
		name string
		and  func(s *story)
	}{
		{"an answer was lost, and came again", func(s *story) {
			again := s.seen.waits[0]
			again.redelivered = true
			s.seen.waits[0].kept = false
			s.seen.waits = slices.Insert(s.seen.waits, 1, again)
		}},
		{"an ack was lost, and the answer came again", func(s *story) {
			again := s.seen.waits[0]
			again.redelivered = true
			s.seen.waits = slices.Insert(s.seen.waits, 1, waitAnswer{ack: again.token, failed: true}, again)
		}},
		{"the answer to an ack was lost", func(s *story) {
			s.seen.waits[1].ack, s.seen.waits[1].redelivered = "", true
			s.seen.waits = slices.Insert(s.seen.waits, 1, waitAnswer{ack: s.seen.waits[0].token, failed: true})
		}},
		{"a wait ended empty after an ack", func(s *story) {
			s.seen.waits[1].ack = ""
			s.seen.waits = slices.Insert(s.seen.waits, 1, waitAnswer{ack: s.seen.waits[0].token, timedOut: true})
		}},
		{"a wait was broken off", func(s *story) {
			s.seen.waits = slices.Insert(s.seen.waits, 1, waitAnswer{ack: s.seen.waits[0].token})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStory(t, 150)
			c.and(s)
			found, _ := checkCrash(s.log, &s.seen)
			if len(found) > 0 {
				t.Errorf("findings:\n%s", found.report())
			}
		})
	}
}

// What counts is how long the daemon was ready, and did not decide.
func TestCrashCheck_Late(t *testing.T) {
	s := newStory(t, 60_000)
	at := func(ms int64) time.Time { return time.UnixMilli(1_000_000 + ms) }
	for _, c := range []struct {
		name  string
		lives []life
		late  bool
	}{
		{"it ran all the time", []life{{ready: at(0), ended: at(61_000)}}, true},
		{"it was never ready", []life{{ready: at(0), ended: at(50)}, {}, {ready: at(60_000), ended: at(61_000)}}, false},
		{"it was ready for short times", []life{
			{ready: at(0), ended: at(12_000)}, {ready: at(25_000), ended: at(37_000)}, {ready: at(50_000), ended: at(61_000)},
		}, true},
		{"the last time is short", []life{{ready: at(0), ended: at(2_000)}, {ready: at(50_000), ended: at(61_000)}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.seen.lives = c.lives
			found, _ := checkCrash(s.log, &s.seen)
			if late := len(found) > 0 && strings.HasPrefix(found[0], "late: window"); late != c.late || len(found) > 1 {
				t.Errorf("late is %v, want %v:\n%s", late, c.late, found.report())
			}
		})
	}
}

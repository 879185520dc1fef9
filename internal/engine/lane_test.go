package engine_test

import (
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"attend/internal/engine"
)

// lanes reads ROUTE=NAME words into the policy's sinks.
func (s *teller) lanes(n int, words []string) {
	s.t.Helper()
	s.policy.Sinks, s.policy.Letters = make(map[engine.Route]string), ""
	for _, w := range words {
		route, name, _ := strings.Cut(w, "=")
		if route == "letters" {
			s.policy.Letters = name
			continue
		}
		r, err := engine.ParseRoute(route)
		if err != nil {
			s.fail(n, "%v", err)
		}
		s.policy.Sinks[r] = name
	}
}

// showLanes writes what waits in a scope's lanes.
func (s *teller) showLanes(st *engine.State) {
	for _, l := range []struct {
		name string
		lane *engine.Lane
	}{{"outbox", st.Outbox}, {"dead letters", st.Letters}} {
		if l.lane == nil {
			continue
		}
		fmt.Fprintf(&s.out, "; %s", l.name)
		for i := range l.lane.Queue {
			fmt.Fprintf(&s.out, " %s", s.label(l.lane.Queue[i].ID))
		}
		switch l.lane.Phase {
		case engine.LaneSends:
			fmt.Fprintf(&s.out, " (attempt %d until %d)", l.lane.Attempt, l.lane.Until)
		case engine.LaneBackoff:
			fmt.Fprintf(&s.out, " (next at %d)", l.lane.Failed.RetryAt)
		case engine.LaneWaits, engine.LaneGivenUp:
		}
	}
}

// endLanes writes what lanes still hold when nothing is due any more.
func (s *teller) endLanes(st *engine.State) {
	if n := st.Outbox.Len() + st.Letters.Len(); n > 0 {
		fmt.Fprintf(&s.out, "   at end  %d undelivered\n", n)
	}
}

// drawLanes draws which routes have a sink.
func drawLanes(t *rapid.T) string {
	return oneOf(t, "sinks", "interrupt=a queue=b note=a ask=b letters=c", "interrupt=a queue=a", "letters=c", "queue=b letters=a", "")
}

func (s *scenario) drawSinks(t *rapid.T) {
	s.sinks = drawLanes(t)
	s.settings.DeliveryTimeoutMs = oneOf(t, "deliveryTimeoutMs", int64(40), 1, 10)
	for n := rapid.IntRange(0, 12).Draw(t, "deliveries"); n > 0; n-- {
		a := drawAnswer(t, 0)
		if a.Error == "" {
			a.Route = engine.Skip
		}
		s.sends = append(s.sends, a)
	}
}

func (s *scenario) sinksText() string {
	if s.sinks == "" && len(s.sends) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "policy deliveryTimeoutMs=%d\n", s.settings.DeliveryTimeoutMs)
	if s.sinks != "" {
		fmt.Fprintf(&b, "sinks %s\n", s.sinks)
	}
	for i := range s.sends {
		b.WriteString("sink" + strings.TrimPrefix(answerText(&s.sends[i]), "judge"))
	}
	return b.String()
}

// laneModel is a lane as the log alone tells it.
type laneModel struct {
	queue    []string
	running  bool
	attempt  int
	until    engine.Time
	attempts int // the most that the policy of the running attempt grants
}

// checkLanes: what a policy has a sink for is delivered, in the order of the
// log, one at a time, never before the time of another's attempt is over, and
// as often as the ladder says; then it is a dead letter.
func (r *recorder) checkLanes(t tester) {
	t.Helper()
	var policies []engine.Record
	lanes := make(map[string]*laneModel)
	for i := range r.log {
		rec := &r.log[i]
		st := rec.Step
		switch {
		case st == nil || r.outs[i].Ignored:
		case st.Policy != nil:
			policies = append(policies, *rec)
		case st.Kind == engine.StepDecision:
			if policyBefore(policies, rec.Stamp).Sinks[st.Route] != "" {
				post(lanes, rec.Scope, engine.LaneOutbox, st.Window)
			}
		case st.Requeue != nil && st.Requeue.Stage == engine.StageSink:
			post(lanes, rec.Scope, engine.LaneOutbox, st.Window)
		case st.DeadLetter != nil:
			if l := lanes[rec.Scope+" outbox"]; st.DeadLetter.Stage == engine.StageSink {
				d := st.DeadLetter
				if l.queue[0] != d.WindowID || l.running || d.Attempts != l.attempt || !d.Permanent && d.Attempts < l.attempts || d.Decision == nil || d.Decision.ID != d.WindowID {
					t.Fatalf("position %d: dead letter %+v, and the outbox is %+v", rec.Position, d, l)
				}
				l.shift()
			}
			if policyBefore(policies, rec.Stamp).Letters != "" {
				post(lanes, rec.Scope, engine.LaneLetters, st.ID)
			}
		case st.Delivery != nil:
			l := lanes[rec.Scope+" "+string(st.Delivery.Lane)]
			if l == nil || len(l.queue) == 0 || l.queue[0] != st.Delivery.ID {
				t.Fatalf("position %d: %s of %s, and the lane is %+v", rec.Position, st.Kind, st.Delivery.ID, l)
			}
			l.step(t, rec, policies[len(policies)-1].Step.Policy)
		}
	}
}

// policyBefore is the newest policy stamped before an instant, else the first.
func policyBefore(policies []engine.Record, at engine.Time) *engine.Policy {
	newest := policies[0].Step.Policy
	for i := range policies {
		if policies[i].Stamp < at {
			newest = policies[i].Step.Policy
		}
	}
	return newest
}

func post(lanes map[string]*laneModel, scope string, name engine.LaneName, id string) {
	key := scope + " " + string(name)
	if lanes[key] == nil {
		lanes[key] = new(laneModel)
	}
	if slices.Contains(lanes[key].queue, id) {
		return // two windows that hold one event at one instant have one id
	}
	lanes[key].queue = append(lanes[key].queue, id)
}

func (l *laneModel) shift() { *l = laneModel{queue: l.queue[1:]} }

// step takes a step about the lane's first.
func (l *laneModel) step(t tester, rec *engine.Record, policy *engine.Policy) {
	t.Helper()
	d := rec.Step.Delivery
	if starts := rec.Step.Kind == engine.StepDelivery; starts == l.running {
		t.Fatalf("position %d: a %s step, and an attempt runs: %v", rec.Position, rec.Step.Kind, l.running)
	}
	switch rec.Step.Kind {
	case engine.StepDelivery:
		if d.Attempt != l.attempt+1 {
			t.Fatalf("position %d: attempt %d follows attempt %d", rec.Position, d.Attempt, l.attempt)
		}
		set := policy.For(rec.Scope)
		l.running, l.attempt, l.until, l.attempts = true, d.Attempt, rec.Stamp+engine.Time(d.TimeoutMs), 1+len(set.RetryBackoffMs)
		if d.Lane == engine.LaneOutbox && d.TimeoutMs != set.DeliveryTimeoutMs {
			t.Fatalf("position %d: %+v", rec.Position, d)
		}
	case engine.StepDelivered:
		l.shift()
	case engine.StepUndelivered:
		l.running = false
		if d.Failed.Uncounted {
			l.attempt--
		}
		if d.Failed.Why == "lost" && rec.Stamp < l.until {
			t.Fatalf("position %d: lost at %d, and its time is over at %d", rec.Position, rec.Stamp, l.until)
		}
		if d.Lane == engine.LaneLetters && d.Failed.RetryAt == 0 && !d.Failed.Uncounted {
			if policy.Letters != "" {
				t.Fatalf("position %d: a dead letter is given up", rec.Position)
			}
			l.shift()
		}
	}
}

package engine_test

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"attend/internal/engine"
	"attend/internal/replay"
)

// The model is the rules a second time, written from their text alone and as
// plainly as it goes: no deadline is kept, all are looked up among the open
// events whenever the clock moves. It knows one scope under one policy. What
// it says is compared with the log that the engine makes.

type modelEvent struct {
	id   string
	kind engine.Kind
	at   engine.Time
	size int64
}

type modelWindow struct {
	events   []modelEvent
	reason   engine.Reason
	trigger  engine.Trigger
	due      engine.Time
	waits    int
	dropped  int
	gap      bool
	until    engine.Time // held
	flushed  bool
	attempt  int
	extra    bool
	cut      bool
	phase    string // call, backoff
	answerAt engine.Time
	answer   replay.Answer
	timeout  engine.Time
	offered  bool
	retryAt  engine.Time
	notUntil engine.Time
	flushAt  engine.Time
}

type modelID struct {
	id     string
	at     engine.Time
	number int
}

type model struct {
	set     engine.Settings
	judge   string
	answers []replay.Answer

	now      engine.Time
	open     []modelEvent
	forced   engine.Time // -1: no flush call marks the open window
	overflow engine.Time // -1: it is not too big
	dropped  int
	gap      bool
	held     *modelWindow
	slot     *modelWindow
	freed    engine.Time
	ids      []modelID
	accepted int
	told     []string
}

func newModel(s *scenario) *model {
	return &model{set: s.settings, judge: s.judge, answers: slices.Clone(s.answers), forced: -1, overflow: -1, freed: -1}
}

func (m *model) run(ops []op) []string {
	for i := range ops {
		o := &ops[i]
		m.advance(o.at)
		switch o.verb {
		case "event":
			m.event(o)
		case "flush":
			m.flush()
		case "gap":
			m.gap = true
		}
		m.advance(o.at)
	}
	m.advance(1 << 40)
	return m.told
}

func (m *model) tell(format string, args ...any) {
	m.told = append(m.told, fmt.Sprintf(format, args...))
}

// advance does what is due up to an instant, earliest first; at one instant
// the slot's timers, then the horizon, then the deadlines.
func (m *model) advance(to engine.Time) {
	for {
		at, act := m.next()
		if act == nil || at > to {
			break
		}
		m.now = max(m.now, at)
		act()
	}
	if to < 1<<40 {
		m.now = max(m.now, to)
	}
}

func (m *model) next() (engine.Time, func()) {
	if w := m.slot; w != nil {
		switch {
		case w.phase == "backoff":
			return w.retryAt, m.call
		case w.answerAt < w.timeout:
			return w.answerAt, m.answered
		default:
			return w.timeout, func() { m.failed("timeout", 0, false) }
		}
	}
	type due struct {
		at   engine.Time
		rank int
		act  func()
	}
	var dues []due
	if h := m.held; h != nil {
		dues = append(dues, due{h.until, 0, m.horizon})
		if h.flushed {
			return m.now, m.flushHeld
		}
	}
	for i, d := range m.deadlines() {
		dues = append(dues, due{d.At, i + 1, func() { m.settle(d) }})
	}
	if len(dues) == 0 {
		return 0, nil
	}
	sort.SliceStable(dues, func(i, j int) bool {
		// What has passed while the slot was taken is due when it frees.
		a, b := max(dues[i].at, m.freed), max(dues[j].at, m.freed)
		if a != b {
			return a < b
		}
		if (dues[i].rank == 0) != (dues[j].rank == 0) {
			return dues[i].rank == 0
		}
		if dues[i].at != dues[j].at {
			return dues[i].at < dues[j].at
		}
		return dues[i].rank < dues[j].rank
	})
	return max(dues[0].at, m.freed), dues[0].act
}

// deadlines is the table of the seed, looked up among the open events.
func (m *model) deadlines() []engine.Deadline {
	var ds []engine.Deadline
	add := func(reason engine.Reason, at engine.Time) {
		if i := slices.IndexFunc(ds, func(d engine.Deadline) bool { return d.Reason == reason }); i >= 0 {
			ds[i].At = at
			return
		}
		ds = append(ds, engine.Deadline{Reason: reason, At: at})
	}
	for _, e := range m.open {
		if e.kind == engine.Flush {
			add(engine.ReasonFlush, e.at)
			break
		}
	}
	for _, row := range []struct {
		kind   engine.Kind
		reason engine.Reason
		ms     int64
	}{
		{engine.Closing, engine.ReasonClosing, m.set.ClosingGraceMs},
		{engine.Continuous, engine.ReasonStreamQuiet, m.set.StreamGapMs},
		{engine.Passive, engine.ReasonPassiveQuiet, m.set.PassiveQuietMs},
	} {
		for _, e := range m.open {
			if e.kind == row.kind {
				add(row.reason, e.at+engine.Time(row.ms)) // the last of them counts
			}
		}
	}
	for _, e := range m.open {
		if e.kind == engine.Closing || e.kind == engine.Continuous || e.kind == engine.Passive {
			add(engine.ReasonAge, e.at+engine.Time(m.set.MaxWindowMs))
			break
		}
	}
	if m.forced >= 0 {
		add(engine.ReasonForced, m.forced)
	}
	if m.overflow >= 0 {
		add(engine.ReasonOverflow, m.overflow)
	}
	return ds
}

func (m *model) known(id string) bool {
	in := func(events []modelEvent) bool {
		return slices.ContainsFunc(events, func(e modelEvent) bool { return e.id == id })
	}
	if in(m.open) || m.held != nil && in(m.held.events) || m.slot != nil && in(m.slot.events) {
		return true
	}
	for _, k := range m.ids {
		if k.id == id && m.now < k.at+engine.Time(m.set.DedupMs) && m.accepted-k.number < m.set.DedupIDs {
			return true
		}
	}
	return false
}

func (m *model) event(o *op) {
	if m.known(o.id) {
		m.tell("duplicate %s", o.id)
		return
	}
	m.accepted++
	m.ids = append(m.ids, modelID{o.id, m.now, m.accepted})
	m.shedAge(m.now)
	m.open = append(m.open, modelEvent{o.id, o.kind, m.now, int64(len(o.id) + len("a") + o.text)})
	for m.tooBig() {
		i := slices.IndexFunc(m.open, func(e modelEvent) bool { return e.kind.Sheddable() })
		if i < 0 {
			m.overflow = m.now
			break
		}
		m.shed(i)
	}
	if o.kind == engine.Flush {
		m.cutBackoff()
	}
}

func (m *model) tooBig() bool {
	size := int64(0)
	for _, e := range m.open {
		size += e.size
	}
	return len(m.open) > m.set.MaxEvents || size > m.set.MaxWindowBytes
}

// shed drops one event; a window that is emptied is another window from then
// on, but for what it has to tell.
func (m *model) shed(i int) {
	m.open = slices.Delete(m.open, i, i+1)
	m.dropped++
	if len(m.open) == 0 {
		m.forced = -1
	}
}

func (m *model) shedAge(at engine.Time) {
	if m.held != nil {
		return
	}
	for i := 0; i < len(m.open) && m.open[i].kind.Sheddable(); {
		if at-m.open[i].at > engine.Time(m.set.MaxWindowMs) {
			m.shed(i)
			continue
		}
		i++
	}
}

func (m *model) flush() {
	m.shedAge(m.now)
	var marked []string
	if len(m.open) > 0 {
		marked = append(marked, "open")
		if m.forced < 0 {
			m.forced = m.now
		}
	}
	if m.held != nil {
		marked = append(marked, "held")
		m.held.flushed, m.held.flushAt = true, m.now
	}
	if m.slot != nil {
		marked = append(marked, "judging")
		m.slot.flushed = true
		m.cutBackoff()
	}
	m.tell("flush %v", marked)
}

func (m *model) cutBackoff() {
	w := m.slot
	if w == nil || w.phase != "backoff" || w.cut {
		return
	}
	if at := max(m.now, w.notUntil); at < w.retryAt {
		w.retryAt, w.cut, w.extra = at, true, true
	}
}

// settle closes the open window at a deadline.
func (m *model) settle(d engine.Deadline) {
	due := max(d.At, m.freed)
	reason := m.reason(d)
	trigger := engine.TriggerDeadline
	if reason == engine.ReasonForced {
		trigger = engine.TriggerFlush
	}
	m.shedAge(due)
	if len(m.open) == 0 {
		return
	}
	m.close(reason, trigger, due)
}

// reason is that of a window that had to wait: flush if it holds one, else
// forced if flush was called on it, else the deadline that passed first.
func (m *model) reason(d engine.Deadline) engine.Reason {
	if d.At > m.freed {
		return d.Reason
	}
	for _, e := range m.open {
		if e.kind == engine.Flush {
			return engine.ReasonFlush
		}
	}
	if m.forced >= 0 {
		return engine.ReasonForced
	}
	return d.Reason
}

func (m *model) horizon() {
	due := max(m.held.until, m.freed)
	reason := m.held.reason
	ds := m.deadlines()
	slices.SortStableFunc(ds, func(a, b engine.Deadline) int { return int(a.At - b.At) })
	if len(ds) > 0 && ds[0].At <= m.now {
		switch r := m.reason(ds[0]); {
		case ds[0].At <= m.held.until, r == engine.ReasonFlush, r == engine.ReasonForced:
			reason = r
		}
	}
	m.close(reason, engine.TriggerHorizon, due)
}

func (m *model) flushHeld() {
	due := max(m.held.flushAt, m.freed)
	for _, e := range m.open {
		if e.kind == engine.Flush {
			m.close(engine.ReasonFlush, engine.TriggerDeadline, due)
			return
		}
	}
	m.close(engine.ReasonForced, engine.TriggerFlush, due)
}

func (m *model) close(reason engine.Reason, trigger engine.Trigger, due engine.Time) {
	w := &modelWindow{reason: reason, trigger: trigger, due: due, dropped: m.dropped, gap: m.gap}
	if h := m.held; h != nil {
		w.events, w.waits = slices.Clone(h.events), h.waits
		w.dropped += h.dropped
		w.gap = w.gap || h.gap
	}
	w.events = append(w.events, m.open...)
	m.open, m.held, m.forced, m.overflow, m.dropped, m.gap = nil, nil, -1, -1, 0, false
	ids := make([]string, len(w.events))
	for i, e := range w.events {
		ids[i] = e.id
	}
	m.tell("settled %s %s %v due %d waits %d dropped %d gap %v", reason, trigger, ids, due, w.waits, w.dropped, w.gap)
	if m.judge == "" {
		m.slot = w
		m.call()
		return
	}
	m.verdict(w, m.pure(w), due)
}

func (m *model) pure(w *modelWindow) engine.Route {
	switch {
	case m.judge == "notes":
		return engine.Note
	case m.judge == "waits" && m.mayWait(w):
		return engine.Wait
	case m.judge == "rule" && w.reason == engine.ReasonFlush:
		return engine.Interrupt
	default:
		return engine.Queue
	}
}

func (m *model) mayWait(w *modelWindow) bool {
	return w.waits < m.set.MaxWaits && w.trigger == engine.TriggerDeadline && w.reason != engine.ReasonFlush && !w.flushed
}

func (m *model) verdict(w *modelWindow, route engine.Route, at engine.Time) {
	if route == engine.Wait {
		w.waits++
		w.until = at + engine.Time(m.set.WaitHorizonMs)
		m.tell("wait until %d", w.until)
		m.held = w
		w.flushAt = at
		return
	}
	holdsFlush := slices.ContainsFunc(w.events, func(e modelEvent) bool { return e.kind == engine.Flush })
	if holdsFlush && (route == engine.Skip || route == engine.Note) {
		route = engine.Queue
	}
	m.tell("decision %s", route)
}

func (m *model) call() {
	w := m.slot
	if !w.extra {
		w.attempt++
	}
	w.phase = "call"
	w.offered = m.mayWait(w)
	w.timeout = m.now + engine.Time(m.set.JudgeTimeoutMs)
	w.answer = replay.Answer{Route: engine.Queue}
	if w.reason == engine.ReasonFlush {
		w.answer.Route = engine.Interrupt // the rule judge, when the script is at its end
	}
	if len(m.answers) > 0 {
		w.answer, m.answers = m.answers[0], m.answers[1:]
	}
	w.answerAt = m.now + engine.Time(w.answer.AfterMs)
	m.tell("call %d extra %v wait %v", w.attempt, w.extra, w.offered)
}

func (m *model) answered() {
	w := m.slot
	a := w.answer
	switch {
	case a.Error != "":
		m.failed("error", a.RetryAfterMs, a.Permanent)
	case a.Route == engine.Wait && !w.offered:
		m.failed("malformed", 0, false)
	default:
		m.slot, m.freed = nil, m.now
		m.verdict(w, a.Route, m.now)
	}
}

func (m *model) failed(why string, retryAfter int64, permanent bool) {
	w := m.slot
	rungs := m.set.RetryBackoffMs
	if permanent || !w.extra && w.attempt > len(rungs) {
		m.tell("failed %s", why)
		m.tell("dead letter")
		m.slot, m.freed = nil, m.now
		return
	}
	rung := int64(0)
	if len(rungs) > 0 {
		rung = rungs[min(w.attempt, len(rungs))-1]
	}
	w.notUntil = 0
	if retryAfter > 0 {
		w.notUntil = m.now + engine.Time(retryAfter)
	}
	w.retryAt = max(m.now+engine.Time(rung), w.notUntil)
	w.phase, w.extra = "backoff", false
	m.tell("failed %s retry %d", why, w.retryAt)
}

// toldBy is what a log tells in the model's words.
func toldBy(r *recorder) []string {
	var told []string
	ids := make(map[engine.Position]string)
	tell := func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) }
	for i := range r.log {
		rec := &r.log[i]
		switch {
		case rec.Event != nil && r.outs[i].Duplicate:
			tell("duplicate %s", rec.Event.ID)
		case rec.Event != nil:
			ids[rec.Position] = rec.Event.ID
		case rec.Step.Kind == engine.StepFlush:
			tell("flush %v", r.outs[i].Marked)
		case rec.Step.Settled != nil:
			s := rec.Step.Settled
			names := make([]string, len(s.Events))
			for i, p := range s.Events {
				names[i] = ids[p]
			}
			tell("settled %s %s %v due %d waits %d dropped %d gap %v", s.Reason, s.Trigger, names, s.Due, s.Waits, s.Dropped, s.Gap)
		case rec.Step.Call != nil:
			c := rec.Step.Call
			tell("call %d extra %v wait %v", c.Attempt, c.Extra, slices.Contains(c.Offered, engine.Wait))
		case rec.Step.Failed != nil && rec.Step.Failed.RetryAt > 0:
			tell("failed %s retry %d", rec.Step.Failed.Why, rec.Step.Failed.RetryAt)
		case rec.Step.Failed != nil:
			tell("failed %s", rec.Step.Failed.Why)
		case rec.Step.Kind == engine.StepWait:
			tell("wait until %d", rec.Step.Verdict.HeldUntil)
		case rec.Step.Kind == engine.StepDecision:
			tell("decision %s", rec.Step.Route)
		case rec.Step.Kind == engine.StepDeadLetter:
			tell("dead letter")
		}
	}
	return told
}

func TestLaw_EngineAgreesWithThePlainModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t, 0)
		s.settings.RetryJitter = 0
		want := newModel(s).run(s.ops)
		input := s.text(false)
		got := toldBy(&tell(t, input).rec)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("the engine differs from the model (-model +engine):\n%s\n%s\nmodel:\n%s", diff, input, strings.Join(want, "\n"))
		}
	})
}

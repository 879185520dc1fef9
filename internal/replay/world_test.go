package replay_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/replay"
)

// play runs a world over inputs and returns its log in short words.
type play struct {
	*replay.World
	t   *testing.T
	log []engine.Record
}

func newPlay(t *testing.T, script *replay.Script, change func(*engine.Policy)) *play {
	t.Helper()
	p := &play{t: t}
	opt := replay.Options{Script: script, Emit: func(rec *engine.Record, _ *engine.Outcome) { p.log = append(p.log, *rec) }}
	if script == nil {
		opt.Compile = judge.Compile
	}
	p.World = replay.New(opt)
	policy := engine.Policy{
		Number: 1, Default: engine.Defaults(), Judge: "rule",
		Kinds: map[string]engine.Kind{"ask": engine.Flush, "done": engine.Closing, "log": engine.Consequence},
	}
	policy.Default.RetryJitter = 0
	if change != nil {
		change(&policy)
	}
	p.take(0, replay.Input{Step: &engine.Step{Kind: engine.StepPolicy, Policy: &policy}})
	return p
}

func (p *play) take(at engine.Time, inputs ...replay.Input) {
	p.t.Helper()
	if err := p.Take(at, inputs...); err != nil {
		p.t.Fatal(err)
	}
}

func event(scope, name, id string) replay.Input {
	return replay.Input{Scope: scope, Event: &engine.Event{ID: id, Name: name, Text: id + " text"}}
}

// told is the history from a record on.
func (p *play) told(from int) string {
	var b strings.Builder
	labels := make(map[string]string)
	h := &replay.History{Out: &b, Events: true, Label: func(id string) string {
		if labels[id] == "" {
			labels[id] = "w" + string(rune('1'+len(labels)))
		}
		return labels[id]
	}}
	for i := range p.log {
		h.Record(&p.log[i], new(engine.Outcome))
	}
	lines := strings.SplitAfter(b.String(), "\n")
	return strings.Join(lines[from:], "")
}

func (p *play) want(from int, want string) {
	p.t.Helper()
	var lines []string
	for line := range strings.Lines(strings.TrimSpace(want)) {
		lines = append(lines, strings.TrimSpace(line))
	}
	var got []string
	for line := range strings.Lines(strings.TrimSpace(p.told(from))) {
		got = append(got, strings.TrimSpace(line))
	}
	if diff := cmp.Diff(lines, got); diff != "" {
		p.t.Errorf("-want +got:\n%s", diff)
	}
}

// What is due by an input's time is done first, each thing at its own instant,
// whatever scope it is of.
func TestWorld_EverythingAtItsInstant(t *testing.T) {
	p := newPlay(t, nil, nil)
	p.take(1000, event("b", "done", "b1"))
	p.take(1500, event("a", "done", "a1"))
	p.take(1500, event("c", "done", "c1"))
	p.take(3500, event("a", "log", "a2"))
	if p.Now() != 3500 || !p.Drain(1<<40) || p.Now() != 3500 {
		t.Errorf("now %d", p.Now())
	}
	p.want(4, `
	3000  b  settled    w1 closing [b1] due 3000
	3000  b  decision   w1 queue
	3500  a  settled    w2 closing [a1] due 3500
	3500  a  decision   w2 queue
	3500  c  settled    w3 closing [c1] due 3500
	3500  c  decision   w3 queue
	3500  a  event      consequence log a2`)
	if got := strings.Join(p.Scopes(), " "); got != "b a c" {
		t.Errorf("scopes %s", got)
	}
}

// Time never falls: an input that says it came earlier comes now.
func TestWorld_TimeNeverFalls(t *testing.T) {
	p := newPlay(t, nil, nil)
	p.take(5000, event("a", "log", "1"))
	p.take(10, event("a", "log", "2"))
	if last := p.log[len(p.log)-1]; last.Stamp != 5000 || last.Position != 3 || p.Head() != 3 {
		t.Errorf("%+v", last)
	}
}

// Decisions and dead letters are composed as they stand in the log, also long
// after most events have gone.
func TestWorld_Composes(t *testing.T) {
	script := new(replay.Script)
	script.Add(replay.Answer{Scope: "a", Route: engine.Note})
	script.Add(replay.Answer{Scope: "a", Error: "no", Permanent: true})
	script.Add(replay.Answer{Scope: "a", Route: engine.Queue})
	p := newPlay(t, script, nil)
	for i := range 1000 { // bodies that no window can name any more are let go
		p.take(engine.Time(1000+i), event("a", "log", "log"+string(rune('a'+i%26))+string(rune('a'+i/26))))
	}
	p.take(3000, event("a", "done", "d1"))
	p.take(9000, event("a", "ask", "f1"))
	p.Run(9001)
	d, letter := p.find(engine.StepDecision).Decision, p.find(engine.StepDeadLetter).DeadLetter
	if !strings.HasSuffix(d.Notice, "d1 text") || len(d.Events)+d.Cut < 200 || d.Route != engine.Note {
		t.Errorf("decision %+v", d)
	}
	if len(letter.Events) != 1 || letter.Events[0].Text != "f1 text" {
		t.Errorf("dead letter %+v", letter)
	}
	if err := p.Requeue(10_000, letter.ID); err != nil {
		t.Fatal(err)
	}
	p.Run(10_001)
	if d := p.find(engine.StepDecision).Decision; d.Notice != "f1 text" || d.Route != engine.Queue || d.ID != letter.WindowID {
		t.Errorf("requeued: %+v", d)
	}
	if err := p.Requeue(10_001, "nothing"); err == nil {
		t.Error("a dead letter that is none is requeued")
	}
}

// find returns the last step of a kind.
func (p *play) find(kind engine.StepKind) *engine.Step {
	p.t.Helper()
	for i := len(p.log) - 1; i >= 0; i-- {
		if st := p.log[i].Step; st != nil && st.Kind == kind {
			return st
		}
	}
	p.t.Fatalf("no step %s", kind)
	return nil
}

// What only an owner may write, or what is nothing, is refused.
func TestWorld_Refuses(t *testing.T) {
	p := newPlay(t, nil, nil)
	for name, in := range map[string]replay.Input{
		"nothing":         {Scope: "a"},
		"an owner's step": {Scope: "a", Step: &engine.Step{Kind: engine.StepCall}},
		"a policy that is none": {Step: &engine.Step{Kind: engine.StepPolicy, Policy: &engine.Policy{
			Number: 2, Default: engine.Settings{MaxEvents: -1},
		}}},
	} {
		if err := p.Take(10, in); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// A log that stands already can be taken over at any record: what follows is
// what would have followed.
func TestWorld_Restore(t *testing.T) {
	whole := newPlay(t, nil, nil)
	whole.take(1000, event("a", "done", "1"))
	whole.take(1500, event("b", "log", "2"), event("b", "ask", "3"))
	whole.take(4000, event("a", "done", "4"))
	whole.Drain(1 << 40)
	for cut := 1; cut <= len(whole.log); cut++ {
		again := &play{t: t}
		again.World = replay.New(replay.Options{
			Compile: judge.Compile,
			Emit:    func(rec *engine.Record, _ *engine.Outcome) { again.log = append(again.log, *rec) },
		})
		if err := again.Restore(whole.log[:cut]); err != nil {
			t.Fatal(err)
		}
		again.Start(again.Now())
		for i := range whole.log[cut:] {
			rec := &whole.log[cut+i]
			if rec.Event != nil {
				again.take(rec.Stamp, replay.Input{Scope: rec.Scope, Event: rec.Event})
			}
		}
		again.Drain(1 << 40)
		if diff := cmp.Diff(decisions(t, whole.log), decisions(t, again.log)); diff != "" {
			t.Errorf("taken over after %d records (-whole +again):\n%s", cut, diff)
		}
	}
}

// decisions are the decisions of a log, without the times at which they were
// written.
func decisions(t *testing.T, log []engine.Record) []string {
	t.Helper()
	var out []string
	for i := range log {
		st := log[i].Step
		if st == nil || st.Decision == nil {
			continue
		}
		d := *st.Decision
		d.At, d.SettledAt = 0, 0
		b, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(b))
	}
	return out
}

// Days pass in no time.
func TestWorld_ADayInNoTime(t *testing.T) {
	p := newPlay(t, nil, func(p *engine.Policy) { p.Default.ClosingGraceMs = 24 * 3600 * 1000; p.Default.MaxWindowMs = 1 << 40 })
	p.take(0, event("a", "done", "1"))
	if !p.Drain(1<<40) || p.Now() != 24*3600*1000 {
		t.Errorf("now %d", p.Now())
	}
}

// What is dropped is told with the scope's next step, or when it is much.
func TestWorld_TellsWhatIsDropped(t *testing.T) {
	p := newPlay(t, nil, func(p *engine.Policy) { p.Default.MaxEvents = 1 })
	for i := range 2500 {
		p.take(engine.Time(1000+i), event("a", "log", "c"+string(rune('a'+i%26))+string(rune('a'+i/26))))
	}
	p.take(4000, event("a", "ask", "f"))
	p.Drain(1 << 40)
	var told []int
	for i := range p.log {
		if st := p.log[i].Step; st != nil && st.Kind == engine.StepShed {
			told = append(told, st.Shed.Count)
		}
	}
	if diff := cmp.Diff([]int{1000, 1000, 500}, told); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

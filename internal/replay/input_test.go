package replay_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
	"attend/internal/replay"
)

// read lists what a reader makes of a file, in short words.
func read(r replay.Reader, file string) ([]string, replay.Summary, error) {
	var got []string
	sum, err := r.Read("f", strings.NewReader(file), func(in replay.Input) error {
		what := ""
		switch {
		case in.Event != nil:
			e := in.Event
			what = fmt.Sprintf("event %s %s", e.Name, e.ID)
			if e.Kind != 0 {
				what += fmt.Sprintf(" %s under %d", e.Kind, e.Policy)
			}
			if e.At != nil {
				what += fmt.Sprintf(" at %d", *e.At)
			}
			if e.Text != "" || e.Data != nil {
				what += fmt.Sprintf(" %q %s", e.Text, e.Data)
			}
		default:
			what = string(in.Step.Kind)
		}
		got = append(got, fmt.Sprintf("%d %s %s", in.At, in.Scope, what))
		return nil
	})
	return got, sum, err
}

func TestReader(t *testing.T) {
	for _, c := range []struct{ name, file, want string }{
		{"an event", `{"scope":"s","name":"n","id":"i","at":5,"data":{"a": 1,"a":2},"text":"t"}`, `5 s event n i at 5 "t" {"a": 1,"a":2}`},
		{"without id: one of its line", "\n\n" + `{"scope":"s","name":"n","at":5}`, `5 s event n line-3 at 5`},
		{"seenAt before at", `{"scope":"s","name":"n","id":"i","at":5,"seenAt":9}`, `9 s event n i at 5`},
		{"RFC 3339", `{"scope":"s","name":"n","id":"i","at":"1970-01-01T00:00:01.5Z"}`, `1500 s event n i at 1500`},
		{"seenAt in RFC 3339", `{"scope":"s","name":"n","id":"i","seenAt":"1970-01-01T01:00:01+01:00"}`, `1000 s event n i`},
		{"no time: that of the line before", `{"scope":"s","name":"n","id":"i","at":7}` + "\r\n" + `{"scope":"s","name":"n","id":"j"}`, "7 s event n i at 7\n7 s event n j"},
		{"times never fall", `{"scope":"s","name":"n","id":"i","at":7}` + "\n" + `{"scope":"s","name":"n","id":"j","at":3}`, "7 s event n i at 7\n7 s event n j at 3"},
		{"unknown fields", `{"scope":"s","name":"n","id":"i","at":null,"more":[1]}`, `0 s event n i`},
		{"a flush call", `{"flush":"s","at":9}`, `9 s flush`},
		{
			"an exported log",
			`{"position":1,"stamp":5,"step":{"kind":"policy","policy":{"number":3}}}
			 {"position":2,"stamp":6,"scope":"s","event":{"id":"i","name":"n","kind":"flush","policy":3,"at":1,"text":"t"}}
			 {"position":3,"stamp":6,"scope":"s","step":{"kind":"settled","settled":{}}}
			 {"position":4,"stamp":7,"scope":"s","step":{"kind":"gap"}}
			 {"position":5,"stamp":8,"scope":"s","step":{"kind":"flush"}}
			 {"position":6,"stamp":9,"step":{"kind":"silence","silence":{"id":"x"}}}
			 {"position":7,"stamp":9,"scope":"s","step":{"kind":"requeue","requeue":{}}}
			 {"position":8,"stamp":10,"step":{"kind":"ack","ack":{"consumer":"c","position":3}}}`,
			"5  policy\n6 s event n i flush under 3 at 1 \"t\" \n7 s gap\n8 s flush\n9  silence\n9 s requeue",
		},
	} {
		got, _, err := read(replay.Reader{}, c.file)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.want, strings.Join(got, "\n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// Fresh leaves out the policies of a log, and the kinds it gave its events.
func TestReader_Fresh(t *testing.T) {
	got, sum, err := read(replay.Reader{Fresh: true}, `{"position":1,"stamp":5,"step":{"kind":"policy","policy":{"number":3}}}
{"position":2,"stamp":6,"scope":"s","event":{"id":"i","name":"n","kind":"flush","policy":3}}`)
	if diff := cmp.Diff([]string{"6 s event n i"}, got); diff != "" || err != nil || !sum.Exported || sum.Last != 6 || sum.Lines != 2 {
		t.Errorf("%s%v, %+v", diff, err, sum)
	}
}

// What cannot be read says where, and what would do.
func TestReader_Errors(t *testing.T) {
	good := `{"scope":"s","name":"n","at":5}` + "\n"
	for line, want := range map[string]string{
		`{`:                                    "f:2: not valid JSON: it ends in the middle",
		`{"scope":"s",,}`:                      "f:2: not valid JSON: ",
		`{"scope":"s","name":7}`:               "f:2: name cannot be a JSON number: a line is an event, as {",
		`[]`:                                   "f:2: not an event: a line is an object, as {",
		`{"name":"n"}`:                         "f:2: scope is missing",
		`{"scope":"s"}`:                        "f:2: an event needs a name",
		`{"flush":""}`:                         "f:2: scope is missing",
		`{"scope":"s","name":"n","at":"noon"}`: `f:2: time "noon": want Unix milliseconds or RFC 3339`,
		`{"scope":"s","name":"n","at":1.5}`:    "f:2: time 1.5: want whole Unix milliseconds",
		`{"scope":"s","name":"n","seenAt":{}}`: "f:2: time {}: want Unix milliseconds or RFC 3339",
		`{"position":2,"step":{"kind":7}}`:     "f:2: decode step",
		`{"position":2,"event":{"kind":"nothing"}}`: `unknown kind "nothing"`,
	} {
		if _, _, err := read(replay.Reader{}, good+line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", line, err, want)
		}
	}
	if _, _, err := read(replay.Reader{}, good+strings.Repeat("x", 17<<20)); err == nil || !strings.Contains(err.Error(), "f:2: ") {
		t.Errorf("a line without end: %v", err)
	}
	fails := fmt.Errorf("full")
	if _, err := (replay.Reader{}).Read("f", strings.NewReader(good), func(replay.Input) error { return fails }); err == nil || !strings.Contains(err.Error(), "f:1: full") {
		t.Errorf("an error of what takes the inputs: %v", err)
	}
}

func TestReadScript_Errors(t *testing.T) {
	for line, want := range map[string]string{
		`{"route":"queue","afterms":5,"x":1}`:  "unknown field",
		`{"route":"nowhere"}`:                  `unknown route "nowhere"`,
		`{}`:                                   "an answer needs a route, or an error",
		`{"route":"queue","afterMs":-1}`:       "must be at least 0",
		`{"error":"e","retryAfterMs":-1}`:      "must be at least 0",
		`{"route":"queue","afterMs":"slowly"}`: "afterMs",
	} {
		if _, err := replay.ReadScript("a", strings.NewReader("\n"+line)); err == nil || !strings.Contains(err.Error(), "a:2: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", line, err, want)
		}
	}
}

// Answers go to the calls in order: those of a scope first, then those of any.
// When none is left the rule judge answers at once.
func TestScript_Order(t *testing.T) {
	script, err := replay.ReadScript("a", strings.NewReader(`
{"route": "note", "afterMs": 10}
{"scope": "a", "route": "ask", "confidence": 0.5, "model": "m1"}
{"scope": "a", "error": "busy", "retryAfterMs": 5000}
{"scope": "b", "error": "no", "permanent": true}
{"scope": "c", "error": "later", "notBefore": 90000, "why": "refused"}`))
	if err != nil {
		t.Fatal(err)
	}
	p := newPlay(t, script, nil)
	p.take(1000, event("a", "ask", "1"))
	p.take(2000, event("a", "ask", "2"))
	p.take(3000, event("b", "ask", "3"))
	p.take(4000, event("c", "ask", "4"))
	p.Drain(1 << 40)
	p.want(1, `
	1000  a  event      flush ask 1
	1000  a  settled    w1 flush [1] due 1000
	1000  a  call       w1 attempt 1, no wait
	1000  a  decision   w1 ask, confidence 0.5
	2000  a  event      flush ask 2
	2000  a  settled    w2 flush [2] due 2000
	2000  a  call       w2 attempt 1, no wait
	2000  a  failed     w2 attempt 1 error, next at 7000
	3000  b  event      flush ask 3
	3000  b  settled    w3 flush [3] due 3000
	3000  b  call       w3 attempt 1, no wait
	3000  b  failed     w3 attempt 1 error, permanent, no more
	3000  b  deadLetter w4 of w3 after 1 attempt: no
	4000  c  event      flush ask 4
	4000  c  settled    w5 flush [4] due 4000
	4000  c  call       w5 attempt 1, no wait
	4000  c  failed     w5 attempt 1 refused, next at 90000
	7000  a  call       w2 attempt 2, no wait
	7010  a  decision   w2 queue, judged note, changed by floor
	90000  c  call       w5 attempt 2, no wait
	90000  c  decision   w5 interrupt`)
	if m := p.find(engine.StepDecision).Decision.Judge; m.Model != "" {
		t.Errorf("%+v", m)
	}
}

// export writes a log as `attend log export` does.
func export(t *testing.T, log []engine.Record) string {
	t.Helper()
	var b strings.Builder
	for i := range log {
		rec := &log[i]
		line := map[string]any{"position": rec.Position, "stamp": rec.Stamp, "scope": rec.Scope}
		if e := rec.Event; e != nil {
			line["event"] = map[string]any{"id": e.ID, "name": e.Name, "kind": e.Kind, "policy": e.Policy, "text": e.Text}
		} else {
			line["step"] = rec.Step
		}
		out, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(out, '\n'))
	}
	return b.String()
}

// An exported log gives its decisions again: with a judge that does IO, its
// calls end as they did, failures, timeouts, lost and broken-off ones too.
func TestReadScript_OfALog(t *testing.T) {
	script := new(replay.Script)
	half := 0.5
	for _, a := range []replay.Answer{
		{Route: engine.Wait, AfterMs: 300, Probabilities: map[engine.Route]float64{engine.Wait: 0.75, engine.Queue: 0.25}},
		{Error: "busy", AfterMs: 20, RetryAfterMs: 1500},
		{Route: 99, AfterMs: 30},
		{Route: engine.Skip, AfterMs: 1 << 30},
		{Route: engine.Note, AfterMs: 5000}, // lost in a crash
		{Route: engine.Note, AfterMs: 5000}, // broken off by a stop
		{Route: engine.Skip, AfterMs: 40, Confidence: &half, Predicates: map[string]float64{"asked": 1}, Model: "m"},
		{Error: "no", Permanent: true},
		{Route: engine.Ask, AfterMs: 9},
	} {
		script.Add(a)
	}
	p := newPlay(t, script, nil)
	p.take(1000, event("a", "done", "1"))
	p.take(4000, event("a", "done", "2"))
	p.Crash(50_000)
	p.Start(55_000)
	p.Stop(56_000)
	p.Start(200_000)
	p.take(300_000, event("a", "ask", "3"))
	p.take(400_000, event("a", "ask", "4"), replay.Input{Scope: "a", Step: &engine.Step{Kind: engine.StepFlush}})
	p.Drain(1 << 40)

	whys := make(map[string]int)
	for i := range p.log {
		if st := p.log[i].Step; st != nil && st.Failed != nil {
			whys[st.Failed.Why]++
		}
	}
	if len(whys) != 5 { // error, malformed, timeout, lost, stopped
		t.Fatalf("the log does not hold every way to fail: %v\n%s", whys, p.told(0))
	}
	if n := len(decisions(t, p.log)); n != 2 {
		t.Fatalf("%d decisions\n%s", n, p.told(0))
	}
	exported := export(t, p.log)
	again, err := replay.ReadScript("log", strings.NewReader(exported))
	if err != nil {
		t.Fatal(err)
	}
	q := &play{t: t}
	q.World = replay.New(replay.Options{Script: again, Emit: func(rec *engine.Record, _ *engine.Outcome) { q.log = append(q.log, *rec) }})
	if _, err := (replay.Reader{}).Read("log", strings.NewReader(exported), func(in replay.Input) error { return q.Take(in.At, in) }); err != nil {
		t.Fatal(err)
	}
	q.Drain(1 << 40)
	if diff := cmp.Diff(decisions(t, p.log), decisions(t, q.log)); diff != "" {
		t.Errorf("-log +replay:\n%s\n%s", diff, p.told(0))
	}
}

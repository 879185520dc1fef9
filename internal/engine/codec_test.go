package engine_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
)

// goldenInput leaves a state in which everything is set: an open window with
// every deadline, one held, one judged, one in line, recent verdicts and ids.
const goldenInput = `
policy retryBackoffMs=[] waitHorizonMs=100000 maxEvents=5 judgeTimeoutMs=90000
judge note
judge error boom
judge error bang
judge wait
judge queue after 80000
0      event closing a e0
2500   event closing a e1
5000   event closing a e2
7500   event closing build.failed e3
9600   requeue d1
9700   requeue d2
10000  gap
10000  event consequence log.line c1
10000  event context agent.said x1
10010  event closing a e4
10020  event continuous a m1
10030  event passive a p1
10040  event closing a e5
10050  event consequence log.line c2
10060  flush
10070  event flush a f1
10080  pause
`

// pendingInput leaves closes that the log does not tell yet.
const pendingInput = `
judge pure waits
0      event closing a e0
4000   pause
5000   event closing a e1
6000   event flush a f1
9000   event consequence a c1
`

// golden compares with a file that a released version wrote; -update writes it.
func golden(t *testing.T, file string, got []byte) []byte {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return want
}

func indent(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		t.Fatal(err)
	}
	out.WriteByte('\n')
	return out.Bytes()
}

// A state of format 1 is read for ever, and means what it meant.
func TestDecodeState_Golden(t *testing.T) {
	told := tell(t, goldenInput)
	live := new(*told.world.State("s"))
	live.Asked = nil // the first rows of format 1 were written without it
	want := golden(t, "testdata/state.v1.json", indent(t, encode(t, live)))
	back, err := engine.DecodeState(told.world.Rules(), want, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(encode(t, live)), string(encode(t, back))); diff != "" {
		t.Errorf("-live +golden:\n%s", diff)
	}
	if back.Held == nil || back.Slot == nil || len(back.Requeued) == 0 || len(back.Open.Events) == 0 || len(back.Recent) == 0 || len(back.Open.Deadlines()) < 6 {
		t.Errorf("the golden state does not hold everything: %s", want)
	}
	goldenPending(t)
	view, err := engine.DecodeView(told.world.Rules(), want, 1)
	if err != nil || view.Held.Until != live.Held.Until || view.Open.Bytes != live.Open.Bytes {
		t.Errorf("view %+v, %v", view, err)
	}
}

func goldenPending(t *testing.T) {
	t.Helper()
	told := tell(t, pendingInput)
	live := told.world.State("s")
	want := golden(t, "testdata/state-pending.v1.json", indent(t, encode(t, live)))
	back, err := engine.DecodeState(told.world.Rules(), want, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(encode(t, live)), string(encode(t, back))); diff != "" || len(back.Pending) == 0 {
		t.Errorf("-live +golden:\n%s", diff)
	}
}

// So is every kind of step.
func TestDecodeStep_Golden(t *testing.T) {
	told := tell(t, goldenInput+`
90000  start
90000  silence s1 until=95000 scope=x* event=b.* flush
`)
	var got []byte
	seen := make(map[engine.StepKind]bool)
	for i := range told.rec.log {
		st := told.rec.log[i].Step
		if st == nil || seen[st.Kind] {
			continue
		}
		seen[st.Kind] = true
		b, err := engine.EncodeStep(st)
		if err != nil {
			t.Fatal(err)
		}
		got = append(append(got, b...), '\n')
	}
	for _, st := range []engine.Step{
		{Kind: engine.StepAck, Ack: &engine.Ack{Consumer: "c", Position: 7}},
		{Kind: engine.StepTrace, Trace: &engine.Trace{Name: "captureFailed", Message: "m", Fields: map[string]string{"a": "b"}}},
	} {
		b, err := engine.EncodeStep(&st)
		if err != nil {
			t.Fatal(err)
		}
		seen[st.Kind] = true
		got = append(append(got, b...), '\n')
	}
	const kinds = 14
	if len(seen) != kinds {
		t.Errorf("%d kinds of step, want %d: %v", len(seen), kinds, seen)
	}
	want := golden(t, "testdata/steps.v1.ndjson", got)
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("steps are written in another way (-golden +now):\n%s", diff)
	}
	for line := range bytes.Lines(want) {
		st, err := engine.DecodeStep(line, 1)
		if err != nil {
			t.Fatal(err)
		}
		again, err := engine.EncodeStep(st)
		if err != nil || string(again)+"\n" != string(line) {
			t.Errorf("read and written again:\n%s\nwas\n%s (%v)", again, line, err)
		}
	}
}

// A binary that meets a higher format refuses it, and says which version it
// needs.
func TestFormat_Newer(t *testing.T) {
	rules := engine.NewRules(nil)
	_, state := engine.DecodeState(rules, []byte(`{}`), 2, nil)
	_, view := engine.DecodeView(rules, []byte(`{}`), 2)
	_, step := engine.DecodeStep([]byte(`{}`), 2)
	for name, err := range map[string]error{"state": state, "view": view, "step": step} {
		var format *engine.FormatError
		if !errors.As(err, &format) || format.Got != 2 || !strings.Contains(err.Error(), "use the version of attend that wrote it") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is damaged is refused, not folded.
func TestDecodeState_Damaged(t *testing.T) {
	rules := engine.NewRules(nil)
	for name, row := range map[string]string{
		"no JSON":               `{`,
		"members no base64":     `{"open":{"events":"?"}}`,
		"members cut":           `{"open":{"events":"AQFh"}}`,
		"a kind that is none":   `{"open":{"events":"AQFhAQICAAAABwAAAAAAAAAAAAAAAAAAAAA="}}`,
		"dedup blocks missing":  `{"seenFrom":0,"seenTo":64}`,
		"a tail of half an id":  `{"tail":"AAAA"}`,
		"a kind name":           `{"recent":[{"route":"nowhere"}]}`,
		"an id before its time": `{"seenFrom":5,"seenTo":3}`,
	} {
		if s, err := engine.DecodeState(rules, []byte(row), engine.Format, nil); err == nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
	// The same row with a kind that is one.
	if s, err := engine.DecodeState(rules, []byte(`{"open":{"events":"AQFhAQICAAAAAQAAAAAAAAAAAAAAAAAAAAA="}}`), engine.Format, nil); err != nil || len(s.Open.Events) != 1 {
		t.Errorf("a row that is whole: %v", err)
	}
	block := func(seq int64, bytes int) func(func(int64, []byte) error) error {
		return func(yield func(int64, []byte) error) error { return yield(seq, make([]byte, bytes)) }
	}
	if _, err := engine.DecodeState(rules, []byte(`{"seenTo":2}`), engine.Format, block(0, 64)); err != nil {
		t.Errorf("two ids: %v", err)
	}
	for name, blocks := range map[string]func(func(int64, []byte) error) error{"a gap before it": block(1, 32), "half an id": block(0, 33)} {
		if _, err := engine.DecodeState(rules, []byte(`{"seenTo":2}`), engine.Format, blocks); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// Neither damaged nor hostile rows bring the daemon down; what is read can be
// folded on and written.
func FuzzDecodeState(f *testing.F) {
	told := tell(f, goldenInput)
	f.Add(encode(f, told.world.State("s")))
	f.Add([]byte(`{"open":{"events":"AQFhAQICAAAAAQAAAAAAAAAAAAAAAAAAAAA="},"slot":{},"held":{},"requeued":[{}],"pending":[{}]}`))
	f.Fuzz(func(t *testing.T, row []byte) {
		rules := told.world.Rules()
		s, err := engine.DecodeState(rules, row, engine.Format, nil)
		if err != nil {
			return
		}
		b, err := engine.EncodeState(s)
		if err != nil {
			return
		}
		if _, err := engine.DecodeState(rules, b, engine.Format, nil); err != nil {
			t.Fatalf("%v\nread    %s\nwritten %s", err, row, b)
		}
		s.Propose(rules, 1<<40)
		s.WakeAt()
		s.CallDue(1 << 40)
		s.Window(rules)
		s.Remembers(rules, engine.DigestOf("e0"), 1<<40)
		stamp := max(s.Time, 0)
		for _, rec := range told.rec.log {
			rec.Stamp += stamp
			s.Apply(rules, &rec)
		}
	})
}

// Any step can be decoded, applied, and encoded again.
func FuzzDecodeStep(f *testing.F) {
	told := tell(f, goldenInput)
	for i := range told.rec.log {
		if st := told.rec.log[i].Step; st != nil {
			b, err := engine.EncodeStep(st)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	for _, kind := range []string{"settled", "call", "failed", "wait", "decision", "deadLetter", "requeue", "policy", "silence"} {
		f.Add([]byte(`{"kind":"` + kind + `"}`))
		f.Add([]byte(`{"kind":"` + kind + `","settled":{},"call":{},"failed":{},"verdict":{},"deadLetter":{},"requeue":{},"policy":{},"silence":{}}`))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		st, err := engine.DecodeStep(body, engine.Format)
		if err != nil {
			return
		}
		_, _ = engine.EncodeStep(st) // what was left out may not be readable again
		rules := engine.NewRules(compile(pureJudges()))
		s := engine.NewState("s")
		for i, rec := range told.rec.log {
			if rec.Scope == "" {
				_ = rules.Apply(rec)
				continue
			}
			s.Apply(rules, &rec)
			if i%4 == 0 {
				odd := engine.Record{Position: rec.Position, Stamp: rec.Stamp, Scope: "s", Step: st}
				_ = rules.Apply(odd)
				s.Apply(rules, &odd)
			}
			if s.Propose(rules, rec.Stamp); s.CallDue(rec.Stamp) {
				s.StartCall(rules, "j")
			}
			s.Answer(rules, rec.Stamp, engine.Answer{Route: engine.Queue}, engine.JudgeName{})
			s.Fail(rules, rec.Stamp, engine.Failed{Why: "error"})
		}
	})
}

package engine_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"attend/internal/engine"
)

// An answer counts only for the running attempt; any other outcome, and what
// is about another window, is ignored and changes nothing.
func TestApply_IgnoresWhatNoCallWaitsFor(t *testing.T) {
	const (
		free = "judge queue\n0 event flush a f1\n"
		// w1 is called, and its first attempt runs.
		calling = "judge queue after 9000\n0 event flush a f1\n10 pause\n"
		// Its first attempt has failed.
		backoff = "judge error one\n0 event flush a f1\n10 pause\n"
		// Its first attempt has failed, and the second runs.
		second = "judge error one\njudge queue after 9000\n0 event flush a f1\n1500 pause\n"
	)
	verdict := func(window string, attempt int, route engine.Route) engine.Step {
		kind := engine.StepDecision
		if route == engine.Wait {
			kind = engine.StepWait
		}
		return engine.Step{Kind: kind, Window: window, Verdict: &engine.Verdict{Window: window, Attempt: attempt, Route: route, JudgedRoute: route}}
	}
	failed := func(window string, attempt int) engine.Step {
		return engine.Step{Kind: engine.StepFailed, Window: window, Failed: &engine.Failed{Attempt: attempt, Why: "error", RetryAt: 99}}
	}
	call := func(window string, attempt int) engine.Step {
		return engine.Step{Kind: engine.StepCall, Window: window, Call: &engine.Call{Attempt: attempt, TimeoutMs: 5}}
	}
	letter := func(window string) engine.Step {
		return engine.Step{Kind: engine.StepDeadLetter, Window: window, DeadLetter: &engine.DeadLetter{WindowID: window, Stage: engine.StageJudge}}
	}
	const w = "w1"
	for _, c := range []struct {
		name, input string
		step        engine.Step
	}{
		{"an answer when the slot is free", free, verdict(w, 1, engine.Queue)},
		{"a failure when the slot is free", free, failed(w, 1)},
		{"a call when the slot is free", free, call(w, 2)},
		{"a dead letter when the slot is free", free, letter(w)},
		{"an answer of another window", calling, verdict("other", 1, engine.Queue)},
		{"a wait of another window", calling, verdict("other", 1, engine.Wait)},
		{"a failure of another window", calling, failed("other", 1)},
		{"a call of another window", calling, call("other", 1)},
		{"a dead letter of another window", calling, letter("other")},
		{"a second call while one runs", calling, call(w, 2)},
		{"an answer of an attempt that has not begun", calling, verdict(w, 2, engine.Queue)},
		{"a failure of an attempt that has not begun", calling, failed(w, 2)},
		{"a late answer, in the backoff", backoff, verdict(w, 1, engine.Queue)},
		{"a second failure, in the backoff", backoff, failed(w, 1)},
		{"a late answer, while the next attempt runs", second, verdict(w, 1, engine.Queue)},
		{"a late wait, while the next attempt runs", second, verdict(w, 1, engine.Wait)},
		{"a verdict without a body", calling, engine.Step{Kind: engine.StepDecision, Window: w}},
		{"a call without a body", backoff, engine.Step{Kind: engine.StepCall, Window: w}},
		{"a failure without a body", calling, engine.Step{Kind: engine.StepFailed, Window: w}},
		{"a requeue without a body", calling, engine.Step{Kind: engine.StepRequeue, Window: w}},
		{"a requeue of nothing", calling, engine.Step{Kind: engine.StepRequeue, Window: w, Requeue: &engine.Requeue{Settled: engine.Settled{Window: "x"}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			told := tell(t, c.input)
			s := told.world.State("s")
			step := named(t, c.step, told.ids)
			before := still(t, s)
			out := s.Apply(told.world.Rules(), &engine.Record{Position: s.Position + 1, Stamp: s.Time, Scope: "s", Step: &step})
			if !out.Ignored {
				t.Errorf("not ignored: %+v", out)
			}
			if after := still(t, s); !bytes.Equal(before, after) {
				t.Errorf("the state has changed\nbefore %s\nafter  %s", before, after)
			}
		})
	}
}

// named puts a window's id where its label stands.
func named(t *testing.T, st engine.Step, ids map[string]string) engine.Step {
	t.Helper()
	b, err := engine.EncodeStep(&st)
	if err != nil {
		t.Fatal(err)
	}
	for label, id := range ids {
		b = bytes.ReplaceAll(b, []byte(`"`+label+`"`), []byte(`"`+id+`"`))
	}
	out, err := engine.DecodeStep(b, engine.Format)
	if err != nil {
		t.Fatal(err)
	}
	return *out
}

// still is a state without how far it has come.
func still(t *testing.T, s *engine.State) []byte {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(encode(t, s), &m); err != nil {
		t.Fatal(err)
	}
	delete(m, "position")
	delete(m, "lastStep")
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Traces, shed notes, acknowledgements and what concerns a delivery leave a
// scope as it is.
func TestApply_StepsThatMoveNothing(t *testing.T) {
	told := tell(t, "judge queue after 9000\n0 event flush a f1\n5 event closing a e1\n10 pause\n")
	s := told.world.State("s")
	for _, st := range []engine.Step{
		{Kind: engine.StepAck, Ack: &engine.Ack{Consumer: "c", Position: 1}},
		{Kind: engine.StepShed, Shed: &engine.Shed{Why: "age", Count: 3}},
		{Kind: engine.StepTrace, Trace: &engine.Trace{Name: "captureFailed"}},
		{Kind: engine.StepDeadLetter, DeadLetter: &engine.DeadLetter{WindowID: s.Slot.Settled.Window, Stage: engine.StageWebhook}},
	} {
		before := still(t, s)
		out := s.Apply(told.world.Rules(), &engine.Record{Position: s.Position + 1, Stamp: s.Time, Scope: "s", Step: &st})
		if after := still(t, s); out.Ignored || !bytes.Equal(before, after) {
			t.Errorf("%s: %+v\nbefore %s\nafter  %s", st.Kind, out, before, after)
		}
	}
}

// What was exchanged with judges stands in the log, not in a scope's row.
func TestApply_ExchangesStayOutOfTheState(t *testing.T) {
	told := tell(t, "judge queue after 9000\n0 event flush a f1\n10 pause\n")
	s := told.world.State("s")
	st := engine.Step{Kind: engine.StepFailed, Window: s.Slot.Settled.Window, Failed: &engine.Failed{
		Attempt: 1, Why: "error", RetryAt: 99, Calls: []engine.Exchange{{Judge: "j", Prompt: "a long prompt"}},
	}}
	s.Apply(told.world.Rules(), &engine.Record{Position: s.Position + 1, Stamp: s.Time, Scope: "s", Step: &st})
	if s.Slot.Phase != engine.PhaseBackoff || bytes.Contains(encode(t, s), []byte("a long prompt")) || len(st.Failed.Calls) != 1 {
		t.Errorf("phase %d, row %s, %d exchanges on the record", s.Slot.Phase, encode(t, s), len(st.Failed.Calls))
	}
}

// Ids that are forgotten by number before their time are counted; a scope
// remembers without its log, and idles when nothing in it waits.
func TestSeen_ForgottenEarly(t *testing.T) {
	var input bytes.Buffer
	input.WriteString("policy dedupIds=30 dedupMs=1000000\n")
	const events = 100
	for i := range events {
		input.WriteString(string([]byte{'0' + byte(i/100%10), '0' + byte(i/10%10), '0' + byte(i%10)}))
		input.WriteString(" event flush a e" + string([]byte{'0' + byte(i/10%10), '0' + byte(i%10)}) + "\n")
	}
	told := tell(t, input.String())
	forgotten := 0
	for _, out := range told.rec.outs {
		forgotten += out.Forgotten
	}
	s := told.world.State("s")
	if forgotten+s.Seen.Len() != events || s.Seen.Len() > 31 {
		t.Errorf("%d forgotten, %d kept", forgotten, s.Seen.Len())
	}
	if !s.Idle() {
		t.Error("a scope in which nothing waits is not idle")
	}
	rules := told.world.Rules()
	for id, want := range map[string]bool{"e99": true, "e70": true, "e69": false, "e00": false, "other": false} {
		if s.Remembers(rules, engine.DigestOf(id), s.Time) != want {
			t.Errorf("%s: remembered %v, want %v", id, !want, want)
		}
	}
	if s.Remembers(rules, engine.DigestOf("e99"), s.Time+1_000_000) {
		t.Error("an id is remembered past dedupMs")
	}
}

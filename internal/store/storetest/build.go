package storetest

import (
	"fmt"

	"attend/internal/engine"
	"attend/internal/store"
)

// event is an ordinary event.
func event(scope, id string) store.NewEvent {
	at := start - 5
	return store.NewEvent{Scope: scope, Event: engine.Event{
		ID: id, Name: "message.created", Kind: engine.Passive, Policy: 1, At: &at,
		Data: []byte(`{"by":"user-01"}`), Text: "hello",
	}}
}

// events are n ordinary events of a scope.
func events(scope string, n int) []store.NewEvent {
	out := make([]store.NewEvent, n)
	for i := range out {
		out[i] = event(scope, fmt.Sprintf("%s-%d", scope, i))
	}
	return out
}

// entry holds one ordinary event for each scope.
func entry(scopes ...string) store.Entry {
	var e store.Entry
	for i, s := range scopes {
		e.Events = append(e.Events, event(s, fmt.Sprintf("%s-%d", s, i)))
	}
	return e
}

// flush is a step that anyone may append.
func flush() engine.Step { return engine.Step{Kind: engine.StepFlush} }

// settled, decided and letter are steps of the owner.
func settled(window string) engine.Step {
	return engine.Step{Kind: engine.StepSettled, Window: window, Settled: &engine.Settled{
		Window: window, Reason: engine.ReasonClosing, Trigger: engine.TriggerDeadline,
		Deadline: engine.Deadline{Reason: engine.ReasonClosing, At: start, Event: 1},
		Due:      start, SettledAt: start + 1, Events: []engine.Position{1, 2}, Covered: 2, MayWait: true, FirstSeen: start,
	}}
}

func decided(window string) engine.Step {
	judged := engine.Note
	return engine.Step{
		Kind: engine.StepDecision, Window: window, ID: window, Route: engine.Queue,
		Verdict: &engine.Verdict{
			Window: window, Attempt: 1, Route: engine.Queue, JudgedRoute: engine.Note,
			Changed: []engine.Change{engine.ChangedByFloor}, Probabilities: &engine.Probabilities{0.25, 0.5, 0.25},
			Predicates: map[string]float64{"asked": 0.75}, At: start, Judge: &engine.JudgeName{Name: "rule"}, Policy: 1,
		},
		Decision: &engine.Decision{
			ID: window, Kind: "decision", Scope: "a", Route: engine.Queue, JudgedRoute: &judged,
			Changed: []engine.Change{engine.ChangedByFloor}, Reason: engine.ReasonClosing, Trigger: engine.TriggerDeadline,
			At: start, Due: start, SettledAt: start, Notice: "hello\n",
			Events: []engine.EventView{{ID: "a-0", Name: "message.created", Kind: engine.Passive, SeenAt: start, Text: "hello"}},
		},
	}
}

func letter(window, id string) engine.Step {
	return engine.Step{Kind: engine.StepDeadLetter, Window: window, ID: id, DeadLetter: &engine.DeadLetter{
		ID: id, Kind: "deadLetter", Stage: "judge", Scope: "a", WindowID: window, Message: "gave up", Attempts: 5, At: start, Number: 1,
	}}
}

// stepsOfEveryKind has one step of each kind, with its body.
func stepsOfEveryKind() []engine.Step {
	policy := &engine.Policy{Number: 3, Kinds: map[string]engine.Kind{"*": engine.Passive}, Default: engine.Defaults(), Judge: "rule"}
	return []engine.Step{
		flush(),
		{Kind: engine.StepGap},
		{Kind: engine.StepRequeue, Window: "w1", Requeue: &engine.Requeue{DeadLetter: "l1", Number: 1, Settled: *settled("w1").Settled, Members: []engine.Member{
			{Position: 1, SeenAt: start, Policy: 1, Size: 12, Kind: engine.Closing, Name: "n", Digest: engine.DigestOf("a-0")},
		}}},
		{Kind: engine.StepAck, Ack: &engine.Ack{Consumer: "c", Position: 7}},
		{Kind: engine.StepPolicy, Policy: policy},
		{Kind: engine.StepSilence, Silence: &engine.Silence{ID: "s1", Scope: "a*", Since: start, Until: start + 1000, Who: "me", Why: "noise"}},
		settled("w1"),
		{Kind: engine.StepCall, Window: "w1", Call: &engine.Call{Attempt: 1, Policy: 3, Offered: engine.Routes(), Judge: "rule", TimeoutMs: 20000}},
		{Kind: engine.StepFailed, Window: "w1", Failed: &engine.Failed{Attempt: 1, Why: "timeout", Message: "late", RetryAt: start + 9}},
		{Kind: engine.StepWait, Window: "w1", Verdict: &engine.Verdict{Window: "w1", Attempt: 2, Route: engine.Wait, HeldUntil: start + 60000}},
		decided("w1"),
		letter("w1", "l1"),
		{Kind: engine.StepShed, Shed: &engine.Shed{Why: "age", Count: 2, First: 3, Last: 9}},
		{Kind: engine.StepTrace, Trace: &engine.Trace{Name: "dropped", Message: "m", Fields: map[string]string{"why": "age"}}},
	}
}

package replay_test

import (
	"fmt"
	"testing"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/replay"
)

// BenchmarkWorld measures a million events over a day and 1,000 scopes: noise
// with an act now and then, the rule judge.
func BenchmarkWorld(b *testing.B) {
	const events, scopes = 1_000_000, 1000
	names := make([]string, scopes)
	for i := range names {
		names[i] = fmt.Sprintf("scope-%d", i)
	}
	ids := make([]string, events)
	for i := range ids {
		ids[i] = fmt.Sprintf("event-%d", i)
	}
	for b.Loop() {
		decisions := 0
		w := replay.New(replay.Options{
			Compile: judge.Compile,
			Emit: func(rec *engine.Record, _ *engine.Outcome) {
				if rec.Step != nil && rec.Step.Kind == engine.StepDecision {
					decisions++
				}
			},
		})
		if err := w.Take(0, replay.Input{Step: &engine.Step{Kind: engine.StepPolicy, Policy: &engine.Policy{Number: 1, Default: engine.Defaults(), Judge: "rule"}}}); err != nil {
			b.Fatal(err)
		}
		for i := range events {
			kind := engine.Consequence
			if i%300 == 0 {
				kind = engine.Closing
			}
			at := engine.Time(1000 + int64(i)*86) // a day
			in := replay.Input{Scope: names[i*7%scopes], Event: &engine.Event{
				ID: ids[i], Name: "log.line", Kind: kind, Policy: 1, Text: "status half-configured libc-bin:amd64",
			}}
			if err := w.Take(at, in); err != nil {
				b.Fatal(err)
			}
		}
		w.Drain(1 << 50)
		if decisions < 1000 {
			b.Fatalf("%d decisions", decisions)
		}
		b.ReportMetric(float64(decisions), "decisions")
	}
	b.ReportMetric(float64(events)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

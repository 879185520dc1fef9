package rules_test

import (
	"fmt"
	"testing"

	"attend/internal/engine"
)

// BenchmarkJudge compares rules with the judge "rule" on a window of 200 events.
func BenchmarkJudge(b *testing.B) {
	w := &engine.Window{Scope: "service:api", Reason: engine.ReasonClosing, Offered: engine.Offer(false)}
	var bodies []engine.Record
	for i := range 200 {
		p := engine.Position(i + 1)
		w.Events = append(w.Events, engine.Member{Position: p, Kind: engine.Consequence, Name: "log.line"})
		bodies = append(bodies, engine.Record{Position: p, Event: &engine.Event{
			ID: fmt.Sprint(i), Name: "log.line", Kind: engine.Consequence,
			Text: "GET /v1/decisions 200 in 12 ms", Data: []byte(`{"status": 200, "path": "/v1/decisions", "ms": 12}`),
		}})
	}
	w.Fill(bodies)
	for _, c := range []struct{ name, when string }{
		{"names", `"alert.fired" in names || counts.closing > 3`},
		{"text", `events.exists(e, e.text.contains("panic"))`},
		{"data", `events.exists(e, e.data.status >= 500)`},
	} {
		s := load(b, "rules:\n  - when: |\n      "+c.when+"\n    then: interrupt\ndefault: skip\n")
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if s.Judge(w).Route != engine.Skip {
					b.Fatal("the rule matched")
				}
			}
		})
	}
	b.Run("rule", func(b *testing.B) {
		for b.Loop() {
			engine.RuleJudge(w)
		}
	})
}

package fields_test

import (
	"testing"

	"attend/internal/engine"
	"attend/internal/field"
	"attend/internal/fields"
	"attend/internal/store/memory"
)

// BenchmarkWrite_Joined measures what the events cost a write, in memory: of a
// topic of 1,000 entries that agree with it, and that all contradict it.
func BenchmarkWrite_Joined(b *testing.B) {
	policy := &engine.Policy{Default: engine.Defaults()}
	if err := policy.Compile(); err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		joined bool
		value  int
	}{{"alone", false, 1}, {"agreeing", true, 1}, {"contradicting", true, 2}} {
		b.Run(c.name, func(b *testing.B) {
			st := memory.New(memory.Options{})
			s := open(b, st)
			for range 1000 {
				do[field.Written](b, s, "", field.OpWrite, note("gull", "tide", "height", 1, "place", "the old pier"))
			}
			s.Close()
			s = open(b, st, func(o *fields.Options) {
				o.Ingest, o.Policy = c.joined, func() *engine.Policy { return policy }
			})
			defer s.Close()
			do[field.Attuned](b, s, "", field.OpAttune, params("agent", "kelp"))
			for b.Loop() {
				id := do[field.Written](b, s, "", field.OpWrite, note("gull", "tide", "height", c.value, "place", "the old pier")).ID
				b.StopTimer()
				do[field.Done](b, s, "", field.OpRetract, params("id", id, "agent", "gull", "intent", "it was mistaken"))
				b.StartTimer()
			}
		})
	}
}

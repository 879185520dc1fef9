package engine_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"attend/internal/engine"
)

// TestSeen_OwnersThatFollowEachOther: replicas fold the same log and store the
// scope in turns, each cutting the ids into blocks where it stood when it began.
// Whoever reads the rows gets the state that all of them have.
func TestSeen_OwnersThatFollowEachOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		settings := engine.Defaults()
		settings.MaxEvents, settings.DedupIDs = 5, rapid.IntRange(1, 300).Draw(t, "dedupIds")
		policy := engine.Policy{Number: 1, Kinds: map[string]engine.Kind{"*": engine.Consequence}, Default: settings}
		rules := engine.NewRules(nil)
		if err := rules.Apply(engine.Record{Position: 1, Stamp: 1, Step: &engine.Step{Kind: engine.StepPolicy, Policy: &policy}}); err != nil {
			t.Fatal(err)
		}
		owners := []*engine.State{engine.NewState("a"), engine.NewState("a"), engine.NewState("a")}
		blocks := make(map[int64][]byte)
		at := engine.Position(1)
		for range rapid.IntRange(1, 12).Draw(t, "turns") {
			for range rapid.IntRange(1, 150).Draw(t, "events") {
				at++
				for _, s := range owners {
					s.Apply(rules, &engine.Record{Position: at, Stamp: engine.Time(at), Scope: "a", Event: &engine.Event{ID: fmt.Sprint(at), Name: "n", Kind: engine.Consequence, Policy: 1}})
				}
			}
			s := owners[rapid.IntRange(0, len(owners)-1).Draw(t, "owner")]
			row := encode(t, s)
			s.Seen.Blocks(func(seq int64, body []byte) {
				if old, ok := blocks[seq]; ok && !bytes.Equal(old, body) {
					t.Fatalf("position %d: block %d is not what another owner wrote", at, seq)
				}
				blocks[seq] = body
			})
			s.Seen.MarkStored(s.Seen.SealedTo())
			maps.DeleteFunc(blocks, func(seq int64, _ []byte) bool { return seq < s.Seen.DropBlocksBefore() })
			back, err := engine.DecodeState(rules, row, engine.Format, func(yield func(int64, []byte) error) error {
				for _, seq := range slices.Sorted(maps.Keys(blocks)) {
					if err := yield(seq, blocks[seq]); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatalf("position %d: %v", at, err)
			}
			if again := encode(t, back); !bytes.Equal(row, again) {
				t.Fatalf("position %d: a state is not what was stored\nstored %s\nread   %s", at, row, again)
			}
			if rapid.Bool().Draw(t, "restart") {
				owners[0] = back
			}
		}
	})
}

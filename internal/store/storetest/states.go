package storetest

import (
	"bytes"
	"errors"
	"fmt"

	"attend/internal/engine"
	"attend/internal/store"
)

// state is a row of the current format.
func state(scope string, at engine.Position, body string, blocks ...store.Block) store.StateRow {
	return store.StateRow{Scope: scope, Position: at, Format: engine.Format, Body: []byte(body), Blocks: blocks}
}

func block(seq int64, body string) store.Block { return store.Block{Seq: seq, Body: []byte(body)} }

func (e *env) save(f store.Fence, checkpoint engine.Position, rows ...store.StateRow) {
	e.Helper()
	if err := e.s.SaveStates(e.Context(), f, rows, checkpoint); err != nil {
		e.Fatalf("save states: %v", err)
	}
}

func (e *env) state(scope string) store.StateRow {
	e.Helper()
	row, err := e.s.LoadState(e.Context(), scope)
	if err != nil {
		e.Fatalf("load state of %q: %v", scope, err)
	}
	return row
}

func (e *env) checkpoint(f store.Fence) engine.Position {
	e.Helper()
	p, err := e.s.Checkpoint(e.Context(), f)
	if err != nil {
		e.Fatalf("checkpoint: %v", err)
	}
	return p
}

func stateCases() []testCase {
	return []testCase{
		{"AStateIsKept", func(e *env) {
			f := e.own()
			if _, err := e.s.LoadState(e.Context(), "a"); !errors.Is(err, store.ErrNotFound) {
				e.Errorf("state of an unknown scope: %v, want not found", err)
			}
			row := store.StateRow{Scope: "a", Position: 7, WakeAt: start + 5, Live: true, Format: engine.Format, Body: bytes.Repeat([]byte{0, 1, 255}, 40_000)}
			e.save(f, 0, row, state("b", 1, ""))
			e.same("state of a", e.state("a"), row)
			e.same("state of b", e.state("b"), state("b", 1, ""))
			row.Live, row.WakeAt, row.Body, row.Position = false, 0, []byte("x"), 8
			e.save(f, 0, row)
			e.same("state of a, later", e.state("a"), row)
		}},
		{"AnOlderStateIsIgnored", func(e *env) {
			f := e.own()
			e.save(f, 0, state("a", 7, "seven", block(1, "x")))
			old := state("a", 6, "six", block(2, "y"))
			old.DropBlocksBefore = 2
			e.save(f, 3, old, state("b", 6, "b"))
			e.same("state", e.state("a"), state("a", 7, "seven", block(1, "x")))
			e.same("the row beside it", e.state("b"), state("b", 6, "b"))
			e.same("checkpoint", e.checkpoint(f), engine.Position(3))
			e.save(f, 0, state("a", 7, "again"))
			e.same("state of the same position", e.state("a"), state("a", 7, "again", block(1, "x")))
		}},
		{"BlocksAreAddedAndDroppedNeverRewritten", func(e *env) {
			f := e.own()
			e.save(f, 0, state("a", 1, "1", block(10, "ten"), block(0, "first"), block(1<<40, "far")))
			e.save(f, 0, state("a", 2, "2", block(20, "twenty"), block(10, "other")), state("b", 2, "b", block(10, "of b")))
			e.same("blocks", e.state("a").Blocks, []store.Block{block(0, "first"), block(10, "ten"), block(20, "twenty"), block(1<<40, "far")})
			drop := state("a", 3, "3", block(30, "thirty"))
			drop.DropBlocksBefore = 20
			e.save(f, 0, drop)
			e.same("blocks after a drop", e.state("a").Blocks, []store.Block{block(20, "twenty"), block(30, "thirty"), block(1<<40, "far")})
			e.same("blocks of another scope", e.state("b").Blocks, []store.Block{block(10, "of b")})
		}},
		{"LiveStatesComeByPages", func(e *env) {
			f := e.own()
			var want []store.StateRow
			for i := range 20 {
				row := state(fmt.Sprintf("s%02d", (i*7)%20), engine.Position(i), "body")
				n := (i * 7) % 20
				row.Live = n%3 == 0
				if n%5 == 0 {
					row.WakeAt = start
				}
				e.save(f, 0, row)
			}
			for n := range 20 {
				if n%3 == 0 || n%5 == 0 {
					want = append(want, e.state(fmt.Sprintf("s%02d", n)))
				}
			}
			e.save(f, 0, state("s00", 30, "", block(1, "x"))) // neither live nor waking any longer
			want = want[1:]
			var got []store.StateRow
			after := ""
			for {
				rows, err := e.s.LiveStates(e.Context(), after, 4)
				if err != nil {
					e.Fatalf("live states: %v", err)
				}
				if len(rows) == 0 {
					break
				}
				if len(rows) > 4 {
					e.Fatalf("%d rows, more than 4", len(rows))
				}
				got = append(got, rows...)
				after = rows[len(rows)-1].Scope
			}
			e.same("live states", got, want)
		}},
		{"NamesComeByPages", func(e *env) {
			f := e.own()
			want := []string{"A", "a", "a/b", "b", "é", "日本"}
			for _, n := range []string{"b", "日本", "a/b", "A", "é", "a", "a"} {
				e.save(f, 0, state(n, 1, ""))
			}
			var got []string
			after := ""
			for {
				names, err := e.s.ScopeNames(e.Context(), after, 4)
				if err != nil {
					e.Fatalf("scope names: %v", err)
				}
				if len(names) == 0 {
					break
				}
				got = append(got, names...)
				after = names[len(names)-1]
			}
			e.same("names", got, want)
		}},
		{"TheCheckpointDoesNotFall", func(e *env) {
			f := e.own()
			e.same("checkpoint of an empty store", e.checkpoint(f), engine.Position(0))
			e.save(f, 5)
			e.same("checkpoint", e.checkpoint(f), engine.Position(5))
			e.save(f, 0, state("a", 9, ""))
			e.same("a save without one", e.checkpoint(f), engine.Position(5))
			e.save(f, 4)
			e.same("a save of an earlier one", e.checkpoint(f), engine.Position(5))
			e.same("the next owner's", e.checkpoint(e.own()), engine.Position(5))
		}},
		{"ANewerFormatIsRefused", func(e *env) {
			f := e.own()
			row := state("a", 1, "")
			row.Format, row.Live = engine.Format+1, true
			e.save(f, 0, row)
			var format *engine.FormatError
			if _, err := e.s.LoadState(e.Context(), "a"); !errors.As(err, &format) {
				e.Errorf("state of a newer format: %v", err)
			}
			if _, err := e.s.LiveStates(e.Context(), "", 10); !errors.As(err, &format) {
				e.Errorf("live states of a newer format: %v", err)
			}
		}},
		{"ManyStatesAtOnce", func(e *env) {
			f := e.own()
			rows := make([]store.StateRow, 3000)
			for i := range rows {
				rows[i] = state(fmt.Sprintf("s%04d", i), engine.Position(i), "body", block(1, "x"), block(2, "y"))
			}
			e.save(f, 17, rows...)
			names, err := e.s.ScopeNames(e.Context(), "", 5000)
			if err != nil || len(names) != len(rows) {
				e.Errorf("%d names, %v", len(names), err)
			}
			e.same("last state", e.state("s2999"), rows[2999])
		}},
	}
}

package storetest

import (
	"errors"
	"slices"
	"testing"

	"attend/internal/engine"
	"attend/internal/store"
)

// Copy brings everything that a snapshot holds into an empty store, in parts of
// a few of each.
func Copy(t *testing.T, from store.Snapshot, to store.Importer) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("copy: %v", err)
		}
	}
	ctx := t.Context()
	must(to.BeginImport(ctx))
	for after := engine.Position(0); ; {
		rs, err := from.Read(ctx, after, 7)
		must(err)
		if len(rs) == 0 {
			break
		}
		must(to.Import(ctx, store.ImportPart{Records: rs}))
		after = rs[len(rs)-1].Position
	}
	for after := engine.Position(0); ; {
		ps, err := from.Aside(ctx, after, 2)
		must(err)
		if len(ps) == 0 {
			break
		}
		rs, err := from.Events(ctx, ps)
		must(err)
		must(to.Import(ctx, store.ImportPart{Aside: rs}))
		after = ps[len(ps)-1]
	}
	for after := ""; ; {
		rows, err := from.States(ctx, after, 2)
		must(err)
		if len(rows) == 0 {
			break
		}
		must(to.Import(ctx, store.ImportPart{States: rows}))
		after = rows[len(rows)-1].Scope
	}
	spaces, err := from.Spaces(ctx)
	must(err)
	for _, space := range spaces {
		rows, err := from.Rows(ctx, space)
		must(err)
		must(to.Import(ctx, store.ImportPart{Rows: rows}))
	}
	copyFields(t, from, to)
	head, err := from.Head(ctx)
	must(err)
	kept, err := from.Kept(ctx)
	must(err)
	covered, err := from.Covered(ctx)
	must(err)
	must(to.FinishImport(ctx, store.ImportEnd{Position: head.Position, Stamp: head.Stamp, Kept: kept, Checkpoint: covered}))
}

func copyFields(t *testing.T, from store.Snapshot, to store.Importer) {
	t.Helper()
	names, err := from.FieldNames(t.Context(), "", 1000)
	if err != nil {
		t.Fatalf("names of fields: %v", err)
	}
	for _, name := range names {
		for after := int64(0); ; {
			changes, err := from.FieldChanges(t.Context(), name, after, 2)
			if err != nil {
				t.Fatalf("field %q: %v", name, err)
			}
			if len(changes) == 0 {
				break
			}
			part := store.ImportPart{Fields: []store.FieldAppend{{Name: name, After: after, Changes: changes}}}
			if err := to.Import(t.Context(), part); err != nil {
				t.Fatalf("import field %q: %v", name, err)
			}
			after = changes[len(changes)-1].Number
		}
	}
}

func (e *env) importer() store.Importer { return e.s.(store.Importer) } //nolint:forcetypeassert // Run asked

func (e *env) snapshot() store.Snapshot {
	e.Helper()
	snapshot, err := e.s.(store.Snapshotter).Snapshot(e.Context()) //nolint:forcetypeassert // Run asked
	if err != nil {
		e.Fatalf("snapshot: %v", err)
	}
	e.Cleanup(func() {
		if err := snapshot.Close(); err != nil {
			e.Errorf("close the snapshot: %v", err)
		}
	})
	return snapshot
}

func importCases() []testCase {
	return []testCase{
		{"ACopyHoldsTheSame", aCopyHoldsTheSame},
		{"ASnapshotStandsStill", func(e *env) {
			f := e.own()
			e.write(entry("a"), change("f", 0, "one"), store.Entry{Puts: []store.Put{{Space: "x", Key: "k", Value: []byte("v")}}})
			e.save(f, 1, state("a", 1, "first", block(1, "x")))
			s := e.snapshot()
			e.write(entry("b"), change("f", 1, "two"), store.Entry{Puts: []store.Put{{Space: "x", Key: "k", Value: []byte("w")}}})
			e.save(f, 2, state("a", 2, "second", block(2, "y")))
			e.compact(f, store.Compaction{Events: 2, Steps: 2, Limit: 10})
			rs, err := s.Read(e.Context(), 0, 10)
			if err != nil {
				e.Fatal(err)
			}
			e.same("records", positions(rs), []engine.Position{1})
			head, err := s.Head(e.Context())
			if err != nil || head.Position != 1 {
				e.Errorf("head %+v (%v)", head, err)
			}
			states, err := s.States(e.Context(), "", 10)
			if err != nil {
				e.Fatal(err)
			}
			e.same("states", states, []store.StateRow{state("a", 1, "first", block(1, "x"))})
			changes, err := s.FieldChanges(e.Context(), "f", 0, 10)
			if err != nil || len(changes) != 1 {
				e.Errorf("%d changes (%v)", len(changes), err)
			}
			rows, err := s.Rows(e.Context(), "x")
			if err != nil || len(rows) != 1 || string(rows[0].Value) != "v" {
				e.Errorf("rows %v (%v)", rows, err)
			}
			kept, err := s.Kept(e.Context())
			if err != nil || kept != (store.Kept{}) {
				e.Errorf("marks %+v (%v)", kept, err)
			}
		}},
		{"OnlyAnEmptyStoreIsImportedInto", func(e *env) {
			e.write(store.Entry{Puts: []store.Put{{Space: "x", Key: "k", Value: []byte("v")}}})
			if err := e.importer().BeginImport(e.Context()); !errors.Is(err, store.ErrNotEmpty) {
				e.Errorf("begin: %v", err)
			}
			for name, f := range map[string]func() error{
				"a part": func() error { return e.importer().Import(e.Context(), store.ImportPart{}) },
				"an end": func() error { return e.importer().FinishImport(e.Context(), store.ImportEnd{}) },
			} {
				if err := f(); !errors.Is(err, store.ErrInvalid) {
					e.Errorf("%s without a beginning: %v", name, err)
				}
			}
			e.write(entry("a"))
		}},
		{"HalfAnImportIsNotUsed", func(e *env) {
			if err := e.importer().BeginImport(e.Context()); err != nil {
				e.Fatal(err)
			}
			if r, err := e.s.Append(e.Context(), entry("a")); err == nil && r[0].Err == nil {
				e.Error("a half imported store took an event")
			}
			if err := e.importer().Import(e.Context(), store.ImportPart{Fields: []store.FieldAppend{*change("f", 3, "x").Field}}); err == nil {
				e.Error("a Field with a gap was imported")
			}
			if err := e.importer().FinishImport(e.Context(), store.ImportEnd{Position: 7}); !errors.Is(err, store.ErrInvalid) {
				e.Errorf("a log that ends elsewhere: %v", err)
			}
		}},
	}
}

// aCopyHoldsTheSame copies a store that was compacted and holds one of
// everything, and goes on with it.
func aCopyHoldsTheSame(e *env) {
	Fill(e.T, e.s)
	want := e.log(0, 100)
	head, kept, aside := e.head(), e.kept(), e.aside(0, 100)
	last := want[len(want)-1]
	from := e.snapshot()
	if e.suite.fresh == nil {
		e.Fatal("there is no second store")
	}
	e.s = e.suite.fresh(e.T, e.clock.Now)
	e.Cleanup(func() {
		if err := e.s.Close(); err != nil {
			e.Errorf("close the copy: %v", err)
		}
	})
	Copy(e.T, from, e.importer())
	look := func(when string) {
		e.same("log "+when, e.log(0, 100), want)
		now := e.head()
		if now.Position != head.Position || now.Stamp != head.Stamp || now.Epoch == head.Epoch {
			e.Errorf("%s the head is %+v, it was %+v: want another epoch alone", when, now, head)
		}
		e.same("marks "+when, e.kept(), kept)
		e.same("side table "+when, e.aside(0, 100), aside)
		e.same("its events "+when, positions(e.events(aside...)), aside)
	}
	look("copied")
	if e.suite.reopen != nil {
		e.reopen()
		look("opened again")
	}
	again, err := e.s.(store.Snapshotter).Snapshot(e.Context()) //nolint:forcetypeassert // Run asked
	if err != nil {
		e.Fatal(err)
	}
	defer again.Close()
	if d := Compare(stand(e, again), stand(e, from)); d != "" {
		e.Errorf("beside the log (-want +got):\n%s", d)
	}
	r := e.write(entry("a"))[0]
	e.same("next position", r.First, last.Position+1)
	f := e.own()
	numbered := engine.Position(0)
	for _, r := range slices.Backward(want) {
		if r.Scope == "scope a" && r.Step != nil && !r.Step.Kind.Outside() {
			numbered = r.Position
			break
		}
	}
	e.write(store.Entry{Scope: "scope a", Fence: f, After: numbered, Steps: []engine.Step{settled("w2")}})
}

// beside is what a snapshot holds beside the log.
type beside struct {
	States  []store.StateRow
	Rows    []store.Put
	Fields  []store.FieldAppend
	Covered engine.Position
}

func stand(e *env, s store.Snapshot) (b beside) {
	e.Helper()
	must := func(err error) {
		e.Helper()
		if err != nil {
			e.Fatal(err)
		}
	}
	var err error
	b.States, err = s.States(e.Context(), "", 100)
	must(err)
	spaces, err := s.Spaces(e.Context())
	must(err)
	for _, space := range spaces {
		rows, err := s.Rows(e.Context(), space)
		must(err)
		b.Rows = append(b.Rows, rows...)
	}
	names, err := s.FieldNames(e.Context(), "", 100)
	must(err)
	for _, name := range names {
		changes, err := s.FieldChanges(e.Context(), name, 0, 100)
		must(err)
		b.Fields = append(b.Fields, store.FieldAppend{Name: name, Changes: changes})
	}
	b.Covered, err = s.Covered(e.Context())
	must(err)
	return b
}

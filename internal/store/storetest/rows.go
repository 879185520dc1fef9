package storetest

import (
	"errors"

	"attend/internal/engine"
	"attend/internal/store"
)

func rowCases() []testCase {
	put := func(e *env, puts ...store.Put) {
		e.Helper()
		e.write(store.Entry{Puts: puts})
	}
	row := func(e *env, space, key string) string {
		e.Helper()
		v, err := e.s.Row(e.Context(), space, key)
		if errors.Is(err, store.ErrNotFound) {
			return "none"
		}
		if err != nil {
			e.Fatalf("row %s %s: %v", space, key, err)
		}
		return string(v)
	}
	return []testCase{
		{"TheLastPutCounts", func(e *env) {
			e.same("before", row(e, "x", "k"), "none")
			put(e, store.Put{Space: "x", Key: "k", Value: []byte("1")})
			e.same("put", row(e, "x", "k"), "1")
			put(e, store.Put{Space: "x", Key: "k", Value: []byte("2")}, store.Put{Space: "x", Key: "k", Value: []byte("3")})
			e.same("put again", row(e, "x", "k"), "3")
			put(e, store.Put{Space: "x", Key: "k"})
			e.same("deleted", row(e, "x", "k"), "none")
			put(e, store.Put{Space: "x", Key: "k"}) // of a row that is not there
			put(e, store.Put{Space: "x", Key: "k"}, store.Put{Space: "x", Key: "k", Value: []byte("4")})
			e.same("deleted and put", row(e, "x", "k"), "4")
		}},
		{"AnEmptyValueIsAValue", func(e *env) {
			put(e, store.Put{Space: "x", Key: "k", Value: []byte{}})
			v, err := e.s.Row(e.Context(), "x", "k")
			if err != nil || len(v) != 0 {
				e.Errorf("an empty value came back as %q, %v", v, err)
			}
			rows, err := e.s.Rows(e.Context(), "x")
			if err != nil || len(rows) != 1 {
				e.Errorf("rows %v, %v", rows, err)
			}
		}},
		{"SpacesAreApartAndRowsInOrder", func(e *env) {
			put(e,
				store.Put{Space: "x", Key: "b", Value: []byte("1")}, store.Put{Space: "y", Key: "b", Value: []byte("2")},
				store.Put{Space: "x", Key: "B", Value: []byte("3")}, store.Put{Space: "x", Key: "", Value: []byte("4")},
				store.Put{Space: "x", Key: "é", Value: []byte("5")}, store.Put{Space: "x", Key: "z", Value: []byte("6")})
			rows, err := e.s.Rows(e.Context(), "x")
			if err != nil {
				e.Fatal(err)
			}
			e.same("rows of x", rows, []store.Put{
				{Space: "x", Key: "", Value: []byte("4")},
				{Space: "x", Key: "B", Value: []byte("3")},
				{Space: "x", Key: "b", Value: []byte("1")},
				{Space: "x", Key: "z", Value: []byte("6")},
				{Space: "x", Key: "é", Value: []byte("5")},
			})
			none, err := e.s.Rows(e.Context(), "none")
			if err != nil || len(none) != 0 {
				e.Errorf("rows of an empty space: %v, %v", none, err)
			}
		}},
		{"ARowIsWrittenWithItsEntry", func(e *env) {
			f := e.own()
			en := store.Entry{Steps: []engine.Step{settled("w")}, Scope: "a", Fence: f, Puts: []store.Put{{Space: "x", Key: "k", Value: []byte("1")}}}
			e.write(en)
			e.same("row", row(e, "x", "k"), "1")
			en.Puts[0].Value = []byte("2")
			if r := e.append(en)[0]; !errors.Is(r.Err, store.ErrConflict) {
				e.Fatalf("receipt %+v, want a conflict", r)
			}
			e.same("row of a refused entry", row(e, "x", "k"), "1")
		}},
		{"ARowAloneIsWrittenUnderTheFence", func(e *env) {
			f := e.own()
			e.write(store.Entry{Scope: "a", Steps: []engine.Step{settled("w")}, Fence: f})
			en := store.Entry{Fence: f, Puts: []store.Put{{Space: "x", Key: "k", Value: []byte("1")}}}
			e.write(en)
			e.own() // another owner
			en.Puts[0].Value = []byte("2")
			if r := e.append(en)[0]; !errors.Is(r.Err, store.ErrFenced) {
				e.Fatalf("receipt %+v, want it fenced", r)
			}
			e.same("row", row(e, "x", "k"), "1")
		}},
		{"TheSecretStays", func(e *env) {
			a, err := e.s.Secret(e.Context())
			if err != nil || len(a) != 32 {
				e.Fatalf("secret of %d bytes, %v", len(a), err)
			}
			kept := string(a)
			clear(a) // the caller's own copy
			b, err := e.s.Secret(e.Context())
			if err != nil || string(b) != kept || kept == string(make([]byte, 32)) {
				e.Errorf("the secret changed, or is nothing")
			}
		}},
	}
}

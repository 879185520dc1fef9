package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"attend/internal/engine"
	"attend/internal/store"
)

// changes are an append to a Field of one change for each body.
func changes(name string, after int64, bodies ...string) *store.FieldAppend {
	a := &store.FieldAppend{Name: name, After: after}
	for _, b := range bodies {
		a.Changes = append(a.Changes, store.FieldChange{Format: 1, Body: []byte(b)})
	}
	return a
}

// change is an entry of such an append alone.
func change(name string, after int64, bodies ...string) store.Entry {
	return store.Entry{Field: changes(name, after, bodies...)}
}

// field reads a whole Field, a page at a time, and sees that its numbers have
// no gaps and end at its head.
func (e *env) field(name string, page int) []store.FieldChange {
	e.Helper()
	var out []store.FieldChange
	for {
		cs, err := e.s.FieldChanges(e.Context(), name, int64(len(out)), page)
		if err != nil {
			e.Fatalf("changes of field %q: %v", name, err)
		}
		if len(cs) > page {
			e.Fatalf("field %q gave %d changes, more than %d", name, len(cs), page)
		}
		for i := range cs {
			if want := int64(len(out) + i + 1); cs[i].Number != want {
				e.Fatalf("field %q: number %d where %d belongs", name, cs[i].Number, want)
			}
		}
		out = append(out, cs...)
		if len(cs) == 0 {
			break
		}
	}
	head, err := e.s.FieldHead(e.Context(), name)
	if err != nil || head != int64(len(out)) {
		e.Fatalf("head of field %q: %d, %v; it has %d changes", name, head, err, len(out))
	}
	return out
}

// texts tells changes in a form that is compared at once, however large.
func texts(cs []store.FieldChange) []string {
	out := make([]string, len(cs))
	for i, c := range cs {
		out[i] = fmt.Sprintf("%d %d %s", c.Number, c.Format, c.Body)
	}
	return out
}

// bodies are what the changes of a Field hold.
func (e *env) bodies(name string) []string {
	e.Helper()
	var out []string
	for _, c := range e.field(name, 100) {
		out = append(out, string(c.Body))
	}
	return out
}

func (e *env) fieldNames(after string, limit int) []string {
	e.Helper()
	names, err := e.s.FieldNames(e.Context(), after, limit)
	if err != nil {
		e.Fatalf("names of fields: %v", err)
	}
	return names
}

// refused appends an entry that must be refused with an error.
func (e *env) refused(en store.Entry, with error) {
	e.Helper()
	if r := e.append(en)[0]; !errors.Is(r.Err, with) {
		e.Fatalf("receipt %+v, want it refused: %v", r, with)
	}
}

func fieldCases() []testCase {
	return []testCase{
		{"AFieldThatDoesNotExistIsEmpty", func(e *env) {
			e.same("changes", e.field("f", 10), nil)
			e.same("names", e.fieldNames("", 10), nil)
		}},
		{"ChangesAreNumberedFromOne", func(e *env) {
			r := e.write(change("f", 0, "one", "two"), change("f", 2, "three"))
			want := []store.FieldChange{{Number: 1, Format: 1, Body: []byte("one")}, {Number: 2, Format: 1, Body: []byte("two")}, {Number: 3, Format: 1, Body: []byte("three")}}
			e.same("changes", e.field("f", 100), want)
			e.same("changes one by one", e.field("f", 1), want)
			for i := range r {
				if r[i].First != 0 || r[i].Last != 0 || r[i].Stamp != start {
					e.Errorf("receipt %+v: changes take no positions", r[i])
				}
			}
			e.same("head of the log", e.head().Position, engine.Position(0))
		}},
		{"EveryPartOfAChangeIsKept", func(e *env) {
			en := store.Entry{Field: &store.FieldAppend{Name: "f", Changes: []store.FieldChange{
				{Number: 1, Format: 7, Body: []byte("\x00\xff")}, {Format: 1, Body: []byte{0}}, {Number: 3, Format: 1 << 30, Body: []byte(` {"a" : 1e400} `)},
			}}}
			want := slices.Clone(en.Field.Changes)
			want[1].Number = 2
			e.write(en)
			e.same("changes", e.field("f", 100), want)
		}},
		{"OnlyWhatFollowsTheLastChangeIsWritten", func(e *env) {
			e.refused(change("f", 1, "x"), store.ErrConflict)
			e.same("names after a refused first append", e.fieldNames("", 10), nil)
			e.write(change("f", 0, "one", "two"))
			for _, after := range []int64{0, 1, 3, 1 << 40} {
				e.refused(change("f", after, "x"), store.ErrConflict)
			}
			e.refused(change("g", 2, "x"), store.ErrConflict) // another Field
			e.write(change("f", 2, "three"))
			e.same("bodies", e.bodies("f"), []string{"one", "two", "three"})
			e.same("names", e.fieldNames("", 10), []string{"f"})
		}},
		{"BrokenChangesAreInvalid", func(e *env) {
			noBody, noFormat, number := change("f", 0, "x", ""), change("f", 0, "x"), change("f", 0, "x", "y")
			noFormat.Field.Changes[0].Format = 0
			number.Field.Changes[1].Number = 3
			for _, en := range []store.Entry{noBody, noFormat, number, change("", 0, "x"), change("f", 0), change("f", -1, "x")} {
				en.Events = events("a", 1)
				e.refused(en, store.ErrInvalid)
			}
			e.same("names", e.fieldNames("", 10), nil)
			e.same("head", e.head().Position, engine.Position(0))
		}},
		{"EntriesOfOneCallFollowEachOther", entriesOfOneCallFollowEachOther},
		{"ARefusedEntryWritesNeitherSide", aRefusedEntryWritesNeitherSide},
		{"NamesAreKeptByteForByteAndInOrder", fieldNamesAreKept},
		{"BigChangesAreKept", func(e *env) {
			big := strings.Repeat("żółw", 400_000)
			e.write(change("f", 0, "a", big, "b"), change("f", 3, big))
			e.same("bodies", len(e.bodies("f")), 4)
			for _, c := range e.field("f", 1) {
				if len(c.Body) > 1 && string(c.Body) != big {
					e.Errorf("change %d came back as %d bytes of %d", c.Number, len(c.Body), len(big))
				}
			}
		}},
		{"ManyChangesMakeOneEntry", func(e *env) {
			en := change("f", 0)
			for i := range 5000 {
				en.Field.Changes = append(en.Field.Changes, store.FieldChange{Format: 1, Body: fmt.Append(nil, i)})
			}
			e.write(en)
			for i, body := range e.bodies("f") {
				if body != fmt.Sprint(i) {
					e.Fatalf("change %d is %q", i+1, body)
				}
			}
		}},
		{"WhatTheCallerReadStays", func(e *env) {
			e.write(change("f", 0, "one"))
			read := e.field("f", 10)
			kept := slices.Clone(read)
			_ = append(read, store.FieldChange{Number: 2, Body: []byte("the reader's")})
			e.write(change("f", 1, "two"))
			e.same("read before", read, kept)
			e.same("bodies", e.bodies("f"), []string{"one", "two"})
		}},
		{"WritersOfOneFieldWinEachNumberOnce", writersOfOneFieldWinEachNumberOnce},
	}
}

// entriesOfOneCallFollowEachOther puts one between them that does not: it and
// those that build on it are refused, and the others stand as if it had not
// been there.
func entriesOfOneCallFollowEachOther(e *env) {
	r := e.append(
		change("f", 0, "1"), change("g", 0, "g1"), change("f", 1, "2", "3"),
		change("f", 1, "late"), change("f", 3, "4"), change("f", 5, "early"), entry("a"), change("g", 1, "g2"), change("f", 4, "5"),
	)
	for i := range r {
		if refused := i == 3 || i == 5; errors.Is(r[i].Err, store.ErrConflict) != refused || (r[i].Err != nil) != refused {
			e.Errorf("entry %d: %v", i, r[i].Err)
		}
	}
	e.same("bodies of f", e.bodies("f"), []string{"1", "2", "3", "4", "5"})
	e.same("bodies of g", e.bodies("g"), []string{"g1", "g2"})
	e.same("head", e.head().Position, engine.Position(1))
	var long []store.Entry
	for i := range 500 {
		long = append(long, change("long", int64(i), fmt.Sprint(i)))
	}
	e.write(long...)
	e.same("bodies of a long call", len(e.bodies("long")), 500)
}

// aRefusedEntryWritesNeitherSide has changes refused for the log's sake, and
// records for the Field's.
func aRefusedEntryWritesNeitherSide(e *env) {
	fence := e.own()
	whole := func(after int64, body string, last engine.Position) store.Entry {
		return store.Entry{
			Events: events("a", 2), Steps: []engine.Step{settled("w")}, Scope: "a", Fence: fence, After: last,
			Puts: []store.Put{{Space: "x", Key: "k", Value: []byte(body)}}, Field: changes("f", after, body),
		}
	}
	check := func(when string, bodies ...string) {
		e.Helper()
		e.same("bodies "+when, e.bodies("f"), bodies)
		e.same("records "+when, len(e.log(0, 100)), 3*len(bodies))
		v, err := e.s.Row(e.Context(), "x", "k")
		if err != nil || string(v) != bodies[len(bodies)-1] {
			e.Errorf("row %s: %q, %v", when, v, err)
		}
	}
	last := e.write(whole(0, "one", 0))[0].Last
	check("at first", "one")
	e.refused(whole(0, "two", last), store.ErrConflict)
	check("after the Field refused", "one")
	e.refused(whole(1, "two", last-1), store.ErrConflict)
	check("after the log refused", "one")
	stale := whole(1, "two", last)
	stale.Fence.Token--
	e.refused(stale, store.ErrFenced)
	check("after the fence refused", "one")
	e.write(whole(1, "two", last))
	check("at last", "one", "two")
}

// fieldNamesAreKept also sees that no two of them are taken for one.
func fieldNamesAreKept(e *env) {
	for i, name := range strange() {
		e.write(change(name, 0, fmt.Sprint(i)))
	}
	for i, name := range strange() {
		e.same(fmt.Sprintf("bodies of %q", name), e.bodies(name), []string{fmt.Sprint(i)})
	}
	want := slices.Sorted(slices.Values(strange()))
	e.same("names", e.fieldNames("", 1000), want)
	var paged []string
	for {
		after := ""
		if len(paged) > 0 {
			after = paged[len(paged)-1]
		}
		page := e.fieldNames(after, 3)
		if len(page) == 0 {
			break
		}
		paged = append(paged, page...)
	}
	e.same("names by pages", paged, want)
	e.same("names after one that there is not", e.fieldNames("zz", 1000), want[slices.IndexFunc(want, func(n string) bool { return n > "zz" }):])
}

// writersOfOneFieldWinEachNumberOnce lets writers race for every number; one
// that is refused reads on and tries the next one.
func writersOfOneFieldWinEachNumberOnce(e *env) {
	const writers, each = 6, 30
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for won := 0; won < each; {
				head, err := e.s.FieldHead(e.Context(), "f")
				if err != nil {
					e.Errorf("head: %v", err)
					return
				}
				en := change("f", head, fmt.Sprintf("%d/%d", w, won))
				en.Events = events(fmt.Sprint(w), 1)
				rs, err := e.s.Append(e.Context(), en)
				switch {
				case err != nil:
					e.Errorf("append: %v", err)
					return
				case rs[0].Err == nil:
					won++
				case !errors.Is(rs[0].Err, store.ErrConflict):
					e.Errorf("receipt %+v", rs[0])
					return
				}
			}
		})
	}
	group.Wait()
	next := make([]int, writers)
	for _, body := range e.bodies("f") {
		var w, n int
		if _, err := fmt.Sscanf(body, "%d/%d", &w, &n); err != nil || n != next[w] {
			e.Fatalf("writer %d's change %d where %d belongs, %v", w, n, next[w], err)
		}
		next[w]++
	}
	e.same("changes of each writer", next, slices.Repeat([]int{each}, writers))
	e.same("events written with them", e.head().Position, engine.Position(writers*each))
}

// fieldsAreAsTheyWere is for a store that is opened again.
func fieldsAreAsTheyWere(e *env) {
	for i, name := range strange() {
		e.write(change(name, 0, name, fmt.Sprint(i)), entry("a"))
	}
	long := changes("long", 0, strings.Repeat("x", 70_000))
	for i := range 300 {
		long.Changes = append(long.Changes, store.FieldChange{Format: 1, Body: bytes.Repeat([]byte{byte(i)}, 1+7*i)})
	}
	e.write(store.Entry{Events: events("a", 1), Field: long})
	names, want := e.fieldNames("", 1000), texts(e.field("long", 100))
	e.reopen()
	e.same("names", e.fieldNames("", 1000), names)
	e.same("changes", texts(e.field("long", 33)), want)
	for i, name := range strange() {
		e.same(fmt.Sprintf("bodies of %q", name), e.bodies(name), []string{name, fmt.Sprint(i)})
		e.refused(change(name, 1, "x"), store.ErrConflict)
		e.write(change(name, 2, "after"))
	}
	e.write(change("new", 0, "x"))
	e.same("bodies of a new one", e.bodies("new"), []string{"x"})
}

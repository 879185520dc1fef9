package storetest

import (
	"fmt"

	"pgregory.net/rapid"

	"attend/internal/store"
)

// drawChanges draws an append that mostly follows what the writer takes for
// the Field's last change, and notes what is then the last.
func drawChanges(rt *rapid.T, next map[string]int64) *store.FieldAppend {
	name := rapid.SampledFrom([]string{"f", "g", "\x00", "żółw"}).Draw(rt, "field name")
	a := &store.FieldAppend{Name: name, After: next[name]}
	if rapid.IntRange(0, 7).Draw(rt, "wrong number") == 0 {
		a.After = max(0, a.After+int64(rapid.IntRange(-2, 2).Draw(rt, "off")))
	}
	for i := range rapid.IntRange(1, 3).Draw(rt, "changes") {
		c := store.FieldChange{Format: rapid.IntRange(1, 3).Draw(rt, "format"), Body: fmt.Append(nil, a.After, i, rapid.Byte().Draw(rt, "body"))}
		if rapid.Bool().Draw(rt, "numbered") {
			c.Number = a.After + 1 + int64(i)
		}
		a.Changes = append(a.Changes, c)
	}
	if a.After == next[name] {
		next[name] = a.Last()
	}
	return a
}

// readFields reads a part of a Field, its head, and names.
func (d *duel) readFields(rt *rapid.T) {
	name := rapid.SampledFrom([]string{"f", "g", "\x00", "żółw", "none"}).Draw(rt, "field name")
	after, limit := int64(rapid.IntRange(-1, 20).Draw(rt, "after")), rapid.IntRange(1, 5).Draw(rt, "limit")
	want, err := d.model.FieldChanges(d.ctx(), name, after, limit)
	d.must(rt, "field changes", err)
	for _, o := range d.others {
		got, err := o.FieldChanges(d.ctx(), name, after, limit)
		if err != nil {
			rt.Fatalf("field changes of %s: %v", o.name, err)
		}
		expected := want
		if len(got) > 0 && len(got) < len(want) {
			expected = want[:len(got)]
		}
		d.differ(rt, fmt.Sprintf("changes of field %q", name), o, got, expected)
	}
	if len(want) > 0 {
		d.seen["fields"]++
	}
	compared(d, fmt.Sprintf("head of field %q", name), func(s store.Store) (int64, error) { return s.FieldHead(d.ctx(), name) })
	compared(d, "names of fields", func(s store.Store) ([]string, error) { return s.FieldNames(d.ctx(), name, limit) })
}

// compareFields compares every change of every Field.
func (d *duel) compareFields() {
	compared(d, "names of fields", func(s store.Store) ([]string, error) { return s.FieldNames(d.ctx(), "", 100) })
	names, err := d.model.FieldNames(d.ctx(), "", 100)
	d.must(d.rt, "names of fields", err)
	for _, name := range names {
		compared(d, fmt.Sprintf("changes of field %q", name), func(s store.Store) ([]store.FieldChange, error) { return d.wholeField(s, name) })
	}
}

// wholeField reads a Field page by page.
func (d *duel) wholeField(s store.Store, name string) (all []store.FieldChange, err error) {
	for {
		page, err := s.FieldChanges(d.ctx(), name, int64(len(all)), 10_000)
		if err != nil || len(page) == 0 {
			return all, err
		}
		all = append(all, page...)
	}
}

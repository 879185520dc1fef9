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
	want, err1 := d.model.FieldChanges(d.ctx(), name, after, limit)
	got, err2 := d.other.FieldChanges(d.ctx(), name, after, limit)
	if err1 != nil || err2 != nil {
		rt.Fatalf("field changes: %v, the memory store: %v", err2, err1)
	}
	if len(got) > 0 && len(got) < len(want) {
		want = want[:len(got)]
	}
	d.differ(rt, fmt.Sprintf("changes of field %q", name), got, want)
	if len(want) > 0 {
		d.seen["fields"]++
	}
	head1, err1 := d.model.FieldHead(d.ctx(), name)
	head2, err2 := d.other.FieldHead(d.ctx(), name)
	if err1 != nil || err2 != nil || head1 != head2 {
		rt.Fatalf("head of field %q: %d, %v; the memory store: %d, %v", name, head2, err2, head1, err1)
	}
	names1, err1 := d.model.FieldNames(d.ctx(), name, limit)
	names2, err2 := d.other.FieldNames(d.ctx(), name, limit)
	if err1 != nil || err2 != nil {
		rt.Fatalf("names of fields: %v, the memory store: %v", err2, err1)
	}
	d.differ(rt, "names of fields", names2, names1)
}

// compareFields compares every change of every Field.
func (d *duel) compareFields() {
	names, err1 := d.model.FieldNames(d.ctx(), "", 100)
	got, err2 := d.other.FieldNames(d.ctx(), "", 100)
	if err1 != nil || err2 != nil {
		d.rt.Fatalf("names of fields: %v, the memory store: %v", err2, err1)
	}
	d.differ(d.rt, "names of fields", got, names)
	for _, name := range names {
		want, err1 := d.model.FieldChanges(d.ctx(), name, 0, 10_000)
		got, err2 := d.wholeField(name)
		if err1 != nil || err2 != nil {
			d.rt.Fatalf("field changes: %v, the memory store: %v", err2, err1)
		}
		d.differ(d.rt, fmt.Sprintf("changes of field %q", name), got, want)
	}
}

// wholeField reads a Field of the store that is compared.
func (d *duel) wholeField(name string) (all []store.FieldChange, err error) {
	for {
		page, err := d.other.FieldChanges(d.ctx(), name, int64(len(all)), 10_000)
		if err != nil || len(page) == 0 {
			return all, err
		}
		all = append(all, page...)
	}
}

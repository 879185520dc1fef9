package sqlite

import (
	"attend/internal/engine"
	"attend/internal/store"
)

// batch is a group with its positions.
type batch struct {
	stamp   engine.Time
	entries []*pending
	records []engine.Record
	events  []eventRow
	steps   []stepRow
	changes []changeRow
	bytes   int // of the records, about
}

type eventRow struct {
	position engine.Position
	shard    uint8
	event    *store.NewEvent
}

type stepRow struct {
	position engine.Position
	scope    string
	step     *engine.Step
	body     []byte
}

type changeRow struct {
	field  *fieldHead
	number int64
	change *store.FieldChange
}

// add gives the entry the positions behind the one given, and returns its last.
func (b *batch) add(p *pending, position engine.Position) engine.Position {
	b.entries = append(b.entries, p)
	b.bytes += p.size - p.beside
	if p.records() > 0 {
		p.receipt.First = position + 1
	}
	for i := range p.Events {
		e := &p.Events[i]
		position++
		b.events = append(b.events, eventRow{position: position, shard: p.shards[i], event: e})
		b.records = append(b.records, engine.Record{Position: position, Stamp: b.stamp, Scope: e.Scope, Event: &e.Event})
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		position++
		b.steps = append(b.steps, stepRow{position: position, scope: p.Scope, step: s, body: p.bodies[i]})
		b.records = append(b.records, engine.Record{Position: position, Stamp: b.stamp, Scope: p.Scope, Step: s})
	}
	if p.records() > 0 {
		p.receipt.Last = position
	}
	if f := p.Field; f != nil {
		for i := range f.Changes {
			b.changes = append(b.changes, changeRow{field: p.head, number: f.After + 1 + int64(i), change: &f.Changes[i]})
		}
	}
	return position
}

// text is a string as a column that may be NULL holds it.
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// blob is what a column that may not be NULL holds; the driver binds a nil
// slice as NULL.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func (b *batch) eventRow(args []any, i int) []any {
	row := &b.events[i]
	e := &row.event.Event
	var at, data any
	if e.At != nil {
		at = int64(*e.At)
	}
	if len(e.Data) > 0 {
		data = e.Data
	}
	return append(args, int64(row.position), int64(b.stamp), int64(row.shard), row.event.Scope, e.ID, e.Name,
		int64(e.Kind), int64(e.Policy), at, data, text(e.Text), int64(engine.Format))
}

func (b *batch) stepRow(args []any, i int) []any {
	row := &b.steps[i]
	s := row.step
	var owned int64
	if !s.Kind.Outside() {
		owned = 1
	}
	return append(args, int64(row.position), int64(b.stamp), int64(engine.Shard(row.scope)), row.scope, string(s.Kind),
		text(s.Window), text(s.ID), text(routeName(s.Route)), owned, int64(engine.Format), row.body)
}

func (b *batch) changeRow(args []any, i int) []any {
	row := &b.changes[i]
	return append(args, row.field.id, row.number, int64(row.change.Format), row.change.Body)
}

// routeName is a route's name, "" for none.
func routeName(r engine.Route) string {
	if r == 0 {
		return ""
	}
	return r.String()
}

package postgres

import (
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"attend/internal/engine"
	"attend/internal/store"
)

// batch is what of a group is written: columns, as the statements take them,
// and the records. Places are counted from the end of the log, which is known
// once the batch is written.
type batch struct {
	entries []*pending
	records []engine.Record

	events  eventColumns
	steps   stepColumns
	changes changeColumns
	puts    map[rowKey][]byte // the last value of each row, nil for none
}

type eventColumns struct {
	place                       []int32
	shard, kind                 []int16
	policy                      []int64
	at                          []*int64
	scope, id, name, data, text [][]byte
}

type stepColumns struct {
	place                         []int32
	shard                         []int16
	owned                         []bool
	scope, kind, window, id, body [][]byte
}

type changeColumns struct {
	name   [][]byte
	number []int64
	format []int32
	body   [][]byte
}

type rowKey struct{ space, key string }

func newBatch(entries []*pending, records int) *batch {
	b := &batch{entries: entries, records: make([]engine.Record, 0, records)}
	for _, p := range entries {
		b.add(p)
	}
	return b
}

// add takes an entry in. Its receipt counts from the end of the log.
func (b *batch) add(p *pending) {
	*p.receipt = store.Receipt{}
	if p.records() > 0 {
		p.receipt.First = engine.Position(len(b.records)) + 1
	}
	for i := range p.Events {
		e := &p.Events[i]
		b.records = append(b.records, engine.Record{Scope: e.Scope, Event: &e.Event})
		b.event(e, int16(p.shards[i]))
	}
	for i := range p.Steps {
		b.records = append(b.records, engine.Record{Scope: p.Scope, Step: &p.Steps[i]})
		b.step(p.Scope, p.shard, &p.Steps[i], p.bodies[i])
	}
	if p.records() > 0 {
		p.receipt.Last = engine.Position(len(b.records))
	}
	for i := range p.Puts {
		if b.puts == nil {
			b.puts = make(map[rowKey][]byte)
		}
		b.puts[rowKey{p.Puts[i].Space, p.Puts[i].Key}] = p.Puts[i].Value
	}
	if p.Field != nil {
		b.change(p.Field)
	}
}

func (b *batch) change(f *store.FieldAppend) {
	c := &b.changes
	for i := range f.Changes {
		c.name = append(c.name, []byte(f.Name))
		c.number = append(c.number, f.After+1+int64(i))
		c.format = append(c.format, int32(f.Changes[i].Format)) //nolint:gosec // counted by hand
		c.body = append(c.body, f.Changes[i].Body)
	}
}

// place is that of the record added last.
func (b *batch) place() int32 { return int32(len(b.records)) } //nolint:gosec // an entry of 2^31 records is none

func (b *batch) event(e *store.NewEvent, shard int16) {
	c := &b.events
	c.place = append(c.place, b.place())
	c.shard = append(c.shard, shard)
	c.kind = append(c.kind, int16(e.Kind))
	c.policy = append(c.policy, int64(e.Policy))
	var at *int64
	if e.At != nil {
		sent := int64(*e.At)
		at = &sent
	}
	c.at = append(c.at, at)
	c.scope = append(c.scope, []byte(e.Scope))
	c.id = append(c.id, []byte(e.ID))
	c.name = append(c.name, []byte(e.Name))
	c.data = append(c.data, orNull(e.Data))
	c.text = append(c.text, orNull([]byte(e.Text)))
}

func (b *batch) step(scope string, shard int, s *engine.Step, body []byte) {
	c := &b.steps
	c.place = append(c.place, b.place())
	c.shard = append(c.shard, int16(shard)) //nolint:gosec // there are 256 shards
	c.owned = append(c.owned, !s.Kind.Outside())
	c.scope = append(c.scope, []byte(scope))
	c.kind = append(c.kind, []byte(s.Kind))
	c.window = append(c.window, orNull([]byte(s.Window)))
	c.id = append(c.id, orNull([]byte(s.ID)))
	c.body = append(c.body, body)
}

// orNull is a value as a column that may be null holds it.
func orNull(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

// written moves everything to the place that the log gave it.
func (b *batch) written(base engine.Position, stamp engine.Time) {
	for i := range b.records {
		b.records[i].Position, b.records[i].Stamp = base+engine.Position(i)+1, stamp
	}
	for _, p := range b.entries {
		p.receipt.Stamp = stamp
		if p.receipt.First > 0 {
			p.receipt.First += base
			p.receipt.Last += base
		}
	}
}

// selectEnd reads where the log ends, and the stamp that follows: that of the
// last record, unless the clocks are ahead; and the log's epoch. Its arguments are the least stamp,
// and whether the database's clock counts.
const selectEnd = `
	SELECT greatest(h.position, e.position, s.position) AS position,
		greatest(h.stamp, e.stamp, s.stamp, $1::bigint, CASE WHEN $2::boolean THEN floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint END) AS stamp,
		h.epoch
	FROM @head h
	LEFT JOIN (SELECT position, stamp FROM @events ORDER BY position DESC LIMIT 1) e ON true
	LEFT JOIN (SELECT position, stamp FROM @steps ORDER BY position DESC LIMIT 1) s ON true`

// writeRecords takes the end of the log, puts records behind it, and tells
// those who listen up to where the log goes now. The head is held, so that the
// end that it sees is the end. It divides by zero when the log is not the one
// that is expected: that undoes the whole transaction, in the one turn that a
// group has.
const writeRecords = `
	WITH base AS MATERIALIZED (` + selectEnd + `
	), events AS (
		INSERT INTO @events (position, stamp, format, shard, kind, policy, at, scope, id, name, data, text)
		SELECT base.position + u.place, base.stamp, $3::smallint, u.shard, u.kind, u.policy, u.at, u.scope, u.id, u.name, u.data, u.text
		FROM base, unnest($4::integer[], $5::smallint[], $6::smallint[], $7::bigint[], $8::bigint[],
			$9::bytea[], $10::bytea[], $11::bytea[], $12::bytea[], $13::bytea[])
			AS u (place, shard, kind, policy, at, scope, id, name, data, text)
	), steps AS (
		INSERT INTO @steps (position, stamp, format, shard, owned, scope, kind, window_id, id, body)
		SELECT base.position + u.place, base.stamp, $3::smallint, u.shard, u.owned, u.scope, u.kind, u.window_id, u.id, u.body
		FROM base, unnest($14::integer[], $15::smallint[], $16::boolean[], $17::bytea[], $18::bytea[], $19::bytea[], $20::bytea[], $21::bytea[])
			AS u (place, shard, owned, scope, kind, window_id, id, body)
	)
	SELECT position, stamp, CASE WHEN $22::bigint > 0 THEN pg_notify($23::text, (position + $22::bigint)::text) END,
		1 / (position >= $24::bigint AND epoch = $25::text)::integer FROM base`

// queue puts the statements that write the batch into one for the server. What
// the log gives is left in base and stamp.
func (b *batch) queue(n names, channel string, out *pgx.Batch, c *clock, want expect, base, stamp *int64) {
	e, s := &b.events, &b.steps
	out.Queue(n.sql(writeRecords), c.stamp(), c.real(), int16(engine.Format),
		e.place, e.shard, e.kind, e.policy, e.at, e.scope, e.id, e.name, e.data, e.text,
		s.place, s.shard, s.owned, s.scope, s.kind, s.window, s.id, s.body,
		len(b.records), channel, int64(want.end), want.epoch,
	).QueryRow(func(row pgx.Row) error { return row.Scan(base, stamp, nil, nil) })
	b.queuePuts(n, out)
	b.queueChanges(n, out)
}

// queueChanges writes changes of Fields, and the Fields that begin with them.
func (b *batch) queueChanges(n names, out *pgx.Batch) {
	if f := &b.changes; len(f.name) > 0 {
		out.Queue(n.sql("INSERT INTO @fields (name) SELECT DISTINCT unnest($1::bytea[]) ON CONFLICT DO NOTHING"), f.name)
		out.Queue(n.sql("INSERT INTO @field_changes (name, number, format, body) SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::integer[], $4::bytea[])"),
			f.name, f.number, f.format, f.body)
	}
}

// queuePuts writes the rows, those of one entry or of several in their last
// state.
func (b *batch) queuePuts(n names, out *pgx.Batch) {
	var spaces, keys, values, noSpaces, noKeys [][]byte
	sorted := slices.SortedFunc(maps.Keys(b.puts), func(x, y rowKey) int {
		return slices.Compare([]string{x.space, x.key}, []string{y.space, y.key})
	})
	for _, k := range sorted {
		if v := b.puts[k]; v != nil {
			spaces, keys, values = append(spaces, []byte(k.space)), append(keys, []byte(k.key)), append(values, v)
		} else {
			noSpaces, noKeys = append(noSpaces, []byte(k.space)), append(noKeys, []byte(k.key))
		}
	}
	if len(noKeys) > 0 {
		out.Queue(n.sql("DELETE FROM @rows r USING unnest($1::bytea[], $2::bytea[]) AS u (space, key) WHERE r.space = u.space AND r.key = u.key"), noSpaces, noKeys)
	}
	if len(keys) > 0 {
		out.Queue(n.sql("INSERT INTO @rows (space, key, value) SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bytea[]) ON CONFLICT (space, key) DO UPDATE SET value = excluded.value"),
			spaces, keys, values)
	}
}

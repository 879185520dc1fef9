package sim

import (
	"bytes"
	"context"
	"slices"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/memory"
)

// undrained tells what was left when nothing went wrong any more, and it did
// not end.
func (l *ledger) undrained(after time.Duration) {
	for _, name := range l.names {
		st := l.scopes[name].state
		if st.Idle() && len(st.Open.Events) == 0 {
			continue
		}
		at, armed := st.WakeAt()
		l.add("stuck", "%v after the last trouble scope %q has %d open events, held %v, slot %v, %d unwritten closes, wakes at %d (%v)",
			after, name, len(st.Open.Events), st.Held != nil, st.Slot != nil, len(st.Pending), at, armed)
	}
	if len(l.findings) == 0 {
		l.add("stuck", "%v after the last trouble there is more to come", after)
	}
}

// atEnd checks what must be true once the world has come to rest.
func (l *ledger) atEnd(s *memory.Store) {
	l.totals.Records = len(l.records)
	if len(l.findings) > 0 {
		return
	}
	for key := range l.acked { //arch:sorted a finding ends the run, whichever it is
		if _, ok := l.stored[key]; !ok {
			l.add("lost", "event %q of scope %q was acknowledged, and is not in the log", key.id, key.scope)
		}
	}
	for _, name := range l.names {
		st := l.scopes[name].state
		for i := range st.Open.Events {
			if m := &st.Open.Events[i]; m.Kind.Act() || m.Kind == engine.Flush {
				l.add("stuck", "the %s event at position %d of scope %q is still open", m.Kind, m.Position, name)
			}
		}
	}
	for _, w := range l.inOrder {
		if w.final == nil && w.taken == "" {
			l.add("stuck", "window %s of scope %q settled at position %d and has no outcome", w.settled.Window, w.scope, w.at)
		}
	}
	l.arrived()
	l.again()
	for _, name := range l.names {
		l.checkRow(s, name)
	}
}

// saved notes rows that were written, and that who wrote them had the right to.
func (l *ledger) saved(f store.Fence, rows []store.StateRow, checkpoint engine.Position) {
	saved := savedRows{shard: f.Shard, checkpoint: checkpoint}
	if f != l.fences[f.Shard] {
		l.add("fence", "state rows were written under %+v, in force is %+v", f, l.fences[f.Shard])
	}
	for i := range rows {
		if !l.inForce(f, rows[i].Scope) {
			l.add("fence", "the row of scope %q was written under %+v", rows[i].Scope, f)
		}
		saved.scopes = append(saved.scopes, rows[i].Scope)
	}
	l.rows = append(l.rows, saved)
}

// checkSaved compares the rows that were written since with the log.
func (l *ledger) checkSaved(s *memory.Store) {
	for _, r := range l.rows {
		for _, name := range r.scopes {
			l.checkRow(s, name)
		}
		if r.checkpoint > 0 {
			l.checkCheckpoint(s, r.shard, r.checkpoint)
		}
	}
	l.rows = l.rows[:0]
}

// checkRow: a scope's row is the fold of its records up to the row's position,
// and from there the rest of the log leads to the same state.
func (l *ledger) checkRow(s *memory.Store, name string) {
	ctx := context.Background()
	row, err := s.LoadState(ctx, name)
	if err != nil {
		return // there is none
	}
	l.totals.Rows++
	stored, err := engine.DecodeState(l.rules, row.Body, row.Format, func(yield func(int64, []byte) error) error {
		for _, b := range row.Blocks {
			if err := yield(b.Seq, b.Body); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		l.add("rows", "the row of scope %q at %d: %v", name, row.Position, err)
		return
	}
	f := l.scopes[name]
	if f == nil {
		l.add("rows", "there is a row of scope %q, which has no records", name)
		return
	}
	fresh := engine.NewState(name)
	for i := range f.records {
		if f.records[i].Position <= row.Position {
			l.fill(fresh, &f.records[i])
			fresh.Apply(l.rules, &f.records[i])
		}
	}
	l.compare(name, "as stored", stored, fresh, f)
	for i := range f.records {
		if f.records[i].Position > row.Position {
			l.fill(stored, &f.records[i])
			stored.Apply(l.rules, &f.records[i])
		}
	}
	l.compare(name, "folded on", stored, f.state, f)
}

func (l *ledger) compare(name, how string, got, want *engine.State, f *folded) {
	plain := func(st *engine.State) []byte {
		c := *st
		c.Seen = engine.Seen{}
		b, err := engine.EncodeState(&c)
		if err != nil {
			l.add("rows", "%v", err)
		}
		return b
	}
	if g, w := plain(got), plain(want); !bytes.Equal(g, w) {
		l.add("rows", "the row of scope %q, %s, is not the fold of the log\nrow %s\nlog %s", name, how, g, w)
	}
	for i := range f.records {
		if e := f.records[i].Event; e != nil {
			d := engine.DigestOf(e.ID)
			if g, w := got.Remembers(l.rules, d, got.Time), want.Remembers(l.rules, d, got.Time); g != w {
				l.add("rows", "the row of scope %q, %s, remembers event %q: %v, the log: %v", name, how, e.ID, g, w)
			}
		}
	}
}

// checkCheckpoint: every scope's row covers the log up to the checkpoint, or
// the scope has no records after its row.
func (l *ledger) checkCheckpoint(s *memory.Store, shard int, checkpoint engine.Position) {
	for _, name := range l.names {
		if shard >= 0 && engine.Shard(name) != shard {
			continue
		}
		last := engine.Position(0)
		for _, r := range slices.Backward(l.scopes[name].records) {
			if r.Position <= checkpoint {
				last = r.Position
				break
			}
		}
		if last == 0 {
			continue
		}
		if row, err := s.LoadState(context.Background(), name); err != nil || row.Position < last {
			l.add("rows", "the checkpoint is %d, and the row of scope %q, which has a record at %d, stands at %d (%v)", checkpoint, name, last, row.Position, err)
		}
	}
}

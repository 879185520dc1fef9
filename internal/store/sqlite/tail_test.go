package sqlite

import (
	"testing"

	"attend/internal/engine"
	"attend/internal/store"
)

// runOf is a committed group of records of one scope.
func runOf(first engine.Position, n int, stamp engine.Time, scope string, bytes int) run {
	var records []engine.Record
	for i := range n {
		records = append(records, engine.Record{Position: first + engine.Position(i), Stamp: stamp, Scope: scope, Event: new(engine.Event)})
	}
	return newRun(stamp, records, bytes)
}

func TestTail_IsBoundedByRecordsAndBytes(t *testing.T) {
	for name, c := range map[string]struct{ records, bytes int }{"Records": {10, 1 << 30}, "Bytes": {1 << 30, 300}} {
		t.Run(name, func(t *testing.T) {
			tl := newTail(0, 0, c.records)
			tl.maxBytes = c.bytes
			for i := range 20 {
				tl.add(runOf(engine.Position(i*3+1), 3, engine.Time(i), "a", 90))
				if tl.records > c.records || tl.bytes > c.bytes {
					t.Fatalf("it holds %d records of %d bytes", tl.records, tl.bytes)
				}
			}
			if _, ok := tl.read(50, 10); ok {
				t.Error("it answered for records that it no longer holds")
			}
			rs, ok := tl.read(51, 100)
			if !ok || len(rs) != 9 || rs[0].Position != 52 || rs[8].Position != 60 {
				t.Errorf("read %d records, %t", len(rs), ok)
			}
		})
	}
}

func TestTail_KeepsTheLastGroupHoweverLarge(t *testing.T) {
	tl := newTail(0, 0, 10)
	tl.add(runOf(1, 5, 1, "a", 1))
	tl.add(runOf(6, 50, 1, "a", 1<<40))
	if rs, ok := tl.read(5, 100); !ok || len(rs) != 50 {
		t.Errorf("read %d records, %t", len(rs), ok)
	}
	tl.add(runOf(56, 1, 1, "a", 1))
	if rs, ok := tl.read(55, 100); !ok || len(rs) != 1 {
		t.Errorf("read %d records, %t", len(rs), ok)
	}
}

func TestTail_ForbidsLooksNoFurtherThanItMust(t *testing.T) {
	tl := newTail(0, 0, 8)
	tl.add(runOf(1, 5, 10, "a", 1)) // dropped by what follows
	tl.add(runOf(6, 3, 20, "a", 1))
	tl.add(runOf(9, 3, 30, "b", 1))
	for _, c := range []struct {
		scope   string
		applied engine.Position
		due     engine.Time
		at      engine.Position
	}{
		{"a", 5, 21, 6}, {"a", 6, 21, 7}, {"a", 8, 31, 0}, {"a", 5, 20, 0}, {"b", 5, 30, 0}, {"b", 5, 31, 9}, {"b", 11, 99, 0},
	} {
		e := store.Entry{Scope: c.scope, Applied: c.applied, Due: c.due}
		if at, from := tl.forbids(&e); at != c.at || from != 6 {
			t.Errorf("%s applied %d due %d: %d from %d, want %d from 6", c.scope, c.applied, c.due, at, from, c.at)
		}
	}
}

func TestTail_RestartForgetsGroupsThatDoNotReachTheEnd(t *testing.T) {
	tl := newTail(0, 0, 100)
	tl.add(runOf(1, 3, 10, "a", 1))
	_, changed, _ := tl.watch()
	tl.restart(3, 10)
	if _, ok := tl.read(0, 10); !ok {
		t.Error("it forgot a group that reaches the end")
	}
	tl.restart(5, 12)
	if _, ok := tl.read(0, 10); ok {
		t.Error("it answers across a hole")
	}
	if rs, ok := tl.read(5, 10); !ok || len(rs) != 0 {
		t.Errorf("read at the end: %d, %t", len(rs), ok)
	}
	select {
	case <-changed:
	default:
		t.Error("nobody was woken")
	}
	tl.add(runOf(6, 1, 13, "a", 1))
	if p, stamp := tl.end(); p != 6 || stamp != 13 {
		t.Errorf("end %d at %d", p, stamp)
	}
}

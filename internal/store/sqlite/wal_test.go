package sqlite

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"attend/internal/engine"
	"attend/internal/store"
)

// walBytes appends events in groups and returns the bytes of WAL that an event
// took. It does not depend on the machine: pages are counted, not time.
// Scope says which scope the i-th event has.
func walBytes(t *testing.T, events, group int, scope func(i int) string) float64 {
	t.Helper()
	path := fresh(t)
	// NORMAL writes the same bytes, and does not wait for the disk.
	s := openStore(t, path, Options{noCheckpoints: true, Synchronous: SynchronousNormal})
	before := walSize(t, path)
	data := []byte(`{"by":"user-0001","tags":["a","b"],"body":"` + strings.Repeat("żółw or \\\"not\\\" ", 6) + `"}`)
	for i := 0; i < events; {
		var e store.Entry
		for range min(group, events-i) {
			at := engine.Time(1_760_000_000_000 + i)
			e.Events = append(e.Events, store.NewEvent{Scope: scope(i), Event: engine.Event{
				ID: fmt.Sprintf("evt-%012d", i), Name: "message.created", Kind: engine.Passive, Policy: 1,
				At: &at, Data: data, Text: "hello, this is what the agent should read of it",
			}})
			i++
		}
		mustAppend(t, s, e) // one call with nobody beside it is one group
	}
	return float64(walSize(t, path)-before) / float64(events)
}

func walSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestWAL_BytesForAnEvent is the regression test of the log's shape: an index
// on events would multiply the figures of small groups by ten.
func TestWAL_BytesForAnEvent(t *testing.T) {
	spread := func(i int) string { return fmt.Sprintf("room:%05d", i*7919%20_000) }
	for _, c := range []struct {
		group, events int
		most          float64
	}{{1, 1000, 6000}, {64, 16_000, 600}, {1000, 16_000, 350}} {
		got := walBytes(t, c.events, c.group, spread)
		t.Logf("groups of %d: %.0f bytes of WAL for an event", c.group, got)
		if got > c.most {
			t.Errorf("groups of %d: %.0f bytes of WAL for an event, more than %.0f", c.group, got, c.most)
		}
	}
}

// TestWAL_BytesDoNotGrowWithTheWindow compares events that come 3,000 to a
// scope with events that come ten to a scope.
func TestWAL_BytesDoNotGrowWithTheWindow(t *testing.T) {
	windows := func(size int) func(int) string {
		return func(i int) string { return fmt.Sprintf("room:%05d", i/size) }
	}
	for _, group := range []int{1, 64} {
		const events = 2 * 3000
		small, large := walBytes(t, events, group, windows(10)), walBytes(t, events, group, windows(3000))
		t.Logf("groups of %d: windows of 10 %.0f, of 3000 %.0f bytes", group, small, large)
		if large > 1.2*small {
			t.Errorf("groups of %d: an event of a window of 3000 takes %.0f bytes, of a window of 10 %.0f", group, large, small)
		}
	}
}

// frames reads how many pages the WAL holds, and how many of them have been
// moved.
func frames(t *testing.T, s *Store) (n, moved int) {
	t.Helper()
	n, moved, err := s.checkpoints.pragma(t.Context(), "NOOP")
	if err != nil {
		t.Fatal(err)
	}
	return n, moved
}

func TestCheckpoints_RunBesideTheWriter(t *testing.T) {
	s := openStore(t, fresh(t), Options{})
	big := plain("a", 1)
	big.Events[0].Data = make([]byte, frameBytes*checkpointFrames)
	mustAppend(t, s, big)
	eventually(t, "a full WAL is moved", func() bool {
		n, moved := frames(t, s)
		return n >= checkpointFrames && moved == n
	})
	// The next commit starts the WAL from its beginning.
	mustAppend(t, s, plain("a", 1))
	if n, _ := frames(t, s); n >= checkpointFrames {
		t.Errorf("the WAL was not reused: %d frames", n)
	}
}

func TestCheckpoints_LeaveASmallWALAlone(t *testing.T) {
	s := openStore(t, fresh(t), Options{noCheckpoints: true})
	mustAppend(t, s, plain("a", 1))
	if err := s.checkpoints.round(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, moved := frames(t, s); n == 0 || moved != 0 {
		t.Errorf("%d of %d frames were moved", moved, n)
	}
}

// TestCheckpoints_RestartALongWAL lets a WAL grow while a read pins it, and
// ends the read.
func TestCheckpoints_RestartALongWAL(t *testing.T) {
	const restart = 1 << 20
	s := openStore(t, fresh(t), Options{walRestart: restart, noCheckpoints: true})
	mustAppend(t, s, plain("a", 1))
	read, err := s.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := read.QueryRowContext(t.Context(), "SELECT count(*) FROM events").Scan(&n); err != nil {
		t.Fatal(err)
	}
	big := plain("a", 1)
	big.Events[0].Data = make([]byte, 2*restart)
	mustAppend(t, s, big)
	if err := s.checkpoints.round(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.checkpoints.refused.IsZero() {
		t.Error("the restart was not refused while a read pinned the WAL")
	}
	mustAppend(t, s, plain("a", 1)) // the writer goes on
	if n, _ := frames(t, s); n*frameBytes < restart {
		t.Errorf("%d frames: the WAL was reused under a reader", n)
	}
	if err := read.Rollback(); err != nil {
		t.Fatal(err)
	}
	s.checkpoints.refused = s.checkpoints.refused.Add(-restartPatience)
	if err := s.checkpoints.round(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, s, plain("a", 1))
	if n, _ := frames(t, s); n*frameBytes >= restart {
		t.Errorf("%d frames: the WAL was not restarted", n)
	}
	if log, err := s.Read(t.Context(), 0, 10); err != nil || len(log) != 4 || len(log[1].Event.Data) != 2*restart {
		t.Errorf("%d records, %v", len(log), err)
	}
}

// TestCheckpoints_BoundTheWALOfAWriterThatNeverPauses appends without a pause
// and sees that the WAL stays short.
func TestCheckpoints_BoundTheWALOfAWriterThatNeverPauses(t *testing.T) {
	const restart = 1 << 20
	path := fresh(t)
	s := openStore(t, path, Options{walRestart: restart, Synchronous: SynchronousNormal})
	big := plain("a", 1)
	big.Events[0].Data = make([]byte, 64<<10)
	restarts, last := 0, 0
	eventually(t, "the WAL is restarted three times", func() bool {
		mustAppend(t, s, big)
		n, _ := frames(t, s)
		if n < last {
			restarts++
		}
		last = n
		return restarts == 3
	})
}

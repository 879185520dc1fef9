package backup_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"attend/internal/backup"
	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/memory"
	"attend/internal/store/storetest"
)

var update = flag.Bool("update", false, "make the golden file if there is none")

// filled is a store with one of everything that can be written as JSON.
func filled(t *testing.T) *memory.Store {
	t.Helper()
	s := memory.New(memory.Options{Now: storetest.NewClock(1_760_000_000_000).Now})
	t.Cleanup(func() { _ = s.Close() })
	fence, err := s.Own(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := engine.Time(5)
	var events []store.NewEvent
	for i, data := range []string{`{"a":1}`, "", "{ \"a\" : [1.50,\"\\u0041<&>\"] }", "[\n\t1]", "\"\u009b2J \u202e\"", `"żółw 🐢"`, "not JSON", "\xff"} {
		events = append(events, store.NewEvent{Scope: "a\u2028<b>", Event: engine.Event{
			ID: fmt.Sprint(i), Name: "n", Kind: engine.Kinds()[i%6], Policy: 2, At: &at, Text: "t\x00\n\u202e\U000e0041" + fmt.Sprint(i), Data: []byte(data),
		}})
	}
	policy := engine.Step{Kind: engine.StepPolicy, Policy: &engine.Policy{Number: 1, Default: engine.Defaults(), Judge: "rule"}}
	rs, err := s.Append(t.Context(),
		store.Entry{Steps: []engine.Step{policy}},
		store.Entry{Events: events},
		store.Entry{Scope: "a", Fence: fence, Steps: []engine.Step{{Kind: engine.StepShed, Shed: &engine.Shed{Why: "age", Count: 2, First: 1, Last: 3}}}},
		store.Entry{Events: events[:2], Puts: []store.Put{{Space: "x", Key: "k\x00", Value: []byte{0, 255}}, {Space: "y", Key: "", Value: []byte{}}}},
		store.Entry{Field: &store.FieldAppend{Name: "f", Changes: []store.FieldChange{{Format: 1, Body: []byte("{}")}, {Format: 2, Body: []byte{0, 255}}}}},
		store.Entry{Field: &store.FieldAppend{Name: "g", Changes: []store.FieldChange{{Format: 1, Body: []byte("x")}}}},
		store.Entry{Field: &store.FieldAppend{Name: "f", After: 2, Changes: []store.FieldChange{{Format: 1, Body: []byte("third")}}}},
	)
	for i := range rs {
		err = errors.Join(err, rs[i].Err)
	}
	row := store.StateRow{Scope: "a", Position: 9, WakeAt: 7, Live: true, Format: engine.Format, Body: []byte{0, 1, 255}, Blocks: []store.Block{{Seq: 0, Body: []byte("b")}, {Seq: 64, Body: []byte{255}}}}
	err = errors.Join(err, s.SaveStates(t.Context(), fence, []store.StateRow{row, {Scope: "b", Position: 3, Format: engine.Format, Body: []byte{}}}, 8))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Compact(t.Context(), fence, store.Compaction{Events: 4, Steps: 2, Keep: []engine.Position{3, 4}, Limit: 100}); err != nil {
		t.Fatal(err)
	}
	return s
}

func export(t *testing.T, s *memory.Store) string {
	t.Helper()
	from, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	var b bytes.Buffer
	if _, err := backup.Write(t.Context(), from, &b, nil); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func imported(t *testing.T, file string) (*memory.Store, error) {
	t.Helper()
	s := memory.New(memory.Options{Now: storetest.NewClock(1_760_000_000_000).Now})
	t.Cleanup(func() { _ = s.Close() })
	_, err := backup.Read(t.Context(), strings.NewReader(file), s, nil)
	return s, err
}

func TestBackup_IsTheSameAgain(t *testing.T) {
	from := filled(t)
	file := export(t, from)
	to, err := imported(t, file)
	if err != nil {
		t.Fatal(err)
	}
	first, rest, _ := strings.Cut(export(t, to), "\n")
	wantFirst, want, _ := strings.Cut(file, "\n")
	if d := cmp.Diff(want, rest); d != "" {
		t.Errorf("the export of the import differs (-first +second):\n%s", d)
	}
	if first == wantFirst {
		t.Error("the epoch is the same")
	}
	a, err := from.Read(t.Context(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	b, err := to.Read(t.Context(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	if d := storetest.Compare(b, a); d != "" {
		t.Errorf("records (-from +to):\n%s", d)
	}
	if strings.ContainsAny(file, "\u009b\u202e\u2028\x00\t\r") {
		t.Error("the file holds characters that a terminal would act on")
	}
}

// The file of an earlier version is read.
func TestBackup_Golden(t *testing.T) {
	const golden = "testdata/version1.ndjson"
	if _, err := os.Stat(golden); *update && err != nil {
		if err := os.WriteFile(golden, []byte(export(t, filled(t))), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	s, err := imported(t, string(b))
	if err != nil {
		t.Fatal(err)
	}
	_, want, _ := strings.Cut(string(b), "\n")
	_, got, _ := strings.Cut(export(t, s), "\n")
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("it holds something else than it did (-then +now):\n%s", d)
	}
}

// A file that was cut anywhere, or that lost a line, leaves nothing usable.
func TestBackup_ACutFileIsRefused(t *testing.T) {
	file := export(t, filled(t))
	lines := strings.SplitAfter(strings.TrimSuffix(file, "\n"), "\n")
	for i := range lines {
		without := strings.Join(lines[:i], "") + strings.Join(lines[i+1:], "")
		if s, err := imported(t, without); err == nil || usable(t, s) {
			t.Errorf("without line %d: %v", i+1, err)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, len(file)-2).Draw(rt, "bytes")
		s, err := imported(t, file[:n])
		if err == nil || usable(t, s) {
			rt.Errorf("%d of %d bytes: %v", n, len(file), err)
		}
	})
}

// usable reports whether a store looks as if the import had been finished.
func usable(t *testing.T, s *memory.Store) bool {
	t.Helper()
	head, err := s.Head(t.Context())
	return err != nil || head.Position > 0
}

func TestBackup_SaysWhatIsWrongWithALine(t *testing.T) {
	file := export(t, filled(t))
	change := func(old, now string) string {
		t.Helper()
		if !strings.Contains(file, old) {
			t.Fatalf("the file does not hold %s", old)
		}
		return strings.Replace(file, old, now, 1)
	}
	_, rest, _ := strings.Cut(file, "\n")
	for _, c := range []struct{ name, file, want string }{
		{"nothing", "", "line 0: there is nothing to import"},
		{"records alone", rest, "line 1: not the first line of a whole export"},
		{"a newer version", change(`{"attendLog":1`, `{"attendLog":2`), "line 1: the export has version 2, and this binary reads up to 1"},
		{"a newer format", change(`"format":1`, `"format":9`), "line 1: written in format 9"},
		{"a broken line", change(`{"position":6`, `{"position":6,,`), "line 4: not a line of an export: "},
		{"an unknown line", strings.Replace(file, "\n", "\n{\"x\":1}\n", 1), "line 2: not a line of an export"},
		{"another order", change(`{"position":6`, `{"position":5`), "line 4: the record at position 5 stands behind that at 5"},
		{"a gap", change(`{"position":6`, `{"position":7`), "line 4: the record at position 7 follows a gap"},
		{"a stamp that falls", change(`{"position":6,"stamp":1760000000000`, `{"position":6,"stamp":1750000000000`), "line 4: the record at position 6 was stamped at 1750000000000, before"},
		{"behind the end", file + "{\"x\":1}\n", "something stands behind the last line"},
		{"neither", change(`"step":{"kind":"shed"`, `"stop":{"kind":"shed"`), "a record holds either an event or a step"},
	} {
		_, err := imported(t, c.file)
		var at *backup.LineError
		if err == nil || !strings.Contains(err.Error(), c.want) || !errors.As(err, &at) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestBackup_OnlyAnEmptyStoreIsImportedInto(t *testing.T) {
	s := filled(t)
	if _, err := backup.Read(t.Context(), strings.NewReader(export(t, s)), s, nil); !errors.Is(err, store.ErrNotEmpty) {
		t.Errorf("import over a log: %v", err)
	}
}

package sqlite_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/sqlite"
	"attend/internal/store/storetest"
)

var update = flag.Bool("update", false, "make the store of the current format if there is none, and rewrite what every stored one holds")

// TestGolden opens a store of every released format, as its own version wrote
// it, and compares what it holds with what it held then. A released store is
// never made anew: -update only adds one for a format that has none.
func TestGolden(t *testing.T) {
	if *update {
		makeGolden(t, golden(engine.Format))
	}
	for format := 1; format <= engine.Format; format++ {
		t.Run(fmt.Sprintf("Format%d", format), func(t *testing.T) {
			b, err := os.ReadFile(golden(format))
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "attend.db")
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			s := open(t, path, sqlite.Options{})
			got := storetest.Dump(t, s)
			text := golden(format) + ".json"
			if *update {
				if err := os.WriteFile(text, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(text)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Errorf("the store holds something else than it did (-then +now):\n%s", d)
			}
			// It can be written, and the owner of before is fenced.
			fence, err := s.Own(t.Context())
			if err != nil || fence.Token != 2 {
				t.Errorf("fence %+v, %v", fence, err)
			}
			mustAppend(t, s, store.Entry{Events: []store.NewEvent{event("a", "new")}})
		})
	}
}

func golden(format int) string { return fmt.Sprintf("testdata/format%d.sqlite", format) }

func makeGolden(t *testing.T, to string) {
	t.Helper()
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	clock := storetest.NewClock(1_760_000_000_000)
	path := filepath.Join(t.TempDir(), "attend.db")
	s := open(t, path, sqlite.Options{Now: clock.Now})
	storetest.Fill(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

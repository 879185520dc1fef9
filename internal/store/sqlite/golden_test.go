package sqlite_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/sqlite"
	"attend/internal/store/storetest"
)

var update = flag.Bool("update", false, "make the store of the current format and schema if there is none, and rewrite what every stored one holds")

// goldens are the stores of every released format of the records and, within
// it, every schema of the tables, the current one last.
func goldens() []string {
	return []string{
		"format1.sqlite",         // schema 1, without Fields
		"format1.schema2.sqlite", // a log that was never compacted
		"format1.schema3.sqlite",
	}
}

// TestGolden_IsThereForThisVersion fails when the format or the schema has
// changed and no store of it is kept: name one in goldens, and run with -update.
func TestGolden_IsThereForThisVersion(t *testing.T) {
	scripts, err := filepath.Glob("migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	all := goldens()
	if got, want := all[len(all)-1], fmt.Sprintf("format%d.schema%d.sqlite", engine.Format, len(scripts)); got != want {
		t.Errorf("the newest golden store is %s, want %s", got, want)
	}
}

// TestGolden opens a store of every released format and schema, as its own
// version wrote it, and compares what it holds with what it held then. A
// released store is never made anew: -update only adds one that is not there.
func TestGolden(t *testing.T) {
	for _, name := range goldens() {
		golden := filepath.Join("testdata", name)
		if *update {
			makeGolden(t, golden)
		}
		t.Run(name, func(t *testing.T) {
			b, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "attend.db")
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			s := open(t, path, sqlite.Options{})
			got := storetest.Dump(t, s)
			text := golden + ".json"
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
			// It can be written, its Fields too, and the owner of before is fenced.
			fence, err := s.Own(t.Context())
			if err != nil || fence.Token != 2 {
				t.Errorf("fence %+v, %v", fence, err)
			}
			last, err := s.FieldHead(t.Context(), "default")
			if err != nil {
				t.Fatal(err)
			}
			mustAppend(t, s, store.Entry{Events: []store.NewEvent{event("a", "new")}, Field: change("default", last)})
		})
	}
}

// TestOpenReader_LeavesAnOldSchemaToTheDaemon: a reading command migrates
// nothing, and says what to do.
func TestOpenReader_LeavesAnOldSchemaToTheDaemon(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", goldens()[0]))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "attend.db")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.OpenReader(t.Context(), path); err == nil || !strings.Contains(err.Error(), "start the daemon once") {
		t.Fatalf("open reader: %v", err)
	}
	if err := open(t, path, sqlite.Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	if names, err := openReader(t, path).FieldNames(t.Context(), "", 10); err != nil || len(names) != 0 {
		t.Errorf("fields of an old store: %q, %v", names, err)
	}
}

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

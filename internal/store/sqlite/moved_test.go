//go:build unix

package sqlite

import (
	"errors"
	"os"
	"strings"
	"testing"

	"attend/internal/store"
)

// mustRefuse appends, and wants it refused with these words.
func mustRefuse(t *testing.T, s *Store, says string) {
	t.Helper()
	_, err := s.Append(t.Context(), plain("a", 1))
	if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), says) {
		t.Fatalf("append: %v, want unavailable and %q", err, says)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// TestAppend_RefusesWhileTheFileIsGone: what is written to a file without a
// name is lost with the process, so it must not be acknowledged.
func TestAppend_RefusesWhileTheFileIsGone(t *testing.T) {
	path := fresh(t)
	s := openStore(t, path, Options{})
	mustAppend(t, s, plain("a", 1))
	rename(t, path, path+".moved")
	mustRefuse(t, s, path)
	if _, err := os.Stat(path); err == nil {
		t.Error("a new database was made in its place")
	}
	rename(t, path+".moved", path)
	mustAppend(t, s, plain("a", 1))
	if got := position(t, s); got != 2 {
		t.Errorf("head %d once the file is back, want 2", got)
	}
}

// TestAppend_RefusesAnotherFileOfThatName: a backup that is copied over a
// store in use is another log, and must not be gone on with.
func TestAppend_RefusesAnotherFileOfThatName(t *testing.T) {
	other := fresh(t)
	if err := openStore(t, other, Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	path := fresh(t)
	s := openStore(t, path, Options{})
	mustAppend(t, s, plain("a", 1))
	rename(t, path, path+".moved")
	rename(t, other, path)
	mustRefuse(t, s, path)
}

func TestOpen_RefusesAFileOfTwoNames(t *testing.T) {
	path := fresh(t)
	s := openStore(t, path, Options{})
	second := path + ".second"
	if err := os.Link(path, second); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), second, Options{}); err == nil || !strings.Contains(err.Error(), "2 names") {
		t.Fatalf("a second daemon by a hard link: %v, want it refused", err)
	}
	mustAppend(t, s, plain("a", 1))
}

// TestLock_OutlivesItsFile: somebody takes the lock file for a leftover.
func TestLock_OutlivesItsFile(t *testing.T) {
	path := fresh(t)
	s := openStore(t, path, Options{})
	if err := os.Remove(path + ".lock"); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, s, plain("a", 1))
	if _, err := Open(t.Context(), path, Options{}); !errors.Is(err, store.ErrLocked) {
		t.Fatalf("a second daemon after the lock file was removed: %v, want locked", err)
	}
}

func TestLock_ThatWasLostEndsTheWriting(t *testing.T) {
	path := fresh(t)
	s := openStore(t, path, Options{})
	if err := os.Remove(path + ".lock"); err != nil {
		t.Fatal(err)
	}
	second := openStore(t, path, Options{}) // nothing was written since
	mustRefuse(t, s, "another attend daemon")
	mustAppend(t, second, plain("a", 1))
}

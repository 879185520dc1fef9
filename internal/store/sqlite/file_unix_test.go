//go:build unix

package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"
)

func TestOpen_MakesFilesForTheirOwnerAlone(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	path := fresh(t)
	s := openStore(t, path, Options{})
	mustAppend(t, s, plain("a", 1))
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("attend.db%s has mode %o", suffix, mode)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path + "-wal"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the WAL is left after a close: %v", err)
	}
}

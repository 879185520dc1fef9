//go:build unix

package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"attend/internal/store"
)

// acquire takes the lock that keeps a second daemon away from the database. It
// lives in a file of its own, because closing any handle of the database file
// would drop SQLite's locks on it. The file stays when the lock is released:
// removing it would let two daemons hold two files of one name.
//
// The system releases the lock when the process ends, however it ends.
func acquire(path string) (*lock, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock file: %w", err)
	}
	if err := flock(f); err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		return nil, fmt.Errorf("%w: %sstop it first, or use another file (the lock is %s)", store.ErrLocked, holder(f), path)
	}
	// The number is for people; the lock itself is what counts.
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return &lock{path: path, file: f}, nil
}

// lock is a lock that is held.
type lock struct {
	path string
	file *os.File
}

func (l *lock) release() error { return l.file.Close() }

// keep makes sure that the file which is locked is still the one of that name.
// Somebody may have removed it as a leftover, and the next daemon would lock a
// file of its own. So this one takes that first, or hears that it came too late.
func (l *lock) keep() error {
	held, err := l.file.Stat()
	if err != nil {
		return fmt.Errorf("look at the lock: %w", err)
	}
	if there, err := os.Stat(l.path); err == nil && os.SameFile(held, there) {
		return nil
	}
	again, err := acquire(l.path)
	if err != nil {
		return err
	}
	_ = l.file.Close()
	l.file = again.file
	return nil
}

func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// holder names the process that wrote itself into the lock file.
func holder(f *os.File) string {
	b := make([]byte, 32)
	n, _ := f.ReadAt(b, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil {
		return ""
	}
	return fmt.Sprintf("process %d has it: ", pid)
}

// names is how many names (hard links) a file has.
func names(info fs.FileInfo) uint64 {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 1
	}
	return uint64(st.Nlink) //nolint:unconvert // it is narrower on some systems
}

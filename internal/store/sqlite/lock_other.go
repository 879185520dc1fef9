//go:build !unix

package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
)

// acquire refuses: without a lock a second daemon could take the database.
func acquire(path string) (*lock, error) {
	return nil, fmt.Errorf("lock %s: this system has no flock: %w", path, errors.ErrUnsupported)
}

type lock struct{}

func (*lock) release() error { return nil }

func (*lock) keep() error { return nil }

// names is not known here.
func names(fs.FileInfo) uint64 { return 1 }

//go:build !unix

package sqlite

import (
	"errors"
	"fmt"
)

// acquire refuses: without a lock a second daemon could take the database.
func acquire(path string) (release func() error, err error) {
	return nil, fmt.Errorf("lock %s: this system has no flock: %w", path, errors.ErrUnsupported)
}

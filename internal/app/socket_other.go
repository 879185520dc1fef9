//go:build !unix

package app

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// listenSocket refuses: the permissions of a file do not guard a socket here.
func listenSocket(_ context.Context, path string) (net.Listener, error) {
	return nil, fmt.Errorf("unix socket %s: %w on this system: use host and port", path, errors.ErrUnsupported)
}

//go:build unix

package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	socketMode       = 0o600
	socketFolderMode = 0o700
	socketProbe      = time.Second // for another daemon to answer
)

// listenSocket listens on a unix socket that only this user can open. The file
// is removed when the listener is closed; one that a dead daemon has left is
// replaced, one that somebody listens on is not.
func listenSocket(ctx context.Context, path string) (net.Listener, error) {
	if err := socketFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := clearSocket(ctx, path); err != nil {
		return nil, err
	}
	// On Linux the file takes the mode of the socket, so that there is no moment
	// at which others could connect. Elsewhere the folder guards that moment.
	config := net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) error {
		return conn.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), socketMode) })
	}}
	listener, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// socketFolder makes the folder, or refuses one in which anybody could put
// another socket in the place of ours.
func socketFolder(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(dir, socketFolderMode); err != nil {
			return fmt.Errorf("make the folder of the socket: %w", err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("look at the folder of the socket: %w", err)
	case !info.IsDir():
		return fmt.Errorf("%s is no folder: the socket cannot stand in it", dir)
	case info.Mode().Perm()&0o002 != 0:
		return fmt.Errorf("everyone may write in %s (%v), and so put another socket in the place of this one: choose a folder for it alone, which is made when it is not there", dir, info.Mode())
	default:
		return nil
	}
}

// clearSocket removes the socket of a daemon that has died. Two daemons that
// start at the same instant could both find a dead one's; what they share is
// their store, whose lock only one of them gets.
func clearSocket(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look at the socket: %w", err)
	case info.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("%s is there already and is no socket: name another path, or remove it", path)
	}
	conn, err := (&net.Dialer{Timeout: socketProbe}).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		_ = conn.Close()
		return fmt.Errorf("somebody listens on %s already: stop that daemon, or name another socket", path)
	case !errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("find out whether somebody listens on %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove the socket of a daemon that has died: %w", err)
	}
	return nil
}

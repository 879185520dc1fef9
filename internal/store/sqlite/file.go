package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
)

// locate returns the absolute path of the database with every link resolved,
// so that one database has one lock whatever it is called. The file need not
// exist, its folder must.
func locate(path string) (string, error) {
	if path == "" {
		return "", errors.New("no path: name the database file")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("resolve the path: %w", err)
	}
	whole, err := filepath.EvalSymlinks(path)
	if err == nil {
		return whole, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("resolve the path: %w", err)
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return "", fmt.Errorf("the folder of the database: %w", err)
	}
	return filepath.Join(folder, filepath.Base(path)), nil
}

// create makes the database file, empty and for its owner alone, unless it is
// there. SQLite gives its -wal and -shm files the same mode. An existing file
// is not touched: opening and closing it would drop the locks that SQLite
// connections of this process may hold on it.
func create(file string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("create the database: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("create the database: %w", err)
	}
	return nil
}

// identifyFile returns what tells the database from any other file of its name. It
// refuses one of several names: SQLite finds the WAL beside the name, so that
// whoever opens the other one, a second daemon too, would ruin the database.
func identifyFile(file string) (fs.FileInfo, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("look at the database: %w", err)
	}
	if n := names(info); n > 1 && info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s has %d names (hard links), and SQLite needs a file that has one: make a copy in place of the link", file, n)
	}
	return info, nil
}

// stillThere fails unless the file of this name is the one that was opened. One
// that was removed or replaced takes writes as before, and loses them all when
// the process ends.
func stillThere(file string, opened fs.FileInfo) error {
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("the database is gone: %w", err)
	}
	if !os.SameFile(opened, info) {
		return fmt.Errorf("the database was replaced by another file, %s: start the daemon anew to go on with that", file)
	}
	return nil
}

// readableByOthers reports whether the file's mode lets in more than its owner.
func readableByOthers(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().Perm()&0o077 != 0
}

// dsn names the database to the driver. Mode is SQLite's: rw, or ro. The
// pragmas run in order on every new connection.
func dsn(file, mode string, pragmas ...string) string {
	query := url.Values{"mode": {mode}, "_dqs": {"0"}, "_defensive": {"1"}, "_error_rc": {"1"}, "_pragma": pragmas}
	return "file:" + (&url.URL{Path: file}).EscapedPath() + "?" + query.Encode()
}

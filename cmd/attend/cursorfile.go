package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// maxCursorBytes is more than any cursor has.
const maxCursorBytes = 1024

// loadCursor reads a cursor file; one that does not exist is "".
func loadCursor(path string) (string, error) {
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("cursor file: %w", err)
	}
	cursor := strings.TrimSpace(string(b))
	if cursor == "" || len(cursor) > maxCursorBytes || strings.ContainsAny(cursor, " \t\r\n") {
		return "", fmt.Errorf("cursor file %s holds no cursor: delete it to begin at --from", path)
	}
	return cursor, nil
}

// saveCursor replaces a cursor file in one step: a crash leaves the old cursor
// or the new one, whole.
func saveCursor(path, cursor string) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return fmt.Errorf("cursor file: %w", err)
	}
	defer os.Remove(f.Name()) // nothing to remove once it has its name
	_, err = f.WriteString(cursor + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("cursor file: %w", err)
	}
	return nil
}

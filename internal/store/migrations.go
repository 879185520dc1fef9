package store

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Migration brings the tables of a store in SQL from the version of their
// schema before to its own.
type Migration struct {
	Version int
	Name    string // of its file
	Script  string
}

// Migrations reads the numbered scripts of a folder. Numbers start at 1 and
// have no gaps; a script that was released is never changed.
func Migrations(files fs.FS, folder string) ([]Migration, error) {
	names, err := fs.Glob(files, path.Join(folder, "*.sql"))
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	out := make([]Migration, len(names))
	for i, name := range names { // Glob sorts
		number, _, _ := strings.Cut(path.Base(name), "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != i+1 {
			return nil, fmt.Errorf("migration %s: want number %04d", name, i+1)
		}
		script, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("read migration: %w", err)
		}
		out[i] = Migration{Version: version, Name: path.Base(name), Script: string(script)}
	}
	return out, nil
}

package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFileBytes bounds what is read from one file.
const maxFileBytes = 4 << 20

// readFile reads a file whole. The error says what to mend. A pipe is read at the
// start alone: again it may have nothing to say, and would be waited for without
// an end.
func readFile(path string, again bool) ([]byte, error) {
	if again {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("cannot be read: %w", withoutPath(err))
		}
		if !info.Mode().IsRegular() {
			return nil, errors.New("is no regular file, and cannot be read again while the daemon runs: put a file there, or start the daemon again")
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", withoutPath(err))
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", withoutPath(err))
	}
	if len(b) > maxFileBytes {
		return nil, fmt.Errorf("is larger than %d bytes, the most that is read", maxFileBytes)
	}
	return b, nil
}

// withoutPath leaves out the path, which stands before the message already.
func withoutPath(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// parse reads a document by the extension of its source: YAML for .yaml and
// .yml, else JSON. Both come back as the same tree, in which every node knows
// its line and column. It returns nil for an empty YAML document and when
// there are mistakes.
func parse(source string, b []byte) (*yaml.Node, Mistakes) {
	b = bytes.TrimPrefix(b, []byte("\ufeff")) // editors on Windows write one
	switch strings.ToLower(filepath.Ext(source)) {
	case ".yaml", ".yml":
		return parseYAML(source, b)
	default:
		return parseJSON(source, b)
	}
}

package replay

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxLine bounds a line of a file: an event at its cap, escaped in the worst
// way, with room to spare.
const maxLine = 16 << 20

// eachLine hands out the lines that are not blank, with their numbers; an
// error names the place.
func eachLine(name string, r io.Reader, do func(n int, line []byte) error) error {
	scan := bufio.NewScanner(r)
	scan.Buffer(make([]byte, 64<<10), maxLine)
	n := 0
	for scan.Scan() {
		n++
		line := scan.Bytes()
		if n == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff")) // a byte order mark, as ingest takes it
		}
		if blank(line) {
			continue
		}
		if err := do(n, line); err != nil {
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
	}
	switch err := scan.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("%s:%d: the line has more than %d bytes", name, n+1, maxLine)
	case err != nil:
		return fmt.Errorf("%s:%d: %w", name, n+1, err)
	}
	return nil
}

func blank(line []byte) bool {
	for _, c := range line {
		if c != ' ' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}

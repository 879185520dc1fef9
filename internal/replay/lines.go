package replay

import (
	"bufio"
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
		if blank(line) {
			continue
		}
		if err := do(n, line); err != nil {
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
	}
	if err := scan.Err(); err != nil {
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

package bridge

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// errTooLong is a line that has more bytes than a message may have.
var errTooLong = errors.New("line too long")

// lineReader reads lines of bounded length.
type lineReader struct {
	from *bufio.Reader
	most int
}

func newLineReader(from io.Reader, most int) *lineReader {
	return &lineReader{bufio.NewReaderSize(from, 64<<10), most}
}

// next returns a line without what ends it and without space around it; a last
// line that nothing ends counts. The slice is the caller's. A line that is too
// long is passed over, and errTooLong returned. At the end it returns io.EOF.
func (l *lineReader) next() ([]byte, error) {
	var line []byte
	tooLong := false
	for {
		part, err := l.from.ReadSlice('\n')
		if tooLong = tooLong || len(line)+len(part) > l.most; !tooLong {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case tooLong && (err == nil || errors.Is(err, io.EOF)):
			return nil, errTooLong
		case err == nil, errors.Is(err, io.EOF) && len(bytes.TrimSpace(line)) > 0:
			return bytes.TrimSpace(line), nil
		default:
			return nil, err
		}
	}
}

// lineWriter writes messages as lines, each whole.
type lineWriter struct {
	failed chan error // gets the first failure of a write

	mu   sync.Mutex
	to   io.Writer
	line bytes.Buffer
}

func newLineWriter(to io.Writer) *lineWriter {
	return &lineWriter{to: to, failed: make(chan error, 1)}
}

// write writes one message, without the space between its tokens: in it there
// may be newlines. An error means that it is not JSON and was not written; that
// nothing can be written is told by failed.
func (l *lineWriter) write(msg []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line.Reset()
	if err := json.Compact(&l.line, msg); err != nil {
		return fmt.Errorf("write a message: %w", err)
	}
	l.line.WriteByte('\n')
	if _, err := l.to.Write(l.line.Bytes()); err != nil {
		select {
		case l.failed <- fmt.Errorf("write to the host: %w", err):
		default: // an earlier one has been told
		}
	}
	return nil
}

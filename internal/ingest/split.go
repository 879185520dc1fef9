package ingest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// byteOrderMark is what some tools put before UTF-8.
const byteOrderMark = "\xef\xbb\xbf"

// piece is one line of a body, or one element of an array.
type piece struct {
	number int    // from 1; blank lines are counted too
	bytes  []byte // good until the next piece
	fault  *fault // what is already known to be wrong: then bytes may be cut or missing
}

// splitter cuts a body into pieces without ever holding more than one.
type splitter interface {
	// next returns the next piece that is not blank. io.EOF means that the body
	// ended well; any other error is the reader's own.
	next() (piece, error)
}

// lines splits a body at newlines. A last line without one counts when the
// body ended well. Where it ended badly what remains may be half a line, even
// if it happens to be a whole object: it is refused with the code of the cut.
type lines struct {
	r      *bufio.Reader
	max    int    // bytes of the longest line
	long   []byte // holds a line that is longer than the reader's buffer
	number int
	err    error              // the body's end, once it is known
	tail   func(error) *fault // says what a bad end does to the last line
}

func (l *lines) next() (piece, error) {
	for {
		if l.err != nil {
			return piece{}, l.err
		}
		line, over, err := l.read()
		l.number++
		if l.number == 1 {
			line = bytes.TrimPrefix(line, []byte(byteOrderMark))
		}
		l.err = err
		p := piece{number: l.number, bytes: line}
		switch {
		case over > 0:
			p.bytes, p.fault = nil, tooLarge(over, int64(l.max))
			return p, nil
		case allBlank(line):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			p.fault = l.tail(err)
		}
		return p, nil
	}
}

// read returns the next line without its newline, or what remains together
// with the error that ended it. Of a line that is too long only the length is
// returned.
func (l *lines) read() (line []byte, over int, err error) {
	line, err = l.r.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return l.trim(line, err)
	}
	l.long = l.long[:0]
	total := 0
	for {
		total += len(line)
		if total <= l.max+len("\r\n") {
			l.long = append(l.long, line...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			break
		}
		line, err = l.r.ReadSlice('\n')
	}
	if total > l.max+len("\r\n") {
		return nil, total, err
	}
	return l.trim(l.long, err)
}

func (l *lines) trim(line []byte, err error) ([]byte, int, error) {
	if err == nil {
		line = line[:len(line)-1]
	}
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) > l.max {
		return nil, len(line), err
	}
	return line, 0, err
}

func allBlank(b []byte) bool {
	for _, c := range b {
		if !blank(c) {
			return false
		}
	}
	return true
}

func tooLarge(size int, limit int64) *fault {
	return &fault{code: CodeTooLarge, text: fmt.Sprintf("%d bytes: an event has at most %d (maxEventBytes)", size, limit)}
}

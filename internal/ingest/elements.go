package ingest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// elements splits a JSON body: one value, or an array of them, which are
// numbered from 1. It follows strings and brackets alone, to know where an
// element ends; whether the element is JSON the decoder says. When it is not,
// the places of the next elements are not certain either, and text inside one
// could pass for an event: the caller must stop there.
type elements struct {
	r      *bufio.Reader
	max    int    // bytes of the largest element
	buf    []byte // the element
	number int
	within place
	err    error              // set when nothing more is to be read
	tail   func(error) *fault // says what a bad end does to the last element
}

// place says what may come next.
type place uint8

const (
	atStart  place = iota
	atFirst        // after the array's opening bracket
	atComma        // after an element
	atClosed       // after the whole value
)

func (e *elements) next() (piece, error) {
	if e.err != nil {
		return piece{}, e.err
	}
	c, err := e.skipBlank()
	if e.within == atStart && err == nil && c == byteOrderMark[0] && e.sees(byteOrderMark) {
		_, _ = e.r.Discard(len(byteOrderMark))
		c, err = e.skipBlank()
	}
	if err != nil {
		return e.ended(err)
	}
	switch e.within {
	case atStart:
		if c != '[' {
			return e.only(), nil
		}
		e.take()
		e.within = atFirst
		return e.next()
	case atFirst:
		if c != ']' {
			return e.element(), nil
		}
	case atComma:
		if c == ',' {
			e.take()
			if _, err = e.skipBlank(); err != nil {
				return e.ended(err)
			}
			return e.element(), nil
		}
		if c != ']' {
			return e.broken(CodeSyntax, "a comma or ] is expected after the element: nothing from here on was read"), nil
		}
	case atClosed:
		return e.broken(CodeTwoValues, "something follows the array: nothing from here on was read; lines of objects are sent as application/x-ndjson"), nil
	}
	e.take() // the closing bracket
	e.within = atClosed
	return e.next()
}

// ended reports the body's end, well or badly, where no element has begun.
func (e *elements) ended(err error) (piece, error) {
	e.err = err
	if !errors.Is(err, io.EOF) || e.within == atStart || e.within == atClosed {
		return piece{}, err
	}
	return e.broken(CodeIncomplete, "the array is not closed: the body is not whole"), nil
}

// broken gives a fault in the place of the next element, and ends the body.
func (e *elements) broken(code Code, text string) piece {
	e.err = io.EOF
	e.number++
	return piece{number: e.number, fault: &fault{code: code, text: text, framing: true}}
}

// only reads a body that is one value. It counts when nothing follows it,
// since only then is it what the sender meant.
func (e *elements) only() piece {
	p := e.element()
	if e.err != nil {
		return p
	}
	switch _, e.err = e.skipBlank(); {
	case e.err == nil:
		e.err = io.EOF
		p.fault = &fault{code: CodeTwoValues, framing: true, text: "something follows the value: send lines of objects as application/x-ndjson, or one array"}
	case !errors.Is(e.err, io.EOF):
		p.fault = e.tail(e.err)
	}
	return p
}

// element reads one value, up to where it must end.
func (e *elements) element() piece {
	e.number++
	e.within = atComma
	e.buf = e.buf[:0]
	var f framer
	size := 0
	for {
		chunk, err := e.peek()
		n, done := f.scan(chunk)
		size += n
		if size <= e.max {
			e.buf = append(e.buf, chunk[:n]...)
		}
		_, _ = e.r.Discard(n)
		e.err = err
		if err == nil && !done {
			continue
		}
		p := piece{number: e.number, bytes: e.buf}
		switch {
		case size > e.max:
			p.bytes, p.fault = nil, tooLarge(size, int64(e.max))
		case err != nil && !errors.Is(err, io.EOF):
			p.fault = e.tail(err)
		}
		return p
	}
}

// peek returns what is buffered, at least one byte, and waits for it.
func (e *elements) peek() ([]byte, error) {
	if _, err := e.r.Peek(1); err != nil {
		return nil, err
	}
	return e.r.Peek(e.r.Buffered())
}

func (e *elements) take() { _, _ = e.r.Discard(1) }

func (e *elements) sees(prefix string) bool {
	b, _ := e.r.Peek(len(prefix))
	return bytes.Equal(b, []byte(prefix))
}

// skipBlank passes over space and returns the byte that follows, unread.
func (e *elements) skipBlank() (byte, error) {
	for {
		chunk, err := e.peek()
		if err != nil {
			return 0, err
		}
		for i, c := range chunk {
			if !blank(c) {
				_, _ = e.r.Discard(i)
				return c, nil
			}
		}
		_, _ = e.r.Discard(len(chunk))
	}
}

// framer finds where a JSON value ends, by its strings and brackets.
type framer struct {
	begun, quoted, escaped bool
	depth                  int
}

// scan takes bytes up to the value's end and returns how many, and whether
// the end was among them.
func (f *framer) scan(b []byte) (n int, done bool) {
	for i, c := range b {
		switch {
		case f.quoted:
			switch {
			case f.escaped:
				f.escaped = false
			case c == '\\':
				f.escaped = true
			case c == '"':
				f.quoted = false
				if f.depth == 0 {
					return i + 1, true
				}
			}
		case f.depth == 0 && f.begun && (blank(c) || c == ',' || c == ']' || c == '}'):
			return i, true // a number or a word ends where something else begins
		case c == '"':
			f.quoted = true
		case c == '{' || c == '[':
			f.depth++
		case c == '}' || c == ']':
			f.depth--
			if f.depth <= 0 {
				return i + 1, true
			}
		}
		f.begun = true
	}
	return len(b), false
}

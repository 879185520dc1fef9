package bridge

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
)

// events reads messages out of a body of server-sent events, up to a size each.
// Comments, and events that are not messages, are passed over. An end of the
// body in the middle of an event is an error, one between events is not.
func events(body io.Reader, most int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		from := bufio.NewReaderSize(body, 64<<10)
		for {
			data, err := nextEvent(from, most)
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(data, err) || err != nil {
				return
			}
		}
	}
}

// nextEvent returns the data of the next message.
func nextEvent(from *bufio.Reader, most int) ([]byte, error) {
	var data []byte
	var kind string
	size, empty := 0, true
	for {
		line, err := readLine(from, most-size)
		if err != nil {
			if errors.Is(err, io.EOF) && (!empty || len(line) > 0) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		size += len(line)
		if len(line) == 0 {
			if len(data) > 0 && (kind == "" || kind == "message") {
				return data, nil
			}
			data, kind, size, empty = nil, "", 0, true
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "data":
			if data != nil {
				data = append(data, '\n')
			}
			data, empty = append(data, value...), false
		case "event":
			kind, empty = string(value), false
		}
	}
}

// readLine returns a line without its end.
func readLine(from *bufio.Reader, most int) ([]byte, error) {
	var line []byte
	for {
		part, err := from.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > most {
			return nil, errAnswerTooLong
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return bytes.TrimRight(line, "\r\n"), err
	}
}

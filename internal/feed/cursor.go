// Package feed reads decisions and dead letters out of the log for whoever
// takes them from there: HTTP pages and streams, MCP polls, the attend_wait
// tool. It has the cursors, the filters, pages, waiting, and the consumers
// whose positions the daemon keeps.
//
// A reader holds nothing: it is a position in the log and a filter. So any
// number of readers costs no more than their own lag, and a cursor survives
// restarts.
package feed

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"attend/internal/engine"
	"attend/internal/store"
)

// ErrMalformed reports a cursor or ack token that this log cannot have given
// out: mistyped, cut, made up, or written by a newer binary.
var ErrMalformed = errors.New("malformed")

// Cursor is a place in one log: everything up to Position has been read.
// Cursors are shared across modes, filters and interfaces of one daemon.
type Cursor struct {
	Epoch    string          // of the log; positions of another epoch mean nothing
	Position engine.Position // the last position read; 0 is before everything
}

// Encode writes the cursor as an opaque string of URL-safe characters. Each
// cursor has exactly one spelling.
func (c Cursor) Encode() string {
	return token{what: whatCursor, epoch: c.Epoch, position: c.Position}.encode()
}

// DecodeCursor reads what Encode wrote. Anything else is ErrMalformed.
func DecodeCursor(s string) (Cursor, error) {
	t, err := decodeToken(s, whatCursor)
	if err != nil {
		return Cursor{}, fmt.Errorf("cursor: %w", err)
	}
	return Cursor{Epoch: t.epoch, Position: t.position}, nil
}

// From places the cursor in a log that ends at head. A cursor of another
// epoch, or ahead of the head (the log was restored from a backup), is stale:
// reading goes on at the head, and the reader is told that it was truncated.
func (c Cursor) From(head store.Head) (after engine.Position, stale bool) {
	if c.Epoch != head.Epoch || c.Position > head.Position {
		return head.Position, true
	}
	return c.Position, false
}

// FieldCursor is a place in the change log of a Field, and what its reader was
// given last. A Field has an order of its own: its cursors and those of the log
// are never taken for one another.
type FieldCursor struct {
	Epoch    string  // of the log; numbers of another epoch mean nothing
	Number   int64   // the last change that was looked at; 0 is before all
	Identity [8]byte // of the result that was given last
}

// Encode writes the cursor as an opaque string of URL-safe characters. Each
// cursor has exactly one spelling.
func (c FieldCursor) Encode() string {
	return token{what: whatField, epoch: c.Epoch, position: engine.Position(c.Number), identity: c.Identity}.encode()
}

// DecodeFieldCursor reads what Encode wrote. Anything else is ErrMalformed.
func DecodeFieldCursor(s string) (FieldCursor, error) {
	t, err := decodeToken(s, whatField)
	if err != nil {
		return FieldCursor{}, fmt.Errorf("cursor: %w", err)
	}
	return FieldCursor{Epoch: t.epoch, Number: int64(t.position), Identity: t.identity}, nil
}

// What a token stands for, so that one kind is never taken for another.
const (
	whatCursor byte = 1
	whatAck    byte = 2
	whatField  byte = 3
)

// whatName says in words what a token stands for.
func whatName(what byte) string {
	switch what {
	case whatCursor:
		return "a cursor of the log"
	case whatAck:
		return "an ack"
	case whatField:
		return "a cursor of a Field"
	default:
		return fmt.Sprintf("a token of kind %d", what)
	}
}

const (
	tokenVersion = 1
	maxEpoch     = 255
	// version, what, length of the epoch; position; mark; check sum.
	tokenFixed = 3 + 8 + 4 + 4
	// of a cursor of a Field, before the check sum.
	identitySize = 8
)

// token is the common shape of cursors and ack tokens:
// version, what, epoch, position, mark, identity (of a Field alone), check sum.
type token struct {
	what     byte
	epoch    string          // at most 255 bytes
	position engine.Position // of a Field: the number of a change
	mark     uint32          // of an ack: its consumer
	identity [identitySize]byte
}

// size is how long a token is, besides its epoch.
func size(what byte) int {
	if what == whatField {
		return tokenFixed + identitySize
	}
	return tokenFixed
}

func (t token) encode() string {
	epoch := t.epoch[:min(len(t.epoch), maxEpoch)]
	b := make([]byte, 0, size(t.what)+len(epoch))
	b = append(b, tokenVersion, t.what, byte(len(epoch))) //nolint:gosec // cut to 255 above
	b = append(b, epoch...)
	b = binary.BigEndian.AppendUint64(b, uint64(t.position)) //nolint:gosec // never negative
	b = binary.BigEndian.AppendUint32(b, t.mark)
	if t.what == whatField {
		b = append(b, t.identity[:]...)
	}
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return base64.RawURLEncoding.EncodeToString(b)
}

func decodeToken(s string, what byte) (token, error) {
	body, err := unseal(s)
	if err != nil {
		return token{}, err
	}
	if body[0] != tokenVersion {
		return token{}, fmt.Errorf("%w: it has version %d, and this binary reads version %d", ErrMalformed, body[0], tokenVersion)
	}
	if body[1] != what {
		return token{}, fmt.Errorf("%w: it is %s, and %s is wanted here", ErrMalformed, whatName(body[1]), whatName(what))
	}
	epochLen := int(body[2])
	if len(body) != size(what)-4+epochLen {
		return token{}, fmt.Errorf("%w: its length is wrong", ErrMalformed)
	}
	rest := body[3+epochLen:]
	position := binary.BigEndian.Uint64(rest)
	if position > 1<<63-1 {
		return token{}, fmt.Errorf("%w: its position is out of range", ErrMalformed)
	}
	mark := binary.BigEndian.Uint32(rest[8:])
	if what != whatAck && mark != 0 {
		return token{}, fmt.Errorf("%w: it carries what a cursor does not", ErrMalformed)
	}
	t := token{what: what, epoch: string(body[3 : 3+epochLen]), position: engine.Position(position), mark: mark}
	copy(t.identity[:], rest[12:])
	return t, nil
}

// unseal decodes a token that is whole, and returns what stands before its
// check sum.
func unseal(s string) ([]byte, error) {
	if s == "" {
		return nil, fmt.Errorf("%w: it is empty; leave it out to start from now", ErrMalformed)
	}
	if len(s) > base64.RawURLEncoding.EncodedLen(tokenFixed+identitySize+maxEpoch) {
		return nil, fmt.Errorf("%w: %d characters are too many; send back the string as it was given out", ErrMalformed, len(s))
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || bytes.ContainsAny([]byte(s), "\r\n") { // the decoder skips line ends
		return nil, fmt.Errorf("%w: it is not base64url; send back the string as it was given out", ErrMalformed)
	}
	if len(b) < tokenFixed {
		return nil, fmt.Errorf("%w: it is too short; send back the whole string", ErrMalformed)
	}
	body, sum := b[:len(b)-4], binary.BigEndian.Uint32(b[len(b)-4:])
	if crc32.ChecksumIEEE(body) != sum {
		return nil, fmt.Errorf("%w: its check sum is wrong; send back the string as it was given out", ErrMalformed)
	}
	return body, nil
}

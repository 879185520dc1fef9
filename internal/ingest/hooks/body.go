package hooks

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"attend/internal/problem"
)

// What all requests together may take before anything is known of their
// senders, and how long one of them may.
const (
	maxRequests  = 64
	maxHeldBytes = 64 << 20
	bodyTimeout  = 30 * time.Second
	firstChunk   = 16 << 10
)

// room is what is left for the bodies that are being read.
type room struct {
	mu     sync.Mutex
	left   int64
	places int
}

func (r *room) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.places == 0 {
		return false
	}
	r.places--
	return true
}

func (r *room) leave(held int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.places++
	r.left += held
}

func (r *room) take(n int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n > r.left {
		return false
	}
	r.left -= n
	return true
}

// body is one that is being read, and what it holds of the room.
type body struct {
	room  *room
	held  int64
	bytes []byte
}

// read reads a body whole. It takes room as bytes come, not as they are
// promised.
func (b *body) read(req *http.Request, most int64) error {
	if req.ContentLength > most {
		return errTooLarge
	}
	for {
		if len(b.bytes) == cap(b.bytes) {
			grow := max(firstChunk, int64(cap(b.bytes)))
			if !b.room.take(grow) {
				return errNoRoom
			}
			b.held += grow
			b.bytes = append(make([]byte, 0, b.held), b.bytes...)
		}
		n, err := req.Body.Read(b.bytes[len(b.bytes):cap(b.bytes)])
		b.bytes = b.bytes[:len(b.bytes)+n]
		switch {
		case int64(len(b.bytes)) > most:
			return errTooLarge
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// Why a body was not read whole, but for the connection's own errors.
var (
	errTooLarge = errors.New("the body is too large")
	errNoRoom   = errors.New("there is no room for the body")
)

// refusal is an answer to a request of which nothing was taken.
type refusal struct {
	problem.Problem
	what  result
	after time.Duration // when to send it again; 0 for never
}

func refuse(status int, code, detail string, what result) *refusal {
	return &refusal{Problem: problem.New(status, code, detail), what: what}
}

// later refuses what may pass later.
func later(status int, code, detail string, what result, after time.Duration) *refusal {
	return &refusal{Problem: problem.New(status, code, detail), what: what, after: after}
}

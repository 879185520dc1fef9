package hooks

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"

	"attend/internal/problem"
)

// How bodies are read.
const (
	firstChunk  = 4 << 10
	smallBody   = 1 << 20
	bodyTimeout = 30 * time.Second
	patience    = 3 * time.Second // for room; GitHub waits ten seconds for an answer, and sends nothing twice

	// A body of which it is not known who sends it must come at a rate.
	grace     = 5 * time.Second
	leastRate = 128 << 10 // bytes in a second, once the grace is over
)

// What may be held of bodies at once, in all and for one hook. Anybody may send
// bodies to hooks whose senders sign, so they have a room of their own: who fills
// it keeps out neither the senders that bear a token nor all of another hook's.
const (
	openSmall, openSmallShare   = 24 << 20, 16 << 20
	openLarge, openLargeShare   = 48 << 20, maxGitHubForm
	knownSmall, knownSmallShare = 8 << 20, 6 << 20
	knownLarge, knownLargeShare = 24 << 20, 18 << 20

	// maxParsed is how much is parsed at once, which takes many times its size. A
	// larger body is parsed while no other is.
	maxParsed = 8 << 20
	minParsed = 16 << 10 // that one body counts as
)

// room is what may be held of bodies. What is beyond the first MiB of a body is
// held elsewhere, so that large bodies never keep small ones out.
type room struct{ small, large *semaphore.Weighted }

func newRoom(small, large int64) room {
	return room{semaphore.NewWeighted(small), semaphore.NewWeighted(large)}
}

// wait takes so much of a semaphore, and waits a while for it.
func wait(ctx context.Context, s *semaphore.Weighted, n int64) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if s.Acquire(ctx, n) != nil {
		return errNoRoom
	}
	return nil
}

// body is one that is being read, and what it holds of the rooms.
type body struct {
	rooms []room // its hook's own share, and that of all
	taken []taken
	bytes []byte
	// deadline sets until when the next bytes must come; nil: somebody else does.
	deadline func(time.Time)
}

// taken is what is held of a semaphore.
type taken struct {
	of *semaphore.Weighted
	n  int64
}

// take takes room, of the hook's own share first.
func (b *body) take(ctx context.Context, n int64, of func(room) *semaphore.Weighted) error {
	if n == 0 {
		return nil // it must not wait behind those that want more
	}
	for _, room := range b.rooms {
		t := taken{of(room), n}
		if err := wait(ctx, t.of, n); err != nil {
			return err
		}
		b.taken = append(b.taken, t)
	}
	return nil
}

// grow takes room for a body that grows from one size to another, and may be as
// large as whole. What is beyond the first MiB is taken at once: two that had half
// of it each would wait for one another.
func (b *body) grow(ctx context.Context, from, to, whole int64) error {
	err := b.take(ctx, min(to, smallBody)-min(from, smallBody), func(r room) *semaphore.Weighted { return r.small })
	if err == nil && from <= smallBody && to > smallBody {
		err = b.take(ctx, whole-smallBody, func(r room) *semaphore.Weighted { return r.large })
	}
	return err
}

// leave gives back what is held.
func (b *body) leave() {
	for _, t := range b.taken {
		t.of.Release(t.n)
	}
}

// read reads a body whole. It takes room, up to the first MiB, as bytes come, not
// as they are promised.
func (b *body) read(req *http.Request, most int64) error {
	if req.ContentLength > most {
		return errTooLarge
	}
	whole := most + 1 // one more shows that it ends
	if req.ContentLength >= 0 {
		whole = req.ContentLength + 1
	}
	start := time.Now()
	for {
		if held := int64(cap(b.bytes)); int64(len(b.bytes)) == held {
			if held == whole {
				return errTooLarge
			}
			size := min(whole, max(firstChunk, 2*held))
			before := time.Now()
			if err := b.grow(req.Context(), held, size, whole); err != nil {
				return err
			}
			start = start.Add(time.Since(before)) // that there was no room is not the sender's doing
			b.bytes = append(make([]byte, 0, size), b.bytes...)
		}
		if b.deadline != nil {
			b.deadline(due(start, len(b.bytes)))
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

// due is until when more must have come of a body, of which so many bytes are
// there.
func due(start time.Time, bytes int) time.Time {
	return start.Add(min(bodyTimeout, grace+time.Duration(bytes)*time.Second/leastRate))
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
	why   error         // what the operator may know, and the sender may not
}

func refuse(status int, code, detail string, what result) *refusal {
	return &refusal{Problem: problem.New(status, code, detail), what: what}
}

// later refuses what may pass later.
func later(status int, code, detail string, what result, after time.Duration) *refusal {
	return &refusal{Problem: problem.New(status, code, detail), what: what, after: after}
}

package ingest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// readBuffer is the size of the buffer that lines are cut from.
const readBuffer = 64 << 10

// session reads one body.
//
// Its goroutine holds mu except while it waits for bytes. What waits longer
// than a moment is committed by a timer in that time, so lines are never taken
// in and committed at once.
type session struct {
	h       *Handler
	control *http.ResponseController
	body    io.Reader
	form    bodyForm
	endless bool // the body has no known length
	idle    time.Duration
	stopped atomic.Bool // the daemon stops

	commit   func()               // commits the group and tells the client of it
	progress func(progress) error // nil when the answer does not stream

	mu      sync.Mutex
	in      *intake
	waiting bool        // for bytes: mu is free
	timer   *time.Timer // commits a group that waits; nil until one does
	ended   bool        // the body was read to its end
	wire    error       // why the last bytes did not come, if not for that
	deaf    error       // why the client could not be told of a commit
}

// Reasons to stop reading that are neither the body's nor the connection's.
var (
	errOver     = errors.New("what was read could not be committed or told")
	errStopping = errors.New("the daemon is stopping")
)

// run takes the whole body in, and returns why it ended: nil for its end.
func (s *session) run(ctx context.Context, r *bufio.Reader, maxBytes int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commit = func() { s.commitGroup(ctx) }
	defer func() {
		if s.timer != nil {
			s.timer.Stop()
		}
	}()
	err := s.takeAll(s.split(r, maxBytes))
	if s.over() {
		return errOver
	}
	s.commit()
	if s.over() {
		return errOver
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (s *session) split(r *bufio.Reader, maxBytes int) splitter {
	var source io.Reader = s
	if s.form.coding != "" {
		source = newExpander(s, s.form.coding, &s.h.limits)
	}
	r.Reset(source)
	if s.form.json {
		return &elements{r: r, max: maxBytes, tail: s.tail}
	}
	return &lines{r: r, max: maxBytes, tail: s.tail}
}

// takeAll takes pieces in until there are no more, or no more may be taken.
func (s *session) takeAll(body splitter) error {
	for {
		p, err := body.next()
		if s.over() {
			return errOver
		}
		if err != nil {
			return err
		}
		f := s.in.piece(p)
		if s.in.full() {
			s.commit()
		}
		if f != nil && f.framing && s.form.json {
			return nil // where the next element begins is not certain
		}
	}
}

// over reports whether reading on is in vain.
func (s *session) over() bool { return s.in.failed != nil || s.deaf != nil }

// commitGroup commits what was taken in, and tells the client.
func (s *session) commitGroup(ctx context.Context) {
	if s.in.group.lines == 0 {
		return
	}
	told := s.in.group.progress()
	s.in.commit(ctx)
	if s.in.failed == nil && s.progress != nil && told.lines > 0 {
		s.deaf = s.progress(told)
	}
}

// Read implements io.Reader over the request's body. Before it waits, it sees
// to it that what was taken in does not wait with it.
func (s *session) Read(p []byte) (int, error) {
	if s.in.group.lines > 0 {
		if wait := s.h.limits.GroupWait - time.Since(s.in.group.since); wait > 0 {
			s.arm(wait)
		} else {
			s.commit()
		}
	}
	if s.over() {
		return 0, errOver
	}
	// An error means that there is no connection to set a deadline on.
	_ = s.control.SetReadDeadline(time.Now().Add(s.idle))
	if s.stopped.Load() { // set before its deadline, which was overwritten just now
		s.wire = errStopping
		return 0, errStopping
	}
	n, err := s.wait(p)
	switch {
	case s.over():
		return 0, errOver
	case err == nil:
	case errors.Is(err, io.EOF):
		s.ended = true
	case s.stopped.Load() && errors.Is(err, os.ErrDeadlineExceeded):
		err, s.wire = errStopping, errStopping
	default:
		s.wire = err
	}
	return n, err
}

// wait reads while others may commit.
func (s *session) wait(p []byte) (int, error) {
	s.waiting = true
	s.mu.Unlock()
	n, err := s.body.Read(p)
	s.mu.Lock()
	s.waiting = false
	if s.timer != nil {
		s.timer.Stop()
	}
	return n, err
}

func (s *session) arm(wait time.Duration) {
	if s.timer == nil {
		s.timer = time.AfterFunc(wait, s.tick)
		return
	}
	s.timer.Reset(wait)
}

// tick commits the group that has waited. If bytes have come in the meantime,
// they are looked at first.
func (s *session) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.waiting {
		return
	}
	s.commit()
	if s.over() {
		s.interrupt()
	}
}

// interrupt ends a Read that waits for bytes.
func (s *session) interrupt() {
	_ = s.control.SetReadDeadline(time.Unix(1, 0))
}

// tail says what the end of the body does to a line that it cut.
func (s *session) tail(err error) *fault {
	if s.wire == nil && s.form.coding != "" { // the connection is whole, what came over it is not
		return &fault{code: CodeBadEncoding, text: "the line is not whole: " + err.Error()}
	}
	return &fault{code: CodeBodyCut, text: "the line is not whole, since the body ended too early: send it again"}
}

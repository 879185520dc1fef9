package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"attend/internal/access"
	"attend/internal/engine"
	"attend/internal/feed"
)

// Times and sizes of a stream.
const (
	streamPage      = 100              // items read from the log at once
	streamKeepalive = 15 * time.Second // without anything to send
	streamPatience  = 10 * time.Second // for a reader to take a piece
	streamPiece     = 16 << 10
)

// Why a stream ends, as its last event says.
const (
	endStopping    = "stopping"    // the daemon stops: connect again in a while
	endUnavailable = "unavailable" // the store does not answer: the same
	endRevoked     = "revoked"     // the token has expired or was taken away
)

// streamDecisions answers GET /v1/decisions/stream with server-sent events:
// decision and deadLetter as they are made, truncated where something is
// missing, end as the last one. The id of each is the cursor behind it.
//
// A stream is a place in the log and no queue. One whose reader does not take
// what is written is ended, so that it costs nobody else anything; it comes
// back with the last id that it got.
func (a *API) streamDecisions(w http.ResponseWriter, r *http.Request) error {
	q := parseQuery(r, "scope", "route", "kinds", "after")
	filter, name, after := q.filter(r.Context()), "after", q.one("after")
	if q.err != nil {
		return q.err
	}
	// A browser that connects again asks for the same address, and tells in this
	// header how far it came.
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		name, after = "Last-Event-ID", last
	}
	if after == "" {
		after = fromNow
	}
	head, err := a.Feed.Head(r.Context())
	if err != nil {
		return err
	}
	start, stale, err := place(name, after, head)
	if err != nil {
		return err
	}
	if r.Method == http.MethodHead {
		beginStream(w)
		return nil
	}
	caller := access.From(r.Context())
	leave, err := a.Streams.Enter(caller.Name)
	if limit := (*feed.LimitError)(nil); errors.As(err, &limit) {
		return refuse(http.StatusTooManyRequests, codeStreams, "%d streams are open, and that is the limit: close one, or ask again later", limit.Max)
	}
	if err != nil {
		return err
	}
	defer leave()
	beginStream(w)
	s := &stream{
		api: a, filter: filter, out: w, conn: http.NewResponseController(w),
		epoch: head.Epoch, place: start, whole: after == fromStart,
	}
	ctx, done := caller.Until(r.Context())
	defer done()
	a.endStream(r, s, s.run(ctx, stale))
	return nil
}

// endStream tells the reader why there will be no more, if anybody is there to
// hear it.
func (a *API) endStream(r *http.Request, s *stream, why error) {
	reason := endUnavailable
	switch {
	case errors.Is(why, feed.ErrStopping):
		reason = endStopping
	case errors.Is(why, os.ErrDeadlineExceeded):
		a.Logger.InfoContext(r.Context(), "a stream is ended: its reader does not read", "route", describeRoute(r))
		return
	case errors.Is(why, access.ErrRevoked):
		reason = endRevoked
	case errors.Is(why, errGone), r.Context().Err() != nil:
		return
	default:
		a.outage.Failed("", why)
	}
	_ = s.write(s.frame("end", `{"reason":"`+reason+`","cursor":"`+s.cursor()+`"}`)) // the caller may have gone
}

func beginStream(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // a proxy would hold events back
	w.WriteHeader(http.StatusOK)
}

// errGone ends a stream that cannot be written to.
var errGone = errors.New("the reader has gone")

// stream is one reader of the feed.
type stream struct {
	api    *API
	filter feed.Filter
	out    http.ResponseWriter
	conn   *http.ResponseController

	epoch string
	place engine.Position // everything up to here has been sent or does not match
	told  engine.Position // the place that the reader knows
	whole bool            // it asked for what is kept: that there was more before is not told
}

// revoked tells whether the rights of the stream's reader have ended.
func revoked(ctx context.Context) bool { return errors.Is(context.Cause(ctx), access.ErrRevoked) }

// run sends what the filter selects until the context ends, the reader does not
// read, the daemon stops or the store fails.
func (s *stream) run(ctx context.Context, stale bool) error {
	leave := s.api.tail.Follow()
	defer leave()
	if err := s.open(stale); err != nil {
		return err
	}
	for {
		if revoked(ctx) {
			return access.ErrRevoked // nothing after that, even if there is more at once
		}
		wait, cancel := context.WithTimeout(ctx, streamKeepalive)
		items, upTo, err := s.api.tail.Next(wait, s.place)
		quiet := wait.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case errors.Is(err, feed.ErrBehind):
			err = s.catchUp(ctx)
		case err == nil:
			err = s.sendShared(ctx, items, upTo)
		case quiet:
			s.place = upTo
			err = s.keepAlive()
		}
		if err != nil && !revoked(ctx) { // else the wait ended at the same instant
			return err
		}
		s.whole = false
	}
}

// open tells the reader where it begins, so that one that is cut off before
// the first event can come back and miss nothing.
func (s *stream) open(stale bool) error {
	if stale {
		return s.truncated()
	}
	return s.mark("attend")
}

// keepAlive shows both sides that the other is there, and moves the place to
// which the reader would come back.
func (s *stream) keepAlive() error {
	if s.told == s.place {
		return s.write([]byte(": keepalive\n\n"))
	}
	return s.mark("keepalive")
}

// mark sends the place without an event.
func (s *stream) mark(comment string) error {
	s.told = s.place
	return s.write([]byte(": " + comment + "\nid: " + s.cursor() + "\n\n"))
}

func (s *stream) truncated() error {
	s.told = s.place
	return s.write(s.frame("truncated", `{"cursor":"`+s.cursor()+`"}`))
}

// catchUp sends one page from the log.
func (s *stream) catchUp(ctx context.Context) error {
	page, err := s.api.Feed.Page(ctx, s.place, s.filter, streamPage, maxPageBytes)
	if err != nil {
		return err
	}
	if page.Truncated && !s.whole {
		s.place = page.Next
		if len(page.Items) > 0 { // what is missing stands before all of them
			s.place = page.Items[0].Position - 1
		}
		if err := s.truncated(); err != nil {
			return err
		}
	}
	for i := range page.Items {
		b, err := s.render(ctx, &page.Items[i])
		if err != nil {
			return err
		}
		if err := s.send(&page.Items[i], b); err != nil {
			return err
		}
	}
	s.place = page.Next
	return s.flush()
}

// sendShared sends what the filter selects of what all streams see.
func (s *stream) sendShared(ctx context.Context, items []*feed.TailItem, upTo engine.Position) error {
	for _, it := range items {
		if !s.filter.Match(&it.Item) {
			continue
		}
		b, err := it.Made(func() ([]byte, error) { return s.render(ctx, &it.Item) })
		if err != nil {
			return err
		}
		if err := s.send(&it.Item, b); err != nil {
			return err
		}
	}
	s.place = upTo
	return s.flush()
}

// render writes the event of an item: the same for every reader.
func (s *stream) render(ctx context.Context, it *feed.Item) ([]byte, error) {
	body, _, err := s.api.show(ctx, it)
	if err != nil {
		return nil, err
	}
	data, err := encode(body)
	if err != nil {
		return nil, err
	}
	kind := feed.KindDecision
	if it.DeadLetter != nil {
		kind = feed.KindDeadLetter
	}
	at := feed.Cursor{Epoch: s.epoch, Position: it.Position}.Encode()
	return fmt.Appendf(nil, "id: %s\nevent: %s\ndata: %s\n", at, kind, data), nil // encode ends the line
}

func (s *stream) frame(event, data string) []byte {
	return []byte("id: " + s.cursor() + "\nevent: " + event + "\ndata: " + data + "\n\n")
}

func (s *stream) cursor() string { return feed.Cursor{Epoch: s.epoch, Position: s.place}.Encode() }

// send writes an item and moves the place behind it.
func (s *stream) send(it *feed.Item, event []byte) error {
	s.place, s.told = it.Position, it.Position
	return s.put(event)
}

// write sends something at once.
func (s *stream) write(b []byte) error {
	if err := s.put(b); err != nil {
		return err
	}
	return s.flush()
}

// put writes in pieces, each of which the reader has some time to take: a slow
// line is no reason to end a stream, a reader that has stopped reading is.
func (s *stream) put(b []byte) error {
	for len(b) > 0 {
		piece := b[:min(len(b), streamPiece)]
		_ = s.conn.SetWriteDeadline(time.Now().Add(streamPatience)) // a writer that cannot is no connection
		if _, err := s.out.Write(piece); err != nil {
			return fmt.Errorf("%w: %w", errGone, err)
		}
		b = b[len(piece):]
	}
	return nil
}

func (s *stream) flush() error {
	_ = s.conn.SetWriteDeadline(time.Now().Add(streamPatience))
	if err := s.conn.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return nil
}

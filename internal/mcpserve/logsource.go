package mcpserve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"attend/internal/engine"
	"attend/internal/feed"
	"attend/internal/store"
)

// What one read of the log gives a stream that is behind.
const (
	catchUpEvents = 64
	catchUpBytes  = 64 << 10
)

// logSource reads the decisions or dead letters of the log. A stream that has
// caught up takes them from what all streams share; one that is slower than the
// feed falls behind, and is read the log from where it is.
type logSource struct {
	server    *Server
	name      string // of the event type
	filter    feed.Filter
	epoch     string
	at        engine.Position // everything up to here is given or does not match
	truncated bool            // it begins later than the cursor asked for
	leave     func()          // of a stream: ends its place in the tail

	// What wait has found.
	items  []*feed.TailItem
	upTo   engine.Position
	behind bool
}

// openLog finds where a subscription to the feed begins: at its cursor, at the
// oldest age that is wanted if that is later, or else now. A poll finds out by
// reading whether the records there are still kept; a stream is to say so
// before it reads.
func (s *Server) openLog(ctx context.Context, sub *subscription, kind feed.Kind) (source, *jsonrpc.Error) {
	filter, bad := sub.filter(kind)
	if bad != nil {
		return nil, invalidParams("/arguments"+bad.path, bad.reason)
	}
	if scope, found := hidden(filter.Scopes, sub.caller); found {
		return nil, notYours(scope, "read")
	}
	head, err := s.opts.Reader.Head(ctx)
	if err != nil {
		return nil, s.internal(ctx, sub.method, err)
	}
	l := &logSource{server: s, name: sub.kind.name, filter: filter, epoch: head.Epoch, at: head.Position}
	if sub.cursor != nil {
		if bad := l.resume(ctx, sub, head); bad != nil {
			return nil, bad
		}
	}
	if sub.live {
		l.leave = s.tail.Follow()
	}
	return l, nil
}

// resume moves the place to the cursor's.
func (l *logSource) resume(ctx context.Context, sub *subscription, head store.Head) *jsonrpc.Error {
	cursor, err := feed.DecodeCursor(*sub.cursor)
	if err != nil {
		return invalidParams("/cursor", cursorReason(err))
	}
	l.at, l.truncated = cursor.From(head)
	if sub.maxAge != nil {
		young, err := l.server.opts.Reader.Since(ctx, l.at, sub.since(l.server.opts.Now()))
		if err != nil {
			return l.server.internal(ctx, sub.method, err)
		}
		l.move(young)
	}
	if sub.live {
		oldest, err := l.server.opts.Reader.Oldest(ctx)
		if err != nil {
			return l.server.internal(ctx, sub.method, err)
		}
		l.move(oldest)
	}
	return nil
}

// move begins later, if that is later.
func (l *logSource) move(to engine.Position) {
	l.truncated = l.truncated || to > l.at
	l.at = max(l.at, to)
}

func (l *logSource) cursor() string { return feed.Cursor{Epoch: l.epoch, Position: l.at}.Encode() }

func (l *logSource) late() bool { return l.truncated }

func (l *logSource) page(ctx context.Context, limit int) (*page, error) {
	got, err := l.server.opts.Reader.Page(ctx, l.at, l.filter, min(limit, maxPollEvents), maxPollBytes)
	if err != nil {
		return nil, err
	}
	p := &page{occurrences: make([]json.RawMessage, len(got.Items)), truncated: got.Truncated, more: got.More}
	for i := range got.Items {
		if p.occurrences[i], err = occurrence(l.name, &got.Items[i]); err != nil {
			return nil, err
		}
	}
	l.at = got.Next
	return p, nil
}

func (l *logSource) close() {
	if l.leave != nil {
		l.leave()
	}
}

func (l *logSource) wait(ctx context.Context) (err error) {
	l.items, l.upTo, err = l.server.tail.Next(ctx, l.at)
	if l.behind = errors.Is(err, feed.ErrBehind); l.behind {
		return nil
	}
	return err
}

func (l *logSource) give(ctx context.Context, to taker) error {
	if l.behind {
		return l.catchUp(ctx, to)
	}
	items := l.items
	l.items = nil
	for _, it := range items {
		if ctx.Err() != nil {
			return nil // nothing after a cancel
		}
		if l.filter.Match(&it.Item) {
			body, err := it.Made(func() ([]byte, error) { return occurrence(l.name, &it.Item) })
			if err != nil {
				return err
			}
			if err := l.send(to, it.Position, body); err != nil {
				return err
			}
		}
		l.at = it.Position
	}
	if len(items) > 0 {
		if err := to.flush(); err != nil {
			return err
		}
	}
	l.at = l.upTo
	return nil
}

// send sends an occurrence, and moves the place behind it.
func (l *logSource) send(to taker, at engine.Position, occurrence json.RawMessage) error {
	if err := to.event(feed.Cursor{Epoch: l.epoch, Position: at}.Encode(), occurrence); err != nil {
		return err
	}
	l.at = at
	return nil
}

// catchUp reads the log for a stream that is behind what is kept in memory.
func (l *logSource) catchUp(ctx context.Context, to taker) error {
	page, err := l.server.opts.Reader.Page(ctx, l.at, l.filter, catchUpEvents, catchUpBytes)
	if err != nil {
		return err
	}
	if page.Truncated {
		// What stood between is no longer kept: the client is told where the
		// stream goes on.
		l.at = page.Next
		if len(page.Items) > 0 {
			l.at = page.Items[0].Position - 1
		}
		if err := to.active(true); err != nil {
			return err
		}
	}
	for i := range page.Items {
		if ctx.Err() != nil {
			return nil
		}
		body, err := occurrence(l.name, &page.Items[i])
		if err != nil {
			return err
		}
		if err := l.send(to, page.Items[i].Position, body); err != nil {
			return err
		}
	}
	l.at = page.Next
	return to.flush()
}

// occurrence writes an item as an event of the extension.
func occurrence(name string, it *feed.Item) (json.RawMessage, error) {
	var shown any
	if it.Decision != nil {
		shown = withoutData(it.Decision)
	} else {
		shown = letterWithoutData(it.DeadLetter)
	}
	data, err := json.Marshal(shown)
	if err == nil {
		data, err = event{it.ID(), name, timestamp(it.At())}.with(data)
	}
	if err != nil {
		return nil, fmt.Errorf("encode event %s: %w", it.ID(), err)
	}
	return data, nil
}

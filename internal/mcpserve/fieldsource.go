package mcpserve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"attend/internal/engine"
	"attend/internal/feed"
	"attend/internal/field"
	"attend/internal/fields"
)

// fieldSource gives what an agent would get from a Field, whenever that has
// changed. What counts is the level, not the way to it: an occurrence is the
// whole current result, and of many changes in a row the last is told. So
// nothing is ever lost: whoever begins later than it asked for is given the
// current result.
type fieldSource struct {
	name      string // of the event type
	sub       *fields.Subscription
	epoch     string // of the log: of another one, numbers mean nothing
	last      fields.Mark
	truncated bool
	next      *fields.Snapshot // what is to be given; nil for nothing
	// Of a stream alone.
	stopping context.Context //nolint:containedctx // the daemon's, not a call's
	leave    func()
}

// openField finds where a subscription to a Field stands: at its cursor, or else
// now.
func (s *Server) openField(ctx context.Context, sub *subscription, op field.Op) (source, *jsonrpc.Error) {
	name, params, err := fieldParams(op, sub.members)
	if err == nil {
		err = sub.caller.mayUse(ctx, s.opts.Fields, name, op, params)
	}
	if err != nil {
		return nil, s.subscribeError(ctx, sub.method, err)
	}
	var from *feed.FieldCursor
	if sub.cursor != nil {
		cursor, err := feed.DecodeFieldCursor(*sub.cursor)
		if err != nil {
			return nil, invalidParams("/cursor", cursorReason(err))
		}
		from = &cursor
	}
	head, err := s.opts.Reader.Head(ctx)
	if err != nil {
		return nil, s.internal(ctx, sub.method, err)
	}
	following, err := s.opts.Fields.Subscribe(ctx, op, name, params)
	if err != nil {
		return nil, s.subscribeError(ctx, sub.method, err)
	}
	now, err := following.Look(ctx)
	if err != nil {
		following.Close()
		return nil, s.internal(ctx, sub.method, err)
	}
	f := &fieldSource{name: sub.kind.name, sub: following, epoch: head.Epoch, last: now.Mark}
	if from != nil {
		err = f.resume(ctx, from, now, sub, s.opts.Now())
	}
	if err != nil {
		f.close()
		return nil, s.internal(ctx, sub.method, err)
	}
	if sub.live {
		f.stopping, f.leave = s.ending.enter()
	}
	return f, nil
}

// resume goes on from a cursor: the current result is to be given unless the
// reader has it, or it has been so for longer than the reader cares. A cursor of
// another epoch, or of a change that the Field does not have (it was restored
// from a backup), tells nothing of what the reader has.
func (f *fieldSource) resume(ctx context.Context, from *feed.FieldCursor, now fields.Snapshot, sub *subscription, clock time.Time) error {
	ahead := from.Number > f.sub.Checked()
	if ahead { // or a change has just come that was not looked at yet
		var err error
		if now, err = f.sub.Look(ctx); err != nil {
			return err
		}
		ahead = from.Number > f.sub.Checked()
	}
	f.truncated = ahead || from.Epoch != f.epoch
	f.last = fields.Mark{Number: from.Number, Identity: from.Identity}
	if f.truncated {
		f.last = fields.Mark{}
	}
	switch {
	case f.last.Identity == now.Mark.Identity:
	case sub.maxAge != nil && engine.Time(now.At) < sub.since(clock):
		f.last, f.truncated = now.Mark, true
	case !sub.live: // a stream is given it by Next, which keeps the time between two
		f.next = &now
	}
	return nil
}

// subscribeError tells what the Field does not take from what it cannot do now.
func (s *Server) subscribeError(ctx context.Context, method string, err error) *jsonrpc.Error {
	var wire *jsonrpc.Error
	if errors.As(err, &wire) {
		return wire
	}
	var refused *field.Error
	if !errors.As(err, &refused) {
		return s.internal(ctx, method, err)
	}
	path := "/arguments"
	data := map[string]any{"path": path, "reason": refused.Message, "code": refused.Code}
	if refused.Details != nil {
		data["details"] = refused.Details
	}
	return rpcError(jsonrpc.CodeInvalidParams, data, "%s: %s", path, refused.Message)
}

func (f *fieldSource) cursor() string {
	at := max(f.last.Number, f.sub.Checked())
	return feed.FieldCursor{Epoch: f.epoch, Number: at, Identity: f.last.Identity}.Encode()
}

func (f *fieldSource) late() bool { return f.truncated }

// page gives the current result, if it is to be given: more than one there
// never is.
func (f *fieldSource) page(context.Context, int) (*page, error) {
	p := &page{occurrences: []json.RawMessage{}}
	if f.next == nil {
		return p, nil
	}
	body, err := f.occurrence(f.next)
	if err != nil {
		return nil, err
	}
	p.occurrences = append(p.occurrences, body)
	f.last, f.next = f.next.Mark, nil
	return p, nil
}

func (f *fieldSource) close() {
	f.sub.Close()
	if f.leave != nil {
		f.leave()
	}
}

func (f *fieldSource) wait(ctx context.Context) error {
	if f.next != nil {
		return nil // it could not be sent
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(f.stopping, cancel)()
	next, err := f.sub.Next(ctx, f.last)
	if err != nil {
		return err
	}
	f.next = &next
	return nil
}

func (f *fieldSource) give(ctx context.Context, to taker) error {
	if f.next == nil || ctx.Err() != nil {
		return nil
	}
	body, err := f.occurrence(f.next)
	if err != nil {
		return err
	}
	f.last, f.next = f.next.Mark, nil
	if err := to.event(f.cursor(), body); err != nil {
		return err
	}
	return to.flush()
}

// occurrence writes a result as an event of the extension.
func (f *fieldSource) occurrence(now *fields.Snapshot) (json.RawMessage, error) {
	id := f.sub.EventID(now.Mark)
	shown, err := showField(now.Result)
	if err != nil {
		return nil, err
	}
	b, err := event{id, f.name, timestamp(engine.Time(now.At))}.with(shown.body)
	if err != nil {
		return nil, fmt.Errorf("encode event %s: %w", id, err)
	}
	return b, nil
}

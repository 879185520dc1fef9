package mcpserve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"attend/internal/mcpserve/webhook"
)

// Open finds what comes to a webhook subscription after a cursor, with the
// rights that its principal has by now. It implements webhook.Feeds.
func (s *Server) Open(ctx context.Context, key webhook.Key, cursor string) (webhook.Feed, error) {
	caller, known := Caller{}, false
	if s.opts.Principal != nil {
		caller, known = s.opts.Principal(key.Principal)
	}
	if !known || !caller.may(RightRead, "") {
		return nil, endedBy(forbidden("revoked", "your right to read these events has ended"))
	}
	name, err := json.Marshal(key.Name)
	if err != nil {
		return nil, err
	}
	at, err := json.Marshal(cursor)
	if err != nil {
		return nil, err
	}
	params := map[string]json.RawMessage{"name": name, "cursor": at}
	if len(key.Arguments) > 0 {
		params["arguments"] = key.Arguments
	}
	sub, bad := s.subscription("webhook", params, s.shapes.stream, &caller)
	if bad != nil {
		return nil, endedBy(bad)
	}
	sub.live = true
	from, bad := sub.open(ctx)
	switch {
	case bad != nil && bad.Code == jsonrpc.CodeInternalError:
		return nil, bad
	case bad != nil:
		return nil, endedBy(bad)
	}
	_, latest := from.(*fieldSource)
	return &webhookFeed{server: s, from: from, latest: latest, late: from.late(), revoked: caller.Revoked}, nil
}

// endedBy tells a receiver why nothing comes any more.
func endedBy(why *jsonrpc.Error) error {
	return &webhook.Ended{Code: why.Code, Message: why.Message, Data: why.Data}
}

// webhookFeed gives what a source has to a webhook subscription.
type webhookFeed struct {
	server  *Server
	from    source
	latest  bool
	late    bool            // it begins later than where delivery stood, and that was not told
	revoked <-chan struct{} // of the principal; nil for never
	page    *webhook.Page   // that is being filled
}

// errRightsChanged ends a feed whose principal's rights have ended. Whether there
// are others the next Open finds out.
var errRightsChanged = errors.New("the rights of the subscription's principal have ended")

// lookWebhook is how often a feed tells how far it has looked in vain.
const lookWebhook = 30 * time.Second

func (f *webhookFeed) Latest() bool { return f.latest }

func (f *webhookFeed) Close() { f.from.close() }

// Next implements webhook.Feed.
func (f *webhookFeed) Next(ctx context.Context) (webhook.Page, error) {
	f.page = &webhook.Page{}
	if f.late { // is told at once
		f.late = false
		_ = f.active(true) // it never fails
		f.page.Cursor = f.page.GapCursor
		return *f.page, nil
	}
	wait, cancel := context.WithTimeout(ctx, lookWebhook)
	err := f.wait(wait)
	quiet := wait.Err() != nil
	cancel()
	select {
	case <-f.revoked:
		return webhook.Page{}, errRightsChanged
	default:
	}
	select {
	case <-f.server.opts.Stopping:
		<-ctx.Done() // the deliverer is stopped soon
	default:
	}
	switch {
	case ctx.Err() != nil:
		return webhook.Page{}, context.Cause(ctx)
	case err != nil && !quiet:
		return webhook.Page{}, err
	}
	if err := f.from.give(ctx, f); err != nil {
		return webhook.Page{}, err
	}
	f.page.Cursor = f.from.cursor()
	return *f.page, nil
}

// wait ends when the principal's rights do, too.
func (f *webhookFeed) wait(ctx context.Context) error {
	if f.revoked == nil {
		return f.from.wait(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-f.revoked:
			cancel()
		case <-done:
		}
	}()
	return f.from.wait(ctx)
}

// event implements taker.
func (f *webhookFeed) event(cursor string, body json.RawMessage) error {
	var head struct {
		EventID string `json:"eventId"`
	}
	if err := json.Unmarshal(body, &head); err != nil {
		return fmt.Errorf("read an occurrence for a webhook: %w", err)
	}
	if len(body) > maxOccurrence {
		var err error
		if body, err = shorten(body); err != nil {
			return fmt.Errorf("shorten the occurrence %s for a webhook: %w", head.EventID, err)
		}
	}
	f.page.Occurrences = append(f.page.Occurrences, webhook.Occurrence{ID: head.EventID, Body: body, Cursor: cursor})
	return nil
}

// active implements taker: a gap. What was taken before it in the same page would
// be misplaced, but nothing ever is: a source tells of a gap first.
func (f *webhookFeed) active(truncated bool) error {
	if truncated {
		f.page.Gap, f.page.GapCursor = true, f.from.cursor()
	}
	return nil
}

// flush implements taker.
func (f *webhookFeed) flush() error { return nil }

// maxOccurrence is how large an occurrence may be that is to be posted: 256 KiB
// with its cursor.
const maxOccurrence = 255 << 10

// shorten makes an occurrence fit that does not: events go from the end of its
// data and of the decision in it, half of them at a time, and are counted in cut.
func shorten(body json.RawMessage) (json.RawMessage, error) {
	for len(body) > maxOccurrence {
		var o struct {
			event
			Data map[string]json.RawMessage `json:"data"`
		}
		if err := json.Unmarshal(body, &o); err != nil {
			return nil, err
		}
		cut, err := halve(o.Data)
		if err != nil {
			return nil, err
		}
		if raw, ok := o.Data["decision"]; ok && string(raw) != "null" {
			var decision map[string]json.RawMessage
			if err := json.Unmarshal(raw, &decision); err != nil {
				return nil, err
			}
			also, err := halve(decision)
			if err != nil {
				return nil, err
			}
			if o.Data["decision"], err = verbatim(decision); err != nil {
				return nil, err
			}
			cut += also
		}
		if cut == 0 {
			return nil, errors.New("it is too large, and there is nothing left to leave out")
		}
		data, err := verbatim(o.Data)
		if err != nil {
			return nil, err
		}
		if body, err = o.event.with(data); err != nil {
			return nil, err
		}
	}
	return body, nil
}

// halve leaves out half of the events of a decision or a dead letter, and counts
// them.
func halve(data map[string]json.RawMessage) (cut int, err error) {
	var events []json.RawMessage
	if err := json.Unmarshal(data["events"], &events); err != nil || len(events) == 0 {
		return 0, err
	}
	left := 0
	if raw, ok := data["cut"]; ok {
		if err := json.Unmarshal(raw, &left); err != nil {
			return 0, err
		}
	}
	kept := events[:len(events)/2]
	cut = len(events) - len(kept)
	if data["events"], err = verbatim(kept); err != nil {
		return 0, err
	}
	data["cut"], err = verbatim(left + cut)
	return cut, err
}

package feed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
)

// Defaults of ConsumersOptions.
const (
	DefaultMaxConsumers = 1000
	DefaultConsumerKeep = 7 * 24 * time.Hour
)

const (
	rememberDropped = 30 * 24 * time.Hour // how long a dropped consumer is told so
	heardEvery      = time.Minute         // how often a row notes that its consumer was heard
)

// Store is what Consumers need of a store.
type Store interface {
	store.Log
	store.Rows
	Now() time.Time
}

// ConsumersOptions are the limits of Consumers. Zero fields are the defaults.
type ConsumersOptions struct {
	Max  int           // consumers for one principal
	Keep time.Duration // a consumer unheard for so long is dropped
	// Shared says that other replicas keep consumers in the same store. Two calls
	// of one consumer may then be answered by two of them, and each decision is
	// shown once at least: see shared.go.
	Shared bool
}

// Consumers keeps the positions of named readers as rows of the store. A
// position moves only when a call brings the ack of the last answer, so an
// answer that is lost on the way loses no wake. It is safe for concurrent use.
type Consumers struct {
	store  Store
	reader *Reader
	opts   ConsumersOptions

	creating sync.Mutex // so that the limit holds

	mu      sync.Mutex
	closed  bool
	slots   map[string]*slot
	unnamed map[*context.CancelCauseFunc]struct{} // waits of callers that keep their own cursor
	checked map[string]checked
}

// checked is how far a consumer's last wait found nothing: a hint that spares
// the next one the same look.
type checked struct {
	filter string
	upTo   engine.Position
}

// NewConsumers keeps consumers in st and reads for them through reader.
func NewConsumers(st Store, reader *Reader, opts ConsumersOptions) *Consumers {
	if opts.Max == 0 {
		opts.Max = DefaultMaxConsumers
	}
	if opts.Keep == 0 {
		opts.Keep = DefaultConsumerKeep
	}
	return &Consumers{
		store: st, reader: reader, opts: opts,
		slots:   make(map[string]*slot),
		unnamed: make(map[*context.CancelCauseFunc]struct{}),
		checked: make(map[string]checked),
	}
}

// Call is one call of a consumer.
type Call struct {
	Consumer  string
	Principal string // who calls; "" where there are no tokens
	Ack       string // of the last answer; "" for none
	Want      Want
}

// Wait answers a consumer: with the last answer again if it was not
// acknowledged, else with what comes next. A new consumer starts at the head.
// A newer call of the same consumer, and Close, end it with an empty answer.
//
// Errors: ErrConsumerName, ErrMalformed and ErrAck (the call is wrong),
// ErrNotYours, a *LimitError, the context's, or the store's.
func (c *Consumers) Wait(ctx context.Context, call Call) (Answer, error) {
	if err := CheckConsumerName(call.Consumer); err != nil {
		return Answer{}, err
	}
	ctx, leave, err := c.enter(ctx, call.Consumer)
	defer leave()
	if err != nil {
		return c.nothing(ctx, err, false)
	}
	a, err := c.take(ctx, &call)
	if err != nil && empties(context.Cause(ctx)) {
		// What the store was doing for the call when it was ended fails with
		// the bare error of its context.
		return c.nothing(ctx, context.Cause(ctx), false)
	}
	return a, err
}

// take answers a call that has its turn.
func (c *Consumers) take(ctx context.Context, call *Call) (Answer, error) {
	head, err := c.reader.Head(ctx)
	if err != nil {
		return Answer{}, err
	}
	row, err := c.load(ctx, call, head)
	if err != nil {
		return Answer{}, err
	}
	if call.Ack != "" {
		if err := c.acknowledge(ctx, &row, call.Ack, head); err != nil {
			return Answer{}, err
		}
	}
	again, err := c.redeliver(ctx, &row, &call.Want, head.Epoch)
	if err != nil || len(again.Items) > 0 {
		return again, err
	}
	return c.deliver(ctx, &row, &call.Want, head.Epoch)
}

// deliver waits for the next decisions and stores them as pending before it
// hands them out.
func (c *Consumers) deliver(ctx context.Context, row *consumerRow, want *Want, epoch string) (Answer, error) {
	again, upTo, timedOut, err := c.awaitFor(ctx, row, want, epoch)
	if err != nil {
		return c.nothing(ctx, err, row.Truncated)
	}
	if len(again.Items) > 0 {
		return again, nil
	}
	if timedOut {
		return Answer{Cursor: Cursor{epoch, upTo}, Truncated: row.Truncated, TimedOut: true}, nil
	}
	last, cancel := detached(ctx)
	defer cancel()
	page, err := c.answer(last, row.Position, want, true)
	if err != nil {
		return Answer{}, err
	}
	if len(page.Items) == 0 { // retention took it between the look and the read
		return Answer{Cursor: Cursor{epoch, page.Next}, Truncated: true}, nil
	}
	row.Truncated = row.Truncated || page.Truncated
	row.Pending = &pending{Next: page.Next}
	for i := range page.Items {
		row.Pending.Items = append(row.Pending.Items, page.Items[i].Position)
	}
	if err := c.save(last, row); err != nil {
		return Answer{}, err
	}
	return row.answer(page.Items, epoch), nil
}

// redeliver gives the pending answer again; an empty one if there is none.
// What the caller wants by now does not change it, but rights do, and so does
// retention where it was faster than the consumer.
func (c *Consumers) redeliver(ctx context.Context, row *consumerRow, want *Want, epoch string) (Answer, error) {
	if row.Pending == nil {
		return Answer{}, nil
	}
	items, err := c.reader.at(ctx, row.Pending.Items)
	if err != nil {
		return Answer{}, err
	}
	row.Truncated = row.Truncated || len(items) < len(row.Pending.Items)
	if visible := want.Filter.Visible; visible != nil {
		items = slices.DeleteFunc(items, func(it Item) bool { return !visible(it.Scope) })
	}
	if len(items) == 0 {
		row.Position, row.Pending = row.Pending.Next, nil
		return Answer{}, c.save(ctx, row)
	}
	a := row.answer(items, epoch)
	a.Redelivered = true
	return a, nil
}

func (row *consumerRow) answer(items []Item, epoch string) Answer {
	return Answer{
		Items:     items,
		Cursor:    Cursor{epoch, row.Pending.Next},
		Ack:       row.ackToken(epoch),
		Truncated: row.Truncated,
	}
}

// nothing is the answer to a wait that ended without anything to show, or the
// error where somebody is to blame.
func (c *Consumers) nothing(ctx context.Context, why error, truncated bool) (Answer, error) {
	if !empties(why) {
		return Answer{}, why
	}
	last, cancel := detached(ctx)
	defer cancel()
	head, err := c.reader.Head(last)
	if err != nil {
		return Answer{}, err
	}
	return Answer{Cursor: Cursor{head.Epoch, head.Position}, Truncated: truncated}, nil
}

// load reads the consumer's row or makes a new one, and notes that the
// consumer was heard.
func (c *Consumers) load(ctx context.Context, call *Call, head store.Head) (consumerRow, error) {
	now := engine.Time(c.store.Now().UnixMilli())
	b, err := c.store.Row(ctx, store.SpaceConsumer, call.Consumer)
	if errors.Is(err, store.ErrNotFound) {
		// One that comes with an ack has been here before.
		return c.create(ctx, call, head, now, call.Ack != "")
	}
	if err != nil {
		return consumerRow{}, store.Describe("read the consumer", err)
	}
	row, err := decodeRow(b)
	if err != nil {
		return row, err
	}
	if row.Owner != "" && row.Owner != call.Principal {
		return row, fmt.Errorf("%w: choose another name than %q", ErrNotYours, row.Name)
	}
	if row.Dropped != 0 {
		return c.create(ctx, call, head, now, true)
	}
	oldest, err := c.reader.Oldest(ctx)
	if err != nil {
		return row, err
	}
	changed := row.Owner != call.Principal || now >= row.LastHeard+engine.Time(heardEvery.Milliseconds())
	row.Owner, row.LastHeard = call.Principal, now
	if row.Pending == nil && row.Position < oldest {
		row.Position, row.Truncated, changed = oldest, true, true
	}
	if !changed {
		return row, nil
	}
	return row, c.save(ctx, &row)
}

// create stores a new consumer that starts at the head.
func (c *Consumers) create(ctx context.Context, call *Call, head store.Head, now engine.Time, returned bool) (consumerRow, error) {
	c.creating.Lock()
	defer c.creating.Unlock()
	rows, err := c.rows(ctx)
	if err != nil {
		return consumerRow{}, err
	}
	n := 0
	for i := range rows {
		if rows[i].Dropped == 0 && rows[i].Owner == call.Principal {
			n++
		}
	}
	if n >= c.opts.Max {
		return consumerRow{}, &LimitError{Limit: "consumers", Max: c.opts.Max}
	}
	row := consumerRow{
		Name: call.Consumer, Owner: call.Principal,
		Position: head.Position, Truncated: returned,
		Created: now, LastHeard: now,
	}
	return row, c.save(ctx, &row)
}

func (c *Consumers) acknowledge(ctx context.Context, row *consumerRow, ack string, head store.Head) error {
	moved, err := row.acknowledge(ack, head, c.opts.Shared)
	if err != nil || !moved {
		return err
	}
	return c.save(ctx, row, engine.Step{
		Kind: engine.StepAck,
		Ack:  &engine.Ack{Consumer: row.Name, Position: row.Position},
	})
}

// save writes the row, and steps in the same entry. It outlives the call: what
// has been decided is not to hang on whether the caller is still there.
func (c *Consumers) save(ctx context.Context, row *consumerRow, steps ...engine.Step) error {
	put, err := row.put()
	if err != nil {
		return err
	}
	return c.append(ctx, store.Entry{Steps: steps, Puts: []store.Put{put}})
}

func (c *Consumers) append(ctx context.Context, e store.Entry) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	receipts, err := c.store.Append(ctx, e)
	if err == nil {
		err = receipts[0].Err
	}
	return store.Describe("store the consumer", err)
}

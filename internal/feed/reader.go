package feed

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"

	"attend/internal/engine"
	"attend/internal/store"
)

// scanBatch is how many steps are read at once. A step may hold 128 KiB.
const scanBatch = 100

// Item is one entry of the feed: a decision or a dead letter, never both.
type Item struct {
	Position   engine.Position
	Stamp      engine.Time
	Scope      string
	Decision   *engine.Decision // shared with the log: not to be changed
	DeadLetter *engine.DeadLetter
}

// ID is the decision's or the dead letter's id.
func (it *Item) ID() string {
	if it.Decision != nil {
		return it.Decision.ID
	}
	return it.DeadLetter.ID
}

// At is when the decision was made or the stage gave up.
func (it *Item) At() engine.Time {
	if it.Decision != nil {
		return it.Decision.At
	}
	return it.DeadLetter.At
}

// Body is what stands for the item in JSON: D, or the dead letter.
func (it *Item) Body() any {
	if it.Decision != nil {
		return it.Decision
	}
	return it.DeadLetter
}

// Page is a run of the feed.
type Page struct {
	Items []Item
	// Next is the position up to which the log has been checked; reading goes
	// on after it. It passes what did not match, up to the head, so that the
	// next empty page costs nothing.
	Next engine.Position
	// More tells that something that matches stands after Next already.
	More bool
	// Truncated tells that positions after the one asked for are no longer
	// kept, whether or not anything there would have matched.
	Truncated bool
}

// Reader reads the feed out of a log. It is safe for concurrent use.
type Reader struct {
	log   store.Log
	marks marks // nil for a log that nothing is ever deleted of
	watch watch
}

// marks tell where a log begins that is shortened now and then.
type marks interface {
	Kept(ctx context.Context) (store.Kept, error)
}

// NewReader reads from log.
func NewReader(log store.Log) *Reader {
	r := &Reader{log: log, watch: watch{log: log}}
	r.marks, _ = log.(marks)
	return r
}

// Head returns the end of the log.
func (r *Reader) Head(ctx context.Context) (store.Head, error) {
	head, err := r.log.Head(ctx)
	return head, store.Describe("read the head", err)
}

// Oldest returns the position before the oldest step that is kept: reading
// after it misses nothing that is left. Events, which go earlier, are not what
// the feed is made of.
func (r *Reader) Oldest(ctx context.Context) (engine.Position, error) {
	if r.marks == nil {
		return 0, nil
	}
	kept, err := r.marks.Kept(ctx)
	return kept.Steps, store.Describe("look where the log begins", err)
}

// Since returns the position from which to read in order to see what was
// written at or after the stamp, but nothing at or before `after`. It is
// `after` itself when everything behind that is young enough.
func (r *Reader) Since(ctx context.Context, after engine.Position, stamp engine.Time) (engine.Position, error) {
	head, err := r.Head(ctx)
	if err != nil || head.Position <= after {
		return after, err
	}
	// Stamps never fall along the log, so a binary search finds the place.
	skip := sort.Search(int(head.Position-after), func(i int) bool {
		if err != nil {
			return true
		}
		var recs []engine.Record
		recs, err = r.log.Read(ctx, after+engine.Position(i), 1)
		return err != nil || len(recs) == 0 || recs[0].Stamp >= stamp
	})
	if err != nil {
		return 0, store.Describe("search the log by time", err)
	}
	return after + engine.Position(skip), nil
}

// Page reads what the filter selects after a position, in log order: at most
// limit items (> 0), and, when maxBytes is above 0, at most so many bytes of
// JSON, but always one item if there is one.
func (r *Reader) Page(ctx context.Context, after engine.Position, f Filter, limit, maxBytes int) (Page, error) {
	return r.page(ctx, after, &f, &budget{items: limit, bytes: maxBytes, size: jsonSize})
}

// budget is how much goes into one page.
type budget struct {
	items int
	bytes int // 0 for any number
	size  func(*Item) int
	taken struct{ items, bytes int }
}

// take reports whether one more item fits, and counts it.
func (b *budget) take(it *Item) bool {
	if b.taken.items == b.items {
		return false
	}
	if b.bytes > 0 {
		b.taken.bytes += b.size(it)
		if b.taken.bytes > b.bytes && b.taken.items > 0 {
			return false
		}
	}
	b.taken.items++
	return true
}

func (r *Reader) page(ctx context.Context, after engine.Position, f *Filter, b *budget) (Page, error) {
	head, err := r.Head(ctx) // before the steps, so that all up to here is seen
	if err != nil {
		return Page{}, err
	}
	page := Page{Next: after}
	if after >= head.Position {
		return page, nil
	}
	if err := r.fill(ctx, &page, f, b); err != nil {
		return Page{}, err
	}
	if page.Next < head.Position && !page.More {
		page.Next = head.Position
	}
	// Asked last: what was deleted while the page was read is missed too.
	oldest, err := r.Oldest(ctx)
	if err != nil {
		return Page{}, err
	}
	page.Truncated = oldest > after
	if page.Truncated && len(page.Items) == 0 {
		page.Next = max(page.Next, oldest)
	}
	return page, nil
}

// fill reads items into the page until it is full or the log ends.
func (r *Reader) fill(ctx context.Context, page *Page, f *Filter, b *budget) error {
	for {
		items, full, err := r.scan(ctx, page.Next, f)
		if err != nil {
			return err
		}
		for i := range items {
			it := &items[i]
			if !f.Match(it) {
				page.Next = it.Position
				continue
			}
			if !b.take(it) {
				page.More, page.Next = true, it.Position-1
				return nil
			}
			page.Items = append(page.Items, *it)
			page.Next = it.Position
		}
		if !full {
			return nil
		}
	}
}

// scan reads the next batch of items of the filter's kinds; full tells that
// more may follow.
func (r *Reader) scan(ctx context.Context, after engine.Position, f *Filter) (items []Item, full bool, err error) {
	recs, err := r.log.Steps(ctx, store.StepQuery{After: after, Kinds: f.stepKinds(), Scope: f.scope(), Limit: scanBatch})
	if err != nil {
		return nil, false, store.Describe("read the feed", err)
	}
	items = make([]Item, 0, len(recs))
	for i := range recs {
		it, err := itemOf(&recs[i])
		if err != nil {
			return nil, false, err
		}
		items = append(items, it)
	}
	return items, len(recs) == scanBatch, nil
}

func itemOf(rec *engine.Record) (Item, error) {
	it := Item{Position: rec.Position, Stamp: rec.Stamp, Scope: rec.Scope}
	if rec.Step != nil {
		it.Decision, it.DeadLetter = rec.Step.Decision, rec.Step.DeadLetter
	}
	if (it.Decision == nil) == (it.DeadLetter == nil) {
		return Item{}, fmt.Errorf("read the feed: the step at position %d holds neither a decision nor a dead letter", rec.Position)
	}
	return it, nil
}

func jsonSize(it *Item) int {
	b, err := json.Marshal(it.Body())
	if err != nil {
		return 0 // the caller's own encoding reports it
	}
	return len(b)
}

// Wait returns as soon as something that the filter selects stands after a
// position, with the position up to which nothing does; or the context's
// error, with how far it has checked.
func (r *Reader) Wait(ctx context.Context, after engine.Position, f Filter) (engine.Position, error) {
	leave := r.watch.enter()
	defer leave()
	for {
		growth := r.watch.next() // before the look, so that nothing slips between
		page, err := r.Page(ctx, after, f, 1, 0)
		if err != nil {
			return after, err
		}
		if len(page.Items) > 0 {
			return max(after, page.Items[0].Position-1), nil
		}
		after = page.Next
		select {
		case <-ctx.Done():
			return after, context.Cause(ctx)
		case <-growth.done:
			if growth.err != nil {
				return after, growth.err
			}
		}
	}
}

// at reads the decisions at the positions given, which rise. Those that are no
// longer kept are left out.
func (r *Reader) at(ctx context.Context, positions []engine.Position) ([]Item, error) {
	var items []Item
	f := Filter{Kinds: []Kind{KindDecision}}
	for len(positions) > 0 {
		batch, full, err := r.scan(ctx, positions[0]-1, &f)
		if err != nil {
			return nil, err
		}
		for i := range batch {
			for len(positions) > 0 && positions[0] < batch[i].Position {
				positions = positions[1:]
			}
			if len(positions) > 0 && positions[0] == batch[i].Position {
				items, positions = append(items, batch[i]), positions[1:]
			}
		}
		if !full {
			break
		}
	}
	return items, nil
}

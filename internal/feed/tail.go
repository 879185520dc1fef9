package feed

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
)

const (
	// tailItems is how many items a Tail keeps for those that are a little late.
	tailItems = 256
	// tailMade is the largest thing made of an item that is kept with it.
	tailMade = 256 << 10
	// tailLook is how often a Tail notes how far it has looked in vain.
	tailLook = 10 * time.Second
)

// Errors of Tail.Next.
var (
	// ErrBehind: the place is before what the tail keeps. The reader goes on by
	// Reader.Page until it has caught up.
	ErrBehind = errors.New("behind the tail of the feed")
	// ErrStopping: the daemon is stopping.
	ErrStopping = errors.New("the daemon is stopping")
)

// Tail follows the end of the feed once for all readers that have caught up.
// The last items stay in memory for them, so that a decision that a thousand
// streams take is read from the log once. There is no queue for a reader: it is
// a place in the log, and one that is slower than the feed falls behind the
// tail and reads the log itself. It runs only while somebody follows. It is
// safe for concurrent use.
type Tail struct {
	reader   *Reader
	stopping <-chan struct{}
	most     int // items to keep

	mu        sync.Mutex
	followers int
	stop      context.CancelFunc // nil while it does not run
	growth    *growth

	// What is kept: every item of the feed after `after` and up to upTo.
	known       bool // the two are known
	items       []*TailItem
	after, upTo engine.Position
}

// TailItem is an item of the feed that many readers share.
type TailItem struct {
	Item
	mu   sync.Mutex
	made []byte
}

// Made returns what make makes of the item, for as many readers as possible
// the same: it is made again only when it failed or was too large to be kept.
// It is not to be changed.
func (it *TailItem) Made(make func() ([]byte, error)) ([]byte, error) {
	it.mu.Lock()
	defer it.mu.Unlock()
	if it.made != nil {
		return it.made, nil
	}
	b, err := make()
	if err == nil && len(b) <= tailMade {
		it.made = b
	}
	return b, err
}

// NewTail follows what reader reads, until stopping is closed.
func NewTail(reader *Reader, stopping <-chan struct{}) *Tail {
	return &Tail{reader: reader, stopping: stopping, most: tailItems, growth: &growth{done: make(chan struct{})}}
}

// Follow announces a reader that will call Next; leave must be called.
func (t *Tail) Follow() (leave func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.followers++
	t.start()
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.followers--
		if t.followers == 0 && t.stop != nil {
			t.stop()
			t.stop = nil
			t.forget()
		}
	}
}

// Next returns what stands in the feed after a place, in log order and of every
// kind, as soon as there is something, and the position up to which there is
// nothing else. Where nothing has come, the position is how far it has looked.
//
// Errors: ErrBehind, ErrStopping, the context's, or the store's.
func (t *Tail) Next(ctx context.Context, place engine.Position) (items []*TailItem, upTo engine.Position, err error) {
	for {
		items, upTo, growth, err := t.look(place)
		if err != nil || len(items) > 0 {
			return items, upTo, err
		}
		select {
		case <-growth.done:
			if growth.err != nil {
				return nil, upTo, growth.err
			}
		case <-t.stopping:
			return nil, upTo, ErrStopping
		case <-ctx.Done():
			// Once more, for how far it has looked by now, and for what came at
			// this very moment.
			if items, upTo, _, err = t.look(place); err == nil && len(items) == 0 {
				err = context.Cause(ctx)
			}
			return items, upTo, err
		}
	}
}

// look returns what is kept after a place, and what to wait for where there is
// nothing.
func (t *Tail) look(place engine.Position) (items []*TailItem, upTo engine.Position, next *growth, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.start()
	if !t.known {
		return nil, place, t.growth, nil
	}
	if place < t.after {
		return nil, place, nil, ErrBehind
	}
	first, _ := slices.BinarySearchFunc(t.items, place+1, func(it *TailItem, p engine.Position) int { return cmp.Compare(it.Position, p) })
	return t.items[first:len(t.items):len(t.items)], max(place, t.upTo), t.growth, nil
}

// start runs the follower unless it runs. The caller holds mu.
func (t *Tail) start() {
	if t.stop != nil || t.followers == 0 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.stop = cancel
	go t.run(ctx)
}

func (t *Tail) run(ctx context.Context) {
	err := t.follow(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	if ctx.Err() != nil {
		return // nobody follows any longer, or a later run has taken over
	}
	t.stop()
	t.stop = nil
	t.forget()
	t.wake(store.Describe("follow the feed", err))
}

// follow keeps the end of the feed until the context ends or the log fails.
func (t *Tail) follow(ctx context.Context) error {
	everything := Filter{Kinds: []Kind{KindDecision, KindDeadLetter}}
	head, err := t.reader.Head(ctx)
	if err != nil {
		return err
	}
	place := head.Position
	t.keep(ctx, &Page{Next: place, Truncated: true})
	for {
		// Where nothing has come within a while, how far the log has been looked
		// at is worth knowing: a reader's place moves with it.
		wait, cancel := context.WithTimeout(ctx, tailLook)
		_, err := t.reader.Wait(wait, place, everything)
		late := wait.Err() != nil && ctx.Err() == nil
		cancel()
		if err != nil && !late {
			return err
		}
		page, err := t.reader.Page(ctx, place, everything, scanBatch, 0)
		if err != nil {
			return err
		}
		t.keep(ctx, &page)
		place = page.Next
	}
}

// keep adds a page to what is kept. A page that is truncated has nothing to do
// with what was kept before.
func (t *Tail) keep(ctx context.Context, page *Page) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	if page.Truncated {
		t.known, t.items, t.after, t.upTo = true, nil, page.Next, page.Next
		t.wake(nil)
		return
	}
	for i := range page.Items {
		t.items = append(t.items, &TailItem{Item: page.Items[i]})
	}
	t.upTo = page.Next
	if more := len(t.items) - t.most; more > 0 {
		t.after = t.items[more-1].Position
		t.items = slices.Clone(t.items[more:]) // readers still look at the old ones
	}
	if len(page.Items) > 0 {
		t.wake(nil)
	}
}

// forget lets go of what is kept. The caller holds mu.
func (t *Tail) forget() { t.known, t.items = false, nil }

// wake lets everyone look again, or tells them why there is no use. The
// caller holds mu.
func (t *Tail) wake(err error) {
	t.growth.err = err
	close(t.growth.done)
	t.growth = &growth{done: make(chan struct{})}
}

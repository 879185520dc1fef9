package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"attend/internal/engine"
	"attend/internal/store"
)

// A group is committed with at most this much, or with one larger entry alone.
const (
	groupRecords = 2000
	groupBytes   = 256 << 10
)

// call is one call of Append, waiting for the writer.
type call struct {
	ended    func() error // the error of the caller's context
	entries  []pending
	receipts []store.Receipt
	next     int // the first entry that no group has taken
	left     int // entries without a receipt
	done     chan struct{}
}

// pending is an entry on its way, as its caller has prepared it.
type pending struct {
	store.Entry
	bodies  [][]byte   // of the steps
	shards  []uint8    // of the events
	size    int        // in bytes, about
	beside  int        // of the size, what stands beside the log
	head    *fieldHead // of the Field, once it was admitted
	receipt *store.Receipt
	call    *call
}

// newCall checks and encodes the entries. Those that are invalid have their
// receipts at once.
func newCall(ended func() error, entries []store.Entry) *call {
	c := &call{ended: ended, entries: make([]pending, 0, len(entries)), receipts: make([]store.Receipt, len(entries)), done: make(chan struct{})}
	for i := range entries {
		p := pending{Entry: entries[i], receipt: &c.receipts[i], call: c}
		if err := p.prepare(); err != nil {
			p.receipt.Err = store.Describe("append", err)
			continue
		}
		c.entries = append(c.entries, p)
	}
	c.left = len(c.entries)
	return c
}

func (p *pending) prepare() error {
	if err := p.Check(); err != nil {
		return err
	}
	p.shards = make([]uint8, len(p.Events))
	for i := range p.Events {
		e := &p.Events[i]
		p.size += len(e.Scope) + e.Size() + recordOverhead
		if i > 0 && e.Scope == p.Events[i-1].Scope {
			p.shards[i] = p.shards[i-1]
		} else {
			p.shards[i] = uint8(engine.Shard(e.Scope)) //nolint:gosec // there are 256 shards
		}
	}
	p.bodies = make([][]byte, len(p.Steps))
	for i := range p.Steps {
		body, err := engine.EncodeStep(&p.Steps[i])
		if err != nil {
			return fmt.Errorf("%w: %w", store.ErrInvalid, err)
		}
		p.bodies[i] = body
		p.size += len(body) + recordOverhead
	}
	for i := range p.Puts {
		p.beside += len(p.Puts[i].Value)
	}
	if p.Field != nil {
		for i := range p.Field.Changes {
			p.beside += len(p.Field.Changes[i].Body) + recordOverhead
		}
	}
	p.size += p.beside
	return nil
}

// records is how many positions the entry takes.
func (p *pending) records() int { return len(p.Events) + len(p.Steps) }

// failure is the error of the call as a whole: nothing is known of any entry.
func (c *call) failure() error {
	for i := range c.receipts {
		if !errors.Is(c.receipts[i].Err, store.ErrUnavailable) {
			return nil
		}
	}
	return c.receipts[0].Err
}

// settle gives the entry its receipt, and ends the call with the last one.
func (p *pending) settle(r store.Receipt) {
	*p.receipt = r
	p.call.left--
	if p.call.left == 0 {
		close(p.call.done)
	}
}

// task is what else needs the writer's connection. It runs between groups.
type task struct {
	ended func() error // the error of the caller's context
	run   func(context.Context, *session) error
	err   error
	done  chan struct{}
}

// group is what is committed together.
type group struct {
	entries []*pending
	records int
	bytes   int
}

func (g *group) takes(p *pending) bool {
	return len(g.entries) == 0 || (g.records+p.records() <= groupRecords && g.bytes+p.size <= groupBytes)
}

func (g *group) add(p *pending) {
	g.entries = append(g.entries, p)
	g.records += p.records()
	g.bytes += p.size
}

// queue is what waits for the writer. The owner's calls go before others; a
// task goes before both, but never twice in a row while calls wait.
type queue struct {
	mu       sync.Mutex
	filled   *sync.Cond
	owner    []*call
	others   []*call
	tasks    []*task
	rested   bool // the last thing taken was a group
	isClosed bool
}

func newQueue() *queue {
	q := new(queue)
	q.filled = sync.NewCond(&q.mu)
	return q
}

// push adds a call; false when the queue is closed.
func (q *queue) push(c *call) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.isClosed {
		return false
	}
	if c.entries[0].Owned() {
		q.owner = append(q.owner, c)
	} else {
		q.others = append(q.others, c)
	}
	q.filled.Signal()
	return true
}

// pushTask adds a task; false when the queue is closed.
func (q *queue) pushTask(t *task) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.isClosed {
		return false
	}
	q.tasks = append(q.tasks, t)
	q.filled.Signal()
	return true
}

// close refuses what comes; what waits is still taken.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.isClosed = true
	q.filled.Signal()
}

// take waits for work and returns a task, or a group of what is waiting. Both
// are nil when the queue is closed and empty.
func (q *queue) take() (*group, *task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.owner)+len(q.others)+len(q.tasks) == 0 {
		if q.isClosed {
			return nil, nil
		}
		q.filled.Wait()
	}
	if len(q.tasks) > 0 && (q.rested || len(q.owner)+len(q.others) == 0) {
		t := q.tasks[0]
		q.tasks[0] = nil
		q.tasks = q.tasks[1:]
		q.rested = false
		return nil, t
	}
	g := new(group)
	if fill(g, &q.owner) {
		fill(g, &q.others)
	}
	q.rested = true
	return g, nil
}

// fill moves entries into the group, in order; false when it takes no more.
func fill(g *group, calls *[]*call) bool {
	for len(*calls) > 0 {
		c := (*calls)[0]
		for ; c.next < len(c.entries); c.next++ {
			if p := &c.entries[c.next]; g.takes(p) {
				g.add(p)
			} else {
				return false
			}
		}
		(*calls)[0] = nil
		*calls = (*calls)[1:]
	}
	return true
}

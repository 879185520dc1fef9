package postgres

import (
	"errors"
	"fmt"
	"sync"

	"attend/internal/engine"
	"attend/internal/store"
)

// A group is committed with at most this much, or with one larger entry alone.
const (
	groupRecords = 2000
	groupBytes   = 1 << 20
)

// maxKey is how long a string that stands in an index may be, in bytes.
// Postgres refuses somewhat longer ones, and with them the whole group.
const maxKey = 2048

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
	bodies  [][]byte // of the steps
	shard   int      // of the steps' scope
	shards  []uint8  // of the events
	size    int      // in bytes, about
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
	if err := p.checkKeys(); err != nil {
		return err
	}
	p.shard = engine.Shard(p.Scope)
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
		p.size += len(p.Puts[i].Value)
	}
	if p.Field != nil {
		for i := range p.Field.Changes {
			p.size += len(p.Field.Changes[i].Body) + recordOverhead
		}
	}
	return nil
}

// checkKeys refuses what no index can hold.
func (p *pending) checkKeys() error {
	long := func(what string, n int) error {
		if n > maxKey {
			return fmt.Errorf("%w: %s is %d bytes long: want at most %d", store.ErrInvalid, what, n, maxKey)
		}
		return nil
	}
	if len(p.Steps) > 0 {
		if err := long("the scope", len(p.Scope)); err != nil {
			return err
		}
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		if err := errors.Join(long("a step's kind", len(s.Kind)), long("a step's window", len(s.Window)), long("a step's id", len(s.ID))); err != nil {
			return err
		}
	}
	for i := range p.Puts {
		if err := long("a row's space and key", len(p.Puts[i].Space)+len(p.Puts[i].Key)); err != nil {
			return err
		}
	}
	if p.Field != nil {
		return long("the field's name", len(p.Field.Name))
	}
	return nil
}

// records is how many positions the entry takes.
func (p *pending) records() int { return len(p.Events) + len(p.Steps) }

// compares reports whether the log has a say in whether the entry is written.
func (p *pending) compares() bool { return p.Owned() || p.Field != nil }

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

// group is what is committed together.
type group struct {
	entries  []*pending
	records  int
	bytes    int
	compares bool // one of the entries does
}

func (g *group) takes(p *pending) bool {
	return len(g.entries) == 0 || (g.records+p.records() <= groupRecords && g.bytes+p.size <= groupBytes)
}

func (g *group) add(p *pending) {
	g.entries = append(g.entries, p)
	g.records += p.records()
	g.bytes += p.size
	g.compares = g.compares || p.compares()
}

// queue is what waits for the writer. The owner's calls go before others.
type queue struct {
	mu       sync.Mutex
	filled   *sync.Cond
	owner    []*call
	others   []*call
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

// close refuses what comes; what waits is still taken.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.isClosed = true
	q.filled.Broadcast()
}

// take waits for work and returns a group of what is waiting, nil when the
// queue is closed and empty.
func (q *queue) take() *group {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.owner)+len(q.others) == 0 {
		if q.isClosed {
			return nil
		}
		q.filled.Wait()
	}
	g := new(group)
	if fill(g, &q.owner) {
		fill(g, &q.others)
	}
	return g
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

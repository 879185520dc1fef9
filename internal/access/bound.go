package access

import "sync"

// Bound counts what each principal holds of something, and lets none of them
// hold more than so many: one that takes too much takes it from nobody else. It
// is safe for concurrent use.
type Bound struct {
	max int

	mu  sync.Mutex
	of  map[string]int // by principal
	all int
}

// NewBound lets each principal hold so many.
func NewBound(limit int) *Bound { return &Bound{max: limit, of: make(map[string]int)} }

// Max is how many each may hold.
func (b *Bound) Max() int { return b.max }

// Enter takes a place for a principal; leave, unless ok is false, gives it back.
func (b *Bound) Enter(principal string) (leave func(), ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of[principal] >= b.max {
		return nil, false
	}
	b.of[principal]++
	b.all++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.all--
		if b.of[principal]--; b.of[principal] == 0 {
			delete(b.of, principal)
		}
	}, true
}

// Count is how many are held in all.
func (b *Bound) Count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all
}

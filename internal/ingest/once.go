package ingest

import "sync"

// maxOnce is how many names are told apart; what comes after is told of once.
const maxOnce = 1000

// once remembers for which names a warning has been written.
type once struct {
	mu   sync.Mutex
	seen map[string]struct{}
	full bool
}

// first reports whether the name is new. When there have been too many, last
// is true once and first never again.
func (o *once) first(name string) (first, last bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, there := o.seen[name]; there || o.full {
		return false, false
	}
	if len(o.seen) >= maxOnce {
		o.full, o.seen = true, nil
		return false, true
	}
	if o.seen == nil {
		o.seen = make(map[string]struct{})
	}
	o.seen[name] = struct{}{}
	return true, false
}

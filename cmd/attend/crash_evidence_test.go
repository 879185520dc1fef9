package main_test

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"
)

// eventKey names an event: an id is its scope's own.
type eventKey struct{ scope, id string }

// sentEvent is what a producer knows of an event that it has sent.
type sentEvent struct {
	name  string
	sum   [sha256.Size]byte // of what it carries
	acked bool              // a 200, or a line behind which `through` stood
	sends int               // bodies that held it
}

// sumOf is the digest of what an event carries.
func sumOf(data []byte, text string) [sha256.Size]byte {
	return sha256.Sum256(append(append(slices.Clone(data), 0), text...))
}

// waitAnswer is one call of attend_wait by the named consumer.
type waitAnswer struct {
	ack         string            // that the call brought
	failed      bool              // no answer came: whether the call was heard is not known
	decisions   []json.RawMessage // D, as shown
	token       string            // what acknowledges this answer
	redelivered bool
	truncated   bool
	timedOut    bool
	kept        bool // false: the agent behaves as if it had never come
}

// life is one run of the daemon. It was never ready when ready is zero.
type life struct {
	begun, ready, ended time.Time
}

// starting is how long the daemon took to become ready.
func (l *life) starting() time.Duration {
	if l.ready.IsZero() {
		return 0
	}
	return l.ready.Sub(l.begun)
}

// evidence is everything that the world outside the daemon saw.
type evidence struct {
	events  map[eventKey]sentEvent
	flushes map[string]int // scope → flush calls that were answered
	waits   []waitAnswer   // in order
	pages   [][]string     // ids of each page that the cursor reader took, in order
	lives   []life         // in order
	fields  fieldEvidence
	shared  bool // many replicas shared the store
	drained bool // at the end every scope was flushed and every reader read on to the head

	resent int // events that were sent again
	copies int // duplicates that ingest told of
}

// ledger gathers evidence from many goroutines.
type ledger struct {
	mu sync.Mutex
	evidence
}

func newLedger() *ledger {
	return &ledger{evidence: evidence{events: make(map[eventKey]sentEvent), flushes: make(map[string]int), fields: newFieldEvidence()}}
}

// sent notes the events of a body before its first byte goes out.
func (l *ledger) sent(lines []line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range lines {
		if lines[i].junk {
			continue
		}
		e := l.events[lines[i].key]
		if e.sends > 0 {
			l.resent++
		}
		e.name, e.sum = lines[i].name, lines[i].sum
		e.sends++
		l.events[lines[i].key] = e
	}
}

// acknowledged notes that the daemon has answered for these events.
func (l *ledger) acknowledged(lines []line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range lines {
		if lines[i].junk {
			continue
		}
		e := l.events[lines[i].key]
		e.acked = true
		l.events[lines[i].key] = e
	}
}

func (l *ledger) told(duplicates int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.copies += duplicates
}

func (l *ledger) flushed(scope string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flushes[scope]++
}

func (l *ledger) waited(a waitAnswer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waits = append(l.waits, a)
}

func (l *ledger) paged(ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pages = append(l.pages, ids)
}

// scopes returns every scope that has events, in order.
func (l *ledger) scopes() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := make(map[string]struct{})
	for key := range l.events {
		names[key.scope] = struct{}{}
	}
	for scope := range l.fields.scopes {
		names[scope] = struct{}{}
	}
	return slices.Sorted(maps.Keys(names))
}

// seal returns the evidence once nobody adds to it any more.
func (l *ledger) seal(lives []life, drained bool) *evidence {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lives, l.drained = lives, drained
	return &l.evidence
}

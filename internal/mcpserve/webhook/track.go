package webhook

import (
	"encoding/json"

	"attend/internal/engine"
)

// How much of a subscription may be under way: what has been read and not been
// taken, and what was taken beyond the oldest that was not.
const (
	maxOpen      = 64
	maxOpenBytes = 512 << 10
	maxTracked   = 512
)

// message is one thing to deliver: an occurrence, or a control body.
type message struct {
	id      string
	body    json.RawMessage // an object; of an occurrence without its cursor
	control bool

	before string // the cursor before it
	tries  int
	next   engine.Time // not to be tried before
	flying bool
	done   bool
}

// track is what has been read of a subscription, in order, from the oldest that
// is not finished. It knows the watermark.
type track struct {
	read     string // the cursor up to which has been read
	messages []*message
	open     int // not done
	bytes    int // of those
	known    map[string]trying
	done     map[string]bool
}

func newTrack(cursor string) *track {
	return &track{read: cursor, known: map[string]trying{}, done: map[string]bool{}}
}

// resume takes over what an earlier owner knew of messages beyond the cursor.
func (t *track) resume(p *progress) {
	for _, k := range p.Trying {
		t.known[k.ID] = k
	}
	for _, id := range p.Done {
		t.done[id] = true
	}
}

// watermark is the cursor up to which everything is finished.
func (t *track) watermark() string {
	if len(t.messages) == 0 {
		return t.read
	}
	return t.messages[0].before
}

// room tells whether more may be read.
func (t *track) room() bool {
	return t.open < maxOpen && t.bytes < maxOpenBytes && len(t.messages) < maxTracked
}

// add takes a message that was read, and after is the cursor behind it.
func (t *track) add(m *message, after string) {
	m.before, t.read = t.read, after
	if k, ok := t.known[m.id]; ok {
		m.tries, m.next = k.Tries, k.Next
		delete(t.known, m.id)
	}
	t.messages = append(t.messages, m)
	t.open++
	t.bytes += len(m.body)
	if t.done[m.id] {
		delete(t.done, m.id)
		t.finish(m)
	}
}

// replace takes a message that makes all before it pointless. Those that are
// not on their way are dropped; what it stands behind is what they stood behind,
// so that the watermark never passes what nobody has taken.
func (t *track) replace(m *message, after string) {
	kept := t.messages[:0]
	for _, old := range t.messages {
		switch {
		case old.control || old.flying || old.done:
			kept = append(kept, old)
		default:
			t.open--
			t.bytes -= len(old.body)
			t.read = old.before
		}
	}
	t.messages = kept
	t.add(m, after)
}

// finish notes that a message was taken, or given up.
func (t *track) finish(m *message) {
	if m.done {
		return
	}
	m.done, m.flying = true, false
	t.open--
	t.bytes -= len(m.body)
	m.body = nil
	for len(t.messages) > 0 && t.messages[0].done {
		t.messages = t.messages[1:]
	}
}

// due returns the oldest message that may be tried now; failing that, when one
// may be, 0 for none.
func (t *track) due(now engine.Time) (m *message, at engine.Time) {
	for _, m := range t.messages {
		switch {
		case m.done || m.flying:
		case m.next <= now:
			return m, 0
		case at == 0 || m.next < at:
			at = m.next
		}
	}
	return nil, at
}

// save writes what the next owner needs to know.
func (t *track) save(p *progress) {
	p.Cursor, p.Trying, p.Done = t.watermark(), nil, nil
	for _, m := range t.messages {
		switch {
		case m.control:
		case m.done:
			p.Done = append(p.Done, m.id)
		case m.tries > 0:
			p.Trying = append(p.Trying, trying{m.id, m.tries, m.next})
		}
	}
}

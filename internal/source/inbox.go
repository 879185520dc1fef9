package source

import (
	"sync"
	"time"
)

// maxInboxBytes bounds what notifications that wait may hold.
const maxInboxBytes = 32 << 20

// inbox holds what a stream has brought while what came before is stored. Its
// reader never waits.
type inbox struct {
	limit int
	came  chan struct{} // something is there

	mu      sync.Mutex
	list    []Notification
	bytes   int
	flooded bool
	last    time.Time // when something was last heard
}

func newInbox(limit int) *inbox {
	return &inbox{limit: limit, came: make(chan struct{}, 1), last: time.Now()}
}

// put adds a notification. When there are too many it drops them all, and
// whatever comes later.
func (in *inbox) put(n Notification) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.last = time.Now()
	if !in.flooded {
		in.list = append(in.list, n)
		in.bytes += len(n.Params)
		if len(in.list) > in.limit || in.bytes > maxInboxBytes {
			in.flooded, in.list = true, nil
		}
	}
	select {
	case in.came <- struct{}{}:
	default:
	}
}

// take returns what is to be stored next, as much as one commit holds.
func (in *inbox) take() (batch []Notification, flooded bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	n, size := 0, 0
	for n < len(in.list) && n < maxCommitEvents && (n == 0 || size+len(in.list[n].Params) <= maxCommitBytes) {
		size += len(in.list[n].Params)
		n++
	}
	batch = in.list[:n:n]
	in.list = in.list[n:]
	in.bytes -= size
	return batch, in.flooded
}

// silence is how long nothing has been heard.
func (in *inbox) silence() time.Duration {
	in.mu.Lock()
	defer in.mu.Unlock()
	return time.Since(in.last)
}

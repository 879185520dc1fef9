package store

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// outageEvery is how often an outage that goes on is told.
const outageEvery = 10 * time.Second

// Outage tells of a store that is away: when it begins, now and then how much
// was refused, and when it is over, however many requests meet it. Its methods
// are for concurrent use.
type Outage struct {
	Logger *slog.Logger
	Of     string // whose requests are refused

	on      atomic.Bool
	mu      sync.Mutex
	what    string
	refused int
	told    time.Time
}

// Failed notes that something was refused for a failure of the store. what
// names the work, since the store may do some work and not another; "" is any.
func (o *Outage) Failed(what string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if what != "" {
		o.what = what
	}
	o.refused++
	now := time.Now()
	if o.on.Load() && now.Sub(o.told) < outageEvery {
		return
	}
	o.on.Store(true)
	o.told = now
	args := []any{"of", o.Of, "refused", o.refused, "error", err}
	if what != "" {
		args = append(args, "last", what)
	}
	o.Logger.Error("the store does not answer: requests are refused", args...)
}

// Worked notes that the store did something. The outage is over when that is
// what failed last.
func (o *Outage) Worked(what string) {
	if !o.on.Load() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.on.Load() || o.what != "" && o.what != what {
		return
	}
	o.Logger.Info("the store answers again", "of", o.Of, "refused", o.refused)
	o.on.Store(false)
	o.what, o.refused = "", 0
}

package feed

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"attend/internal/store"
)

// DefaultMaxStreams is how many streams one principal may hold open at once.
const DefaultMaxStreams = 2000

// Streams counts the open streams of the feed, whatever interface they were
// opened at, and bounds how many one principal holds. A stream lives for as
// long as its reader likes, so no other bound would ever let go of it. It is
// safe for concurrent use.
type Streams struct {
	max  int
	open prometheus.Gauge

	mu sync.Mutex
	of map[string]int // by principal
}

// NewStreams bounds the streams of each principal to limit (0 is
// DefaultMaxStreams), and shows as attend_event_streams how many are open.
func NewStreams(reg prometheus.Registerer, limit int) (*Streams, error) {
	if limit == 0 {
		limit = DefaultMaxStreams
	}
	s := &Streams{
		max: limit,
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "attend_event_streams",
			Help: "Streams of events that are open, over HTTP and MCP.",
		}),
		of: make(map[string]int),
	}
	return s, store.Describe("register the metrics of streams", reg.Register(s.open))
}

// Enter counts a stream that a principal ("" where there are no tokens) opens,
// until leave is called. The error is a *LimitError: the principal holds as
// many as it may.
func (s *Streams) Enter(principal string) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[principal] >= s.max {
		return nil, &LimitError{Limit: "streams", Max: s.max}
	}
	s.of[principal]++
	s.open.Inc()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open.Dec()
		if s.of[principal]--; s.of[principal] == 0 {
			delete(s.of, principal)
		}
	}, nil
}

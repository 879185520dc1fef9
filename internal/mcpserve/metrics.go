package mcpserve

import (
	"fmt"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// methods are the ones counted by name; whatever else a caller makes up is
// counted as "other".
func methods() []string {
	return []string{
		"initialize", "server/discover", "ping", "tools/list", "tools/call",
		"events/list", "events/poll", "events/stream", "events/subscribe", "events/unsubscribe",
		"subscriptions/listen",
	}
}

type metrics struct {
	requests *prometheus.CounterVec
	known    []string
}

func newMetrics(reg prometheus.Registerer, sessions *sessions, waits, listeners *bound) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "attend_mcp_requests_total",
			Help: "MCP requests by method, and whether they were taken or refused.",
		}, []string{"method", "outcome"}),
		known: methods(),
	}
	for _, method := range append(methods(), "other") {
		for _, outcome := range []string{"taken", "refused"} {
			m.requests.WithLabelValues(method, outcome)
		}
	}
	gauge := func(name, help string, count func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(count()) })
	}
	for _, c := range []prometheus.Collector{
		m.requests,
		gauge("attend_mcp_waits", "Calls of attend_wait that are waiting now.", waits.count),
		gauge("attend_mcp_listeners", "Open streams that tell when the list of event types changes.", listeners.count),
		gauge("attend_mcp_sessions", "Open sessions of the protocol revisions that have sessions.", sessions.count),
	} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register the metrics of MCP: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) request(method string, taken bool) {
	if !slices.Contains(m.known, method) {
		method = "other"
	}
	outcome := "refused"
	if taken {
		outcome = "taken"
	}
	m.requests.WithLabelValues(method, outcome).Inc()
}

// bound is how much one principal may have going on at once.
type bound struct {
	max int
	mu  sync.Mutex
	of  map[string]int
	all int
}

func newBound(limit int) *bound { return &bound{max: limit, of: make(map[string]int)} }

// enter takes a place; leave, unless ok is false, gives it back.
func (b *bound) enter(principal string) (leave func(), ok bool) {
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

func (b *bound) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all
}

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
	waiting  prometheus.Gauge
	known    []string
}

func newMetrics(reg prometheus.Registerer, sessions func() int) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "attend_mcp_requests_total",
			Help: "MCP requests by method, and whether they were taken or refused.",
		}, []string{"method", "outcome"}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "attend_mcp_waits",
			Help: "Calls of attend_wait that are waiting now.",
		}),
		known: methods(),
	}
	open := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "attend_mcp_sessions",
		Help: "Open sessions of the protocol revisions that have sessions.",
	}, func() float64 { return float64(sessions()) })
	for _, method := range append(methods(), "other") {
		for _, outcome := range []string{"taken", "refused"} {
			m.requests.WithLabelValues(method, outcome)
		}
	}
	for _, c := range []prometheus.Collector{m.requests, m.waiting, open} {
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

// waits bounds how many calls of one principal wait at once.
type waits struct {
	max int
	mu  sync.Mutex
	of  map[string]int
}

func newWaits(limit int) *waits { return &waits{max: limit, of: make(map[string]int)} }

// enter takes a place; leave, unless ok is false, gives it back.
func (w *waits) enter(principal string) (leave func(), ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of[principal] >= w.max {
		return nil, false
	}
	w.of[principal]++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.of[principal]--; w.of[principal] == 0 {
			delete(w.of, principal)
		}
	}, true
}

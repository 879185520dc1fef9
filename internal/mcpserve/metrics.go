package mcpserve

import (
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"attend/internal/access"
)

// Methods are those that are answered, and counted by name; whatever else a
// caller makes up is counted as "other".
func Methods() []string {
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

func newMetrics(reg prometheus.Registerer, sessions *sessions, waits, listeners *access.Bound) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "attend_mcp_requests_total",
			Help: "MCP requests by method, and whether they were taken or refused.",
		}, []string{"method", "outcome"}),
		known: Methods(),
	}
	for _, method := range append(Methods(), "other") {
		for _, outcome := range []string{"taken", "refused"} {
			m.requests.WithLabelValues(method, outcome)
		}
	}
	gauge := func(name, help string, count func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(count()) })
	}
	for _, c := range []prometheus.Collector{
		m.requests,
		gauge("attend_mcp_waits", "Calls of attend_wait that are waiting now.", waits.Count),
		gauge("attend_mcp_listeners", "Open streams that tell when the list of event types changes.", listeners.Count),
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

package retention

import (
	"github.com/prometheus/client_golang/prometheus"

	"attend/internal/store"
)

type metrics struct {
	records   *prometheus.CounterVec
	oldest    prometheus.Gauge
	aside     prometheus.Gauge
	forgotten prometheus.Counter
	failures  prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		records:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "attend_log_compacted_records_total", Help: "Records deleted because they were too old, by table; aside is the events that were named for longer, once nobody named them."}, []string{"table"}),
		oldest:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "attend_log_oldest_timestamp_seconds", Help: "When the oldest record was accepted of those of which nothing was deleted; now, as of the last round, where all were."}),
		aside:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "attend_log_aside_events", Help: "Events older than they are to be kept that a window or a dead letter still names."}),
		forgotten: prometheus.NewCounter(prometheus.CounterOpts{Name: "attend_forgotten_scopes_total", Help: "Scopes whose state was deleted because nothing of them was left."}),
		failures:  prometheus.NewCounter(prometheus.CounterOpts{Name: "attend_retention_failures_total", Help: "Rounds of retention that failed; each is tried again."}),
	}
	for _, table := range []string{"events", "steps", "aside"} {
		m.records.WithLabelValues(table)
	}
	if reg != nil {
		reg.MustRegister(m.records, m.oldest, m.aside, m.forgotten, m.failures)
	}
	return m
}

func (m *metrics) compacted(done *store.Compacted) {
	m.records.WithLabelValues("events").Add(float64(done.Events))
	m.records.WithLabelValues("steps").Add(float64(done.Steps))
	m.records.WithLabelValues("aside").Add(float64(done.Released))
}

package ingest

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	accepted, duplicate, rejected, retryable prometheus.Counter
	duration                                 prometheus.Histogram
	unmapped                                 prometheus.Counter
	unknown                                  prometheus.Counter
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	events := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "attend_ingest_events_total",
		Help: "Lines of ingested bodies by what became of them: accepted, duplicate, rejected for good, or retryable (refused for now).",
	}, []string{"result"})
	m := &metrics{
		accepted:  events.WithLabelValues("accepted"),
		duplicate: events.WithLabelValues("duplicate"),
		rejected:  events.WithLabelValues("rejected"),
		retryable: events.WithLabelValues("retryable"),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "attend_ingest_request_duration_seconds",
			Help:    "Time from an ingest request's headers to its answer; a body that streams takes as long as it streams.",
			Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60},
		}),
		unmapped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "attend_unmapped_events_total",
			Help: "Committed events whose name no configured kind matches: they can never wake an agent.",
		}),
		unknown: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "attend_ingest_unknown_fields_total",
			Help: "Fields of ingested lines that attend does not know and ignored.",
		}),
	}
	for _, c := range []prometheus.Collector{events, m.duration, m.unmapped, m.unknown} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of ingest: %w", err)
		}
	}
	return m, nil
}

// count adds what became of a group's lines.
func (m *metrics) count(r *Result) {
	m.accepted.Add(float64(r.Accepted))
	m.duplicate.Add(float64(r.Duplicates))
	m.rejected.Add(float64(r.Rejected - r.retryable))
	m.retryable.Add(float64(r.retryable))
}

package store

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"attend/internal/engine"
)

// Metrics are what every store tells about its log:
// attend_log_append_duration_seconds, the time from a call of Append to its
// answer, and attend_log_position, the position of the last record.
type Metrics struct {
	appends prometheus.Histogram
}

// NewMetrics registers the metrics of a store whose log ends at head(). A nil
// registerer measures for nobody. It fails when the registerer already has a
// store's metrics.
func NewMetrics(r prometheus.Registerer, head func() engine.Position) (*Metrics, error) {
	m := &Metrics{appends: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "attend_log_append_duration_seconds",
		Help:    "Time from a call to append to the log until its entries were durable or refused.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
	})}
	if r == nil {
		return m, nil
	}
	position := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "attend_log_position",
		Help: "Position of the last record in the log.",
	}, func() float64 { return float64(head()) })
	for _, c := range []prometheus.Collector{m.appends, position} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("register the store's metrics: %w", err)
		}
	}
	return m, nil
}

// Appended records one call of Append.
func (m *Metrics) Appended(took time.Duration) { m.appends.Observe(took.Seconds()) }

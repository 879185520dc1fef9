package fields

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"attend/internal/field"
	"attend/internal/store"
)

type metrics struct {
	operations    *prometheus.CounterVec
	seconds       *prometheus.HistogramVec
	subscriptions prometheus.Gauge
	evaluations   prometheus.Counter
	pushes        prometheus.Counter
	loaded        prometheus.Gauge
}

// result is what became of an operation: the closed set of one label.
type result string

const (
	resultOK          result = "ok"
	resultRefused     result = "refused"     // by the protocol
	resultBusy        result = "busy"        // too many waited
	resultConflict    result = "conflict"    // other writers were faster each time
	resultUnavailable result = "unavailable" // the store did not answer, or the daemon stops
	resultUnknown     result = "unknown"     // it may or may not have been written
	resultCanceled    result = "canceled"    // the caller left before it began
	resultFailed      result = "failed"      // anything else
)

var results = [...]result{
	resultOK, resultRefused, resultBusy, resultConflict, resultUnavailable, resultUnknown, resultCanceled, resultFailed,
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "attend_field_operations_total",
			Help: "Operations on Fields, by what became of them.",
		}, []string{"op", "result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "attend_field_operation_duration_seconds",
			Help:    "Time from an operation on a Field to its answer.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2.5, 12),
		}, []string{"op"}),
		subscriptions: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "attend_field_subscriptions", Help: "Subscriptions to Fields that are open.",
		}),
		evaluations: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "attend_field_evaluations_total", Help: "Times that what a subscription would receive was worked out.",
		}),
		pushes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "attend_field_pushes_total", Help: "Changed results given to subscriptions.",
		}),
		loaded: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "attend_fields_loaded", Help: "Fields in memory.",
		}),
	}
	for _, op := range field.Ops() {
		m.seconds.WithLabelValues(string(op))
		for _, res := range results {
			m.operations.WithLabelValues(string(op), string(res))
		}
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.operations, m.seconds, m.subscriptions, m.evaluations, m.pushes, m.loaded} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of fields: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) operation(op field.Op, res result, took time.Duration) {
	m.operations.WithLabelValues(string(op), string(res)).Inc()
	m.seconds.WithLabelValues(string(op)).Observe(took.Seconds())
}

// resultOf says what became of an operation that ended with err.
func resultOf(err error) result {
	var refused *field.Error
	switch {
	case err == nil:
		return resultOK
	case errors.As(err, &refused):
		return resultRefused
	case errors.Is(err, ErrUnknownOutcome):
		return resultUnknown
	case errors.Is(err, ErrBusy):
		return resultBusy
	case errors.Is(err, store.ErrConflict):
		return resultConflict
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrClosed), errors.Is(err, ErrStopping):
		return resultUnavailable
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return resultCanceled
	default:
		return resultFailed
	}
}

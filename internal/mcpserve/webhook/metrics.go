package webhook

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// What can come of a try.
const (
	outcomeDelivered = "delivered"
	outcomeFailed    = "failed"    // and is tried again
	outcomeAbandoned = "abandoned" // the last try has failed
	outcomeRefused   = "refused"   // 410 or 413: for good
)

// States of a subscription.
const (
	stateActive    = "active"
	stateSuspended = "suspended"
	stateLocked    = "locked" // its secret cannot be read
	stateLapsed    = "lapsed"
)

type metrics struct{ deliveries *prometheus.CounterVec }

// newMetrics registers the metrics; count tells how many of the subscriptions
// that this daemon delivers are in which state.
func newMetrics(reg prometheus.Registerer, count func() map[string]int) (*metrics, error) {
	m := &metrics{deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "attend_webhook_deliveries_total",
		Help: "Tries to deliver an event by webhook: delivered, failed (and tried again), abandoned after the last try, refused for good.",
	}, []string{"outcome"})}
	for _, outcome := range []string{outcomeDelivered, outcomeFailed, outcomeAbandoned, outcomeRefused} {
		m.deliveries.WithLabelValues(outcome)
	}
	states := &stateCollector{
		desc: prometheus.NewDesc("attend_webhook_subscriptions",
			"Subscriptions by webhook that this daemon delivers, by state. Locked: ATTEND_SECRET_KEY does not fit.", []string{"state"}, nil),
		count: count,
	}
	for _, c := range []prometheus.Collector{m.deliveries, states} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register the metrics of webhooks: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) note(outcome string) { m.deliveries.WithLabelValues(outcome).Inc() }

type stateCollector struct {
	desc  *prometheus.Desc
	count func() map[string]int
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	of := c.count()
	for _, state := range []string{stateActive, stateSuspended, stateLocked, stateLapsed} {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(of[state]), state)
	}
}

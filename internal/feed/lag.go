package feed

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"attend/internal/store"
)

// lag tells at each scrape how far consumers are behind.
type lag struct {
	consumers *Consumers
	declared  []string
	desc      *prometheus.Desc
}

// Register adds attend_consumer_lag_records to a registerer: for each declared
// consumer its own, and under "other" the greatest of all others. Names that
// callers made up are no labels.
func (c *Consumers) Register(reg prometheus.Registerer, declared ...string) error {
	return store.Describe("register the metrics of consumers", reg.Register(&lag{
		consumers: c,
		declared:  declared,
		desc: prometheus.NewDesc("attend_consumer_lag_records",
			"Records of the log that a consumer has not acknowledged; of those not declared, the greatest.",
			[]string{"consumer"}, nil),
	}))
}

// Describe implements prometheus.Collector.
func (l *lag) Describe(ch chan<- *prometheus.Desc) { ch <- l.desc }

// Collect implements prometheus.Collector. While the store is down there is
// nothing to tell.
func (l *lag) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	list, err := l.consumers.List(ctx)
	if err != nil {
		return
	}
	other := int64(0)
	for i := range list {
		if slices.Contains(l.declared, list[i].Name) {
			ch <- prometheus.MustNewConstMetric(l.desc, prometheus.GaugeValue, float64(list[i].Lag), list[i].Name)
			continue
		}
		other = max(other, list[i].Lag)
	}
	ch <- prometheus.MustNewConstMetric(l.desc, prometheus.GaugeValue, float64(other), "other")
}

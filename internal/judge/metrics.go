package judge

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are those of the limits of all judges. They are made once: judges
// that a reload makes anew go on counting in them.
type Metrics struct {
	held *prometheus.CounterVec
	open *prometheus.GaugeVec
}

// NewMetrics registers the metrics.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		held: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "attend_judge_held_total",
			Help: "Judge calls that were not made, by configured judge: its breaker is open (breaker) or half open (probe), what a day may cost is spent, no place or turn came in time. The window waits and keeps its attempts.",
		}, []string{"judge", "why"}),
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "attend_judge_breaker_open",
			Help: "1 while a configured judge is left alone because it failed or asked for a pause, and is asked by probes alone; else 0.",
		}, []string{"judge"}),
	}
	for _, c := range []prometheus.Collector{m.held, m.open} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register the metrics of judges: %w", err)
		}
	}
	return m, nil
}

// judgeMetrics are those of one judge. The zero value counts nothing.
type judgeMetrics struct {
	held *prometheus.CounterVec
	open prometheus.Gauge
}

// of makes a judge's series, so that they are there before anything happens.
func (m *Metrics) of(judge string) judgeMetrics {
	if m == nil {
		return judgeMetrics{}
	}
	out := judgeMetrics{held: m.held.MustCurryWith(prometheus.Labels{"judge": judge}), open: m.open.WithLabelValues(judge)}
	for _, why := range []string{whyBreaker, whyProbe, whyCalls, whyTokens, whyPlace, whyRate} {
		out.held.WithLabelValues(why)
	}
	out.breaker(false)
	return out
}

func (m judgeMetrics) hold(why string) {
	if m.held != nil {
		m.held.WithLabelValues(why).Inc()
	}
}

func (m judgeMetrics) breaker(open bool) {
	switch {
	case m.open == nil:
	case open:
		m.open.Set(1)
	default:
		m.open.Set(0)
	}
}

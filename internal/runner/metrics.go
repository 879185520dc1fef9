package runner

import (
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"attend/internal/engine"
)

type metrics struct {
	openWindows  prometheus.Gauge
	scopes       prometheus.Gauge
	settles      *prometheus.CounterVec
	silenced     prometheus.Counter
	lag          prometheus.Histogram
	windowEvents prometheus.Histogram
	shed         *prometheus.CounterVec
	calls        *prometheus.CounterVec
	callSeconds  *prometheus.HistogramVec
	tokens       *prometheus.CounterVec
	judges       atomic.Pointer[[]string] // labels of calls; others count together
	outcomes     []string
	decisions    *prometheus.CounterVec
	deadLetters  *prometheus.CounterVec
	deliveries   *prometheus.CounterVec
	hookFailures *prometheus.CounterVec
	diverged     prometheus.Counter
	ignored      prometheus.Counter
	forgotten    prometheus.Counter
	behind       prometheus.Counter
	shardsOwned  prometheus.Gauge
	takeovers    prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		outcomes:    outcomes(),
		openWindows: prometheus.NewGauge(prometheus.GaugeOpts{Name: "attend_open_windows", Help: "Scopes in memory whose open window holds at least one event."}),
		scopes:      prometheus.NewGauge(prometheus.GaugeOpts{Name: "attend_scopes_in_memory", Help: "Scopes whose state is in memory."}),
		settles:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "attend_settles_total", Help: "Windows settled, by reason."}, []string{"reason"}),
		silenced:    prometheus.NewCounter(prometheus.CounterOpts{Name: "attend_silenced_windows_total", Help: "Windows that a silence kept from the judge."}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "attend_settle_lag_seconds", Help: "Time from the instant at which a window was due to the settle.",
			Buckets: []float64{.001, .002, .005, .01, .02, .05, .1, .25, .5, 1, 2.5, 10, 60, 600},
		}),
		windowEvents: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "attend_window_events", Help: "Events in a settled window.",
			Buckets: []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000},
		}),
		shed:         prometheus.NewCounterVec(prometheus.CounterOpts{Name: "attend_shed_events_total", Help: "Consequence and context events dropped by the rules, by cause."}, []string{"why"}),
		calls:        prometheus.NewCounterVec(prometheus.CounterOpts{Name: "attend_judge_calls_total", Help: "Exchanges with judges, by what came of them."}, []string{"judge", "outcome"}),
		callSeconds:  prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "attend_judge_duration_seconds", Help: "Duration of exchanges with judges.", Buckets: prometheus.ExponentialBuckets(.001, 2.5, 12)}, []string{"judge"}),
		tokens:       prometheus.NewCounterVec(prometheus.CounterOpts{Name: "attend_judge_tokens_total", Help: "Tokens that judges have read and written, as they say."}, []string{"judge", "direction"}),
		decisions:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "attend_decisions_total", Help: "Decisions, by route."}, []string{"route"}),
		deadLetters:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "attend_dead_letters_total", Help: "Dead letters, by stage."}, []string{"stage"}),
		deliveries:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "attend_deliveries_total", Help: "Deliveries of decisions and dead letters to sinks, by outcome."}, []string{"sink", "outcome"}),
		hookFailures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "attend_judge_hook_failures_total", Help: "Calls of a judge for which a hook did not bring all it should have, by hook."}, []string{"hook"}),
		diverged:     prometheus.NewCounter(prometheus.CounterOpts{Name: "attend_replay_divergences_total", Help: "Recorded steps that differ from what this version's rules make; the record wins."}),
		ignored:      prometheus.NewCounter(prometheus.CounterOpts{Name: "attend_ignored_answers_total", Help: "Answers and failures that no running call waited for."}),
		forgotten:    prometheus.NewCounter(prometheus.CounterOpts{Name: "attend_forgotten_ids_total", Help: "Event ids forgotten before their time because dedupIds later ones came."}),
		behind:       prometheus.NewCounter(prometheus.CounterOpts{Name: "attend_refused_proposals_total", Help: "Steps that the log refused because newer records stood in it; they are decided again."}),
		shardsOwned:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "attend_shards_owned", Help: "Shards of scopes whose decisions this replica makes; all of them where there are no replicas."}),
		takeovers:    prometheus.NewCounter(prometheus.CounterOpts{Name: "attend_takeovers_total", Help: "Shards that this replica has taken over, from another or from nobody."}),
	}
	reg.MustRegister(m.openWindows, m.scopes, m.settles, m.lag, m.windowEvents, m.shed, m.calls, m.callSeconds, m.tokens,
		m.decisions, m.deadLetters, m.diverged, m.ignored, m.forgotten, m.behind, m.shardsOwned, m.takeovers)
	reg.MustRegister(m.deliveries, m.silenced, m.hookFailures)
	for _, reason := range engine.Reasons() {
		m.settles.WithLabelValues(string(reason))
	}
	for _, route := range engine.Routes() {
		m.decisions.WithLabelValues(route.String())
	}
	for _, why := range []string{"overflow", "age"} {
		m.shed.WithLabelValues(why)
	}
	for _, hook := range []string{"context", "capture"} {
		m.hookFailures.WithLabelValues(hook)
	}
	for _, stage := range []string{engine.StageJudge, engine.StageSink, engine.StageWebhook} {
		m.deadLetters.WithLabelValues(stage)
	}
	return m
}

// observe counts a record that was appended while this daemon ran.
func (m *metrics) observe(rec *engine.Record) {
	st := rec.Step
	if st == nil {
		return
	}
	switch st.Kind { //nolint:exhaustive // the others have no metric of their own
	case engine.StepSettled:
		m.settles.WithLabelValues(string(st.Settled.Reason)).Inc()
		if st.Settled.Silence != "" {
			m.silenced.Inc()
		}
		m.lag.Observe(float64(max(rec.Stamp-st.Settled.Due, 0)) / 1000)
		m.windowEvents.Observe(float64(len(st.Settled.Events)))
	case engine.StepFailed:
		m.exchanges(st.Failed.Calls)
	case engine.StepDecision, engine.StepWait:
		m.exchanges(st.Verdict.Calls)
		m.decisions.WithLabelValues(st.Route.String()).Inc()
	case engine.StepTrace:
		if hook, failed := strings.CutSuffix(st.Trace.Name, "Failed"); failed && (hook == "context" || hook == "capture") {
			m.hookFailures.WithLabelValues(hook).Inc()
		}
	case engine.StepDelivered:
		m.deliveries.WithLabelValues(st.Delivery.Sink, "delivered").Inc()
	case engine.StepUndelivered:
		m.deliveries.WithLabelValues(st.Delivery.Sink, st.Delivery.Failed.Why).Inc()
	case engine.StepDeadLetter:
		m.deadLetters.WithLabelValues(st.DeadLetter.Stage).Inc()
	}
}

func (m *metrics) outcome(out *engine.Outcome) {
	if out.Overflow.Count > 0 {
		m.shed.WithLabelValues("overflow").Add(float64(out.Overflow.Count))
	}
	if out.Age.Count > 0 {
		m.shed.WithLabelValues("age").Add(float64(out.Age.Count))
	}
	m.forgotten.Add(float64(out.Forgotten))
	if out.Ignored {
		m.ignored.Inc()
	}
}

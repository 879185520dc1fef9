package hooks

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// result is what became of a request. The set is closed.
type result string

const (
	resultAccepted     result = "accepted"     // an event of it is new
	resultDuplicate    result = "duplicate"    // its events were known
	resultIgnored      result = "ignored"      // it brings no event: a ping, a handshake
	resultUnauthorized result = "unauthorized" // not signed, or wrongly
	resultInvalid      result = "invalid"      // some of it will never be taken
	resultTooLarge     result = "tooLarge"     // the body is over the limit
	resultCut          result = "cut"          // the body did not come whole
	resultBusy         result = "busy"         // to be sent again later
	resultUnavailable  result = "unavailable"  // the store did not take it
	resultNotFound     result = "notFound"     // there is no such hook
)

func results() []result {
	return []result{
		resultAccepted, resultDuplicate, resultIgnored, resultUnauthorized, resultInvalid,
		resultTooLarge, resultCut, resultBusy, resultUnavailable,
	}
}

// unknownHook stands for hooks that there are none of. It is no name of one.
const unknownHook = "(unknown)"

type metrics struct{ requests *prometheus.CounterVec }

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "attend_hook_requests_total",
		Help: "Requests to hooks by what became of them; those to names that no hook has are of the hook (unknown).",
	}, []string{"hook", "result"})}
	m.requests.WithLabelValues(unknownHook, string(resultNotFound))
	if err := r.Register(m.requests); err != nil {
		return nil, fmt.Errorf("register metrics of hooks: %w", err)
	}
	return m, nil
}

// expect sets every series of a hook to 0: one that nobody calls is to be seen.
func (m *metrics) expect(name string) {
	for _, what := range results() {
		m.requests.WithLabelValues(name, string(what))
	}
}

func (m *metrics) count(hook string, what result) {
	m.requests.WithLabelValues(hook, string(what)).Inc()
}

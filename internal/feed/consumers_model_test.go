package feed

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"attend/internal/engine"
)

// model is what a consumer should be told, in the plainest terms.
type model struct {
	*desk
	log     []*engine.Decision // since the consumer began
	acked   int                // of log, those that are behind the position
	pending []string           // ids of the last answer, until it is acknowledged
	next    int                // how many of log are behind the pending answer
	ack     string             // of the pending answer
	old     []string           // acks that were used
}

// expected is the next answer when nothing is pending.
func (m *model) expected() (want []string, next int) {
	ends := false
	for _, d := range m.log[m.acked:] {
		ends = ends || d.Route != engine.Note && d.Route != engine.Skip
	}
	if !ends {
		return nil, 0
	}
	next = len(m.log)
	for i, d := range m.log[m.acked:] {
		if d.Route == engine.Skip {
			continue
		}
		if len(want) == MaxAnswerDecisions {
			next = m.acked + i
			break
		}
		want = append(want, d.ID)
	}
	return want, next
}

// ask makes one call and holds the answer against the model.
func (m *model) ask(t *rapid.T, ack string) {
	if ack != "" && ack == m.ack && m.pending != nil {
		m.acked, m.pending, m.old = m.next, nil, append(m.old, ack)
	}
	got := m.look("c", ack)
	if m.pending != nil {
		if !got.Redelivered || got.Ack != m.ack || !cmp.Equal(m.pending, ids(got.Items)) {
			t.Fatalf("got %v, redelivered %t; want %v again", ids(got.Items), got.Redelivered, m.pending)
		}
		return
	}
	want, next := m.expected()
	if got.Redelivered || got.TimedOut != (want == nil) || !cmp.Equal(append([]string{}, want...), ids(got.Items)) {
		t.Fatalf("got %v, redelivered %t, timed out %t; want %v", ids(got.Items), got.Redelivered, got.TimedOut, want)
	}
	if want != nil {
		m.pending, m.next, m.ack = want, next, got.Ack
	}
}

// Whatever is decided, acknowledged, lost, repeated or restarted, a consumer
// gets every decision, in order, until it has acknowledged it.
func TestConsumers_Model(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{desk: newDesk(t, ConsumersOptions{})}
		m.ask(t, "")
		t.Repeat(map[string]func(*rapid.T){
			"decide": func(t *rapid.T) {
				route := rapid.SampledFrom(engine.Routes()[:5]).Draw(t, "route")
				for range rapid.SampledFrom([]int{1, 1, 1, 60}).Draw(t, "times") {
					m.log = append(m.log, m.decide(fmt.Sprint(len(m.log)%3), route, nil))
				}
			},
			"events":        func(*rapid.T) { m.happen("a", 3) },
			"restart":       func(*rapid.T) { m.restart() },
			"call":          func(t *rapid.T) { m.ask(t, "") },
			"acknowledge":   func(t *rapid.T) { m.ask(t, m.ack) },
			"repeat an ack": func(t *rapid.T) { m.ask(t, rapid.SampledFrom(append(m.old, "")).Draw(t, "ack")) },
			"other":         func(*rapid.T) { m.look("other", "") },
		})
	})
}

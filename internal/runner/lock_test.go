package runner_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"attend/internal/engine"
	"attend/internal/runner"
	"attend/internal/store"
)

// asked is a store during whose answers a producer asks the runner something,
// as happens when the answers take their time.
type asked struct {
	store.Store
	ask func()
}

func (s *asked) Steps(ctx context.Context, q store.StepQuery) ([]engine.Record, error) {
	if s.ask != nil {
		s.ask()
	}
	return s.Store.Steps(ctx, q)
}

// While the policies are read, who asks the runner something does not wait for
// the store.
func TestRunner_AnswersWhileItReadsPolicies(t *testing.T) {
	st := &asked{Store: open(t)}
	p := policy("rule", kinds)
	if err := p.Compile(); err != nil {
		t.Fatal(err)
	}
	if err := runner.EnsurePolicy(t.Context(), st, &p); err != nil {
		t.Fatal(err)
	}
	r := runner.New(runner.Options{Store: st, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry()})
	answers := 0
	st.ask = func() {
		_ = r.Remembers("a", engine.DigestOf("one"))
		answers++
	}
	if err := r.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if answers == 0 {
		t.Error("the policies were not read")
	}
}

package app_test

import (
	"strings"
	"testing"

	"attend/internal/app"
	"attend/internal/engine"
	"attend/internal/runner"
	"attend/internal/store/memory"
)

// A replica that is given no kinds starts only where there are none: the newest
// policy counts, and not one before.
func TestRefuseNoKinds(t *testing.T) {
	st := memory.New(memory.Options{})
	t.Cleanup(func() { _ = st.Close() })
	record := func(kinds map[string]engine.Kind) {
		t.Helper()
		p := engine.Policy{Kinds: kinds, Default: engine.Defaults(), Judge: "rule"}
		if err := runner.EnsurePolicy(t.Context(), st, &p); err != nil {
			t.Fatal(err)
		}
	}
	if err := app.RefuseNoKinds(t.Context(), st); err != nil {
		t.Errorf("a new store: %v", err)
	}
	record(map[string]engine.Kind{"ask": engine.Flush, "log": engine.Consequence})
	if err := app.RefuseNoKinds(t.Context(), st); err == nil || !strings.Contains(err.Error(), "has 2") || !strings.Contains(err.Error(), "--kinds '{}'") {
		t.Errorf("where there are kinds: %v", err)
	}
	record(nil)
	if err := app.RefuseNoKinds(t.Context(), st); err != nil {
		t.Errorf("where there are none any more: %v", err)
	}
}

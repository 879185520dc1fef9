package storetest

import (
	"context"
	"errors"

	"attend/internal/engine"
	"attend/internal/store"
)

// callsOf is one call of every method that can fail.
func callsOf(ctx context.Context, s store.Store, f store.Fence) map[string]func() error {
	return map[string]func() error{
		"Append":       func() error { _, err := s.Append(ctx, entry("a")); return err },
		"Head":         func() error { _, err := s.Head(ctx); return err },
		"Read":         func() error { _, err := s.Read(ctx, 0, 1); return err },
		"Wait":         func() error { return s.Wait(ctx, 1<<40) },
		"Events":       func() error { _, err := s.Events(ctx, []engine.Position{1}); return err },
		"Steps":        func() error { _, err := s.Steps(ctx, store.StepQuery{}); return err },
		"SaveStates":   func() error { return s.SaveStates(ctx, f, nil, 1) },
		"LoadState":    func() error { _, err := s.LoadState(ctx, "a"); return err },
		"LiveStates":   func() error { _, err := s.LiveStates(ctx, "", 1); return err },
		"ScopeNames":   func() error { _, err := s.ScopeNames(ctx, "", 1); return err },
		"Checkpoint":   func() error { _, err := s.Checkpoint(ctx, f); return err },
		"Row":          func() error { _, err := s.Row(ctx, "x", "k"); return err },
		"Rows":         func() error { _, err := s.Rows(ctx, "x"); return err },
		"FieldChanges": func() error { _, err := s.FieldChanges(ctx, "f", 0, 1); return err },
		"FieldHead":    func() error { _, err := s.FieldHead(ctx, "f"); return err },
		"FieldNames":   func() error { _, err := s.FieldNames(ctx, "", 1); return err },
		"Own":          func() error { _, err := s.Own(ctx); return err },
		"Secret":       func() error { _, err := s.Secret(ctx); return err },
	}
}

func closeCases() []testCase {
	return []testCase{
		{"NothingWorksAfterwards", func(e *env) {
			f := e.own()
			e.write(entry("a"))
			if err := e.s.Close(); err != nil {
				e.Fatalf("close: %v", err)
			}
			for name, call := range callsOf(e.Context(), e.s, f) {
				if err := call(); !errors.Is(err, store.ErrClosed) {
					e.Errorf("%s: %v, want closed", name, err)
				}
			}
			if err := e.s.Close(); err != nil {
				e.Errorf("a second close: %v", err)
			}
		}},
		{"WaitsEnd", func(e *env) {
			done := make(chan error)
			for range 5 {
				go func() { done <- waitFor(e.Context(), e.s, 0) }()
			}
			if err := e.s.Close(); err != nil {
				e.Fatalf("close: %v", err)
			}
			for range 5 {
				if err := <-done; !errors.Is(err, store.ErrClosed) {
					e.Errorf("wait: %v, want closed", err)
				}
			}
		}},
		{"AppendsAreWrittenOrRefused", func(e *env) {
			type outcome struct {
				rs  []store.Receipt
				err error
			}
			done := make(chan outcome)
			for range 8 {
				go func() {
					rs, err := e.s.Append(e.Context(), entry("a"))
					done <- outcome{rs, err}
				}()
			}
			if err := e.s.Close(); err != nil {
				e.Fatalf("close: %v", err)
			}
			for range 8 {
				o := <-done
				if (o.err != nil && !errors.Is(o.err, store.ErrClosed)) || (o.err == nil && o.rs[0].Err != nil) {
					e.Errorf("an append at the close: %+v, %v", o.rs, o.err)
				}
			}
		}},
	}
}

package app

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
	"attend/internal/judge"
)

func TestMergeFacts(t *testing.T) {
	for _, c := range []struct{ first, second, want string }{
		{"", "", ""},
		{`{"a":1}`, "", `{"a":1}`},
		{"", `{"a":1}`, `{"a":1}`},
		{`{"b":"<x>","field":1}`, `{"field":{"name":"ops"},"a":9007199254740993}`, `{"a":9007199254740993,"b":"<x>","field":{"name":"ops"}}`},
	} {
		raw := func(s string) json.RawMessage {
			if s == "" {
				return nil
			}
			return json.RawMessage(s)
		}
		if got, err := mergeFacts(raw(c.first), raw(c.second)); err != nil || string(got) != c.want {
			t.Errorf("%s and %s: %s, %v; want %s", c.first, c.second, got, err, c.want)
		}
	}
	if _, err := mergeFacts(json.RawMessage(`{"a":1}`), json.RawMessage(`[1]`)); err == nil {
		t.Error("a list was merged with an object")
	}
}

// Both are asked at once, and what one brought is there although the other failed.
func TestJoined(t *testing.T) {
	down := errors.New("the hook is down")
	meet := make(chan struct{})
	both := joined(
		func(ctx context.Context, scope string) (judge.Context, error) {
			select {
			case meet <- struct{}{}:
			case <-ctx.Done():
			}
			return judge.Context{Predicates: []engine.Predicate{{Name: scope, Question: "Is it?"}}}, down
		},
		func(ctx context.Context, _ string) (judge.Context, error) {
			select {
			case <-meet:
			case <-ctx.Done():
			}
			return judge.Context{Facts: json.RawMessage(`{"field":1}`)}, ctx.Err()
		},
	)
	got, err := both(t.Context(), "chat:1")
	if !errors.Is(err, down) || strings.Contains(err.Error(), "context canceled") {
		t.Errorf("the error is %v", err)
	}
	want := judge.Context{Facts: json.RawMessage(`{"field":1}`), Predicates: []engine.Predicate{{Name: "chat:1", Question: "Is it?"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("joined (-want +got):\n%s", diff)
	}
}

package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"attend/internal/config"
	"attend/internal/fields"
	"attend/internal/judge"
)

// contexts brings what a judge is told beside the window.
type contexts func(ctx context.Context, scope string) (judge.Context, error)

// contexts joins what the hook and a Field bring; nil where neither is configured.
func (a *App) contexts(hook contexts, ask *config.Attune) contexts {
	attuned := attuneFacts(func() *fields.Service { return a.fields }, ask)
	if attuned == nil {
		return hook
	}
	field := func(ctx context.Context, scope string) (judge.Context, error) {
		facts, err := attuned(ctx, scope)
		return judge.Context{Facts: facts}, err
	}
	if hook == nil {
		return field
	}
	return joined(hook, field)
}

// joined asks both at once. Where both bring a fact of one name, that of the
// second counts. What one brought is not lost when the other fails: it comes
// beside the error.
func joined(first, second contexts) contexts {
	return func(ctx context.Context, scope string) (judge.Context, error) {
		type brought struct {
			judge.Context
			err error
		}
		other := make(chan brought, 1)
		go func() {
			c, err := second(ctx, scope)
			other <- brought{c, err}
		}()
		c, err := first(ctx, scope)
		more := <-other
		facts, bad := mergeFacts(c.Facts, more.Facts)
		return judge.Context{Facts: facts, Predicates: append(c.Predicates, more.Predicates...)}, errors.Join(err, more.err, bad)
	}
}

// mergeFacts makes one object of two, either of which may be nil. A name that
// both have is the second's.
func mergeFacts(first, second json.RawMessage) (json.RawMessage, error) {
	switch {
	case first == nil:
		return second, nil
	case second == nil:
		return first, nil
	}
	merged := make(map[string]json.RawMessage)
	for _, facts := range []json.RawMessage{first, second} {
		if err := json.Unmarshal(facts, &merged); err != nil {
			return nil, fmt.Errorf("merge facts: %w", err)
		}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // a judge reads what others wrote
	if err := enc.Encode(merged); err != nil {
		return nil, fmt.Errorf("merge facts: %w", err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"attend/internal/fields"
	"attend/internal/judge"
	"attend/internal/judge/exec"
	"attend/internal/runner"
)

// contexts brings what a judge is told beside the window.
type contexts func(ctx context.Context, scope string) (judge.Context, error)

// buildContext joins what a Field and the hook bring; nil where neither is
// configured.
func (a *App) buildContext(b *bench) (contexts, error) {
	hook, err := b.hook(&a.cfg.Judges.Context)
	if err != nil {
		return nil, fmt.Errorf("the context hook: %w", err)
	}
	var sources []contexts
	if hook != nil {
		sources = append(sources, exec.Context(hook))
	}
	if attuned := attuneFacts(func() *fields.Service { return a.fields }, a.cfg.Context.Attune); attuned != nil {
		sources = append(sources, func(ctx context.Context, scope string) (judge.Context, error) {
			facts, err := attuned(ctx, scope)
			return judge.Context{Facts: facts}, err
		})
	}
	switch len(sources) {
	case 0:
		return nil, nil
	case 1:
		return sources[0], nil
	default:
		return joined(sources[0], sources[1]), nil
	}
}

// facts leaves the questions of a hook out.
func (c contexts) facts() runner.Facts {
	if c == nil {
		return nil
	}
	return func(ctx context.Context, scope string) (json.RawMessage, error) {
		brought, err := c(ctx, scope)
		return brought.Facts, err
	}
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

package app

import (
	"context"
	"errors"
	"fmt"

	"attend/internal/config"
	"attend/internal/ingest"
	"attend/internal/ingest/hooks"
)

// pathHook is the path of every hook.
const pathHook = "/v1/hooks/{name}"

// buildHooks makes the hooks; they take what ingest takes.
func (a *App) buildHooks() (*hooks.Service, error) {
	list, err := hooksOf(a.cfg)
	if err != nil {
		return nil, err
	}
	return hooks.New(hooks.Options{
		Hooks: list, Push: hookPusher{a.ingest}.push, Logger: a.log, Registerer: a.opt.Registry,
		MaxEventBytes: func(scope string) int64 { return a.runner.Policy().For(scope).MaxEventBytes },
	})
}

// hooksOf are the hooks of a configuration.
func hooksOf(c *config.Config) ([]hooks.Hook, error) {
	list := make([]hooks.Hook, len(c.Hooks))
	for i := range c.Hooks {
		h, err := hookOf(&c.Hooks[i])
		if err != nil {
			return nil, fmt.Errorf("hook %s: %w", c.Hooks[i].Name, err)
		}
		list[i] = h
	}
	return list, nil
}

// hookOf gives a hook its secrets.
func hookOf(c *config.InHook) (hooks.Hook, error) {
	h := hooks.Hook{
		Name: c.Name, Type: c.Type, Scope: c.Scope, Scheme: c.Signature, Tolerance: c.Tolerance, Event: c.Event,
		Bearer: revealed(c.Bearer),
	}
	if len(c.Passwords) > 0 {
		h.Basic = &hooks.Basic{User: c.User, Passwords: revealed(c.Passwords)}
	}
	for _, secret := range revealed(c.Secrets) {
		key := []byte(secret)
		if c.Type == hooks.StandardWebhooks {
			var err error
			if key, err = hooks.ParseSecret(secret); err != nil {
				return h, fmt.Errorf("a secret %w", err)
			}
		}
		h.Secrets = append(h.Secrets, key)
	}
	return h, nil
}

func revealed(secrets []config.Secret) []string {
	var all []string
	for _, s := range secrets {
		all = append(all, s.Reveal())
	}
	return all
}

// hookPusher gives ingest to hooks without naming its types. Nobody's rights are
// asked for: a hook writes where its configuration says.
type hookPusher struct{ ingest *ingest.Handler }

// push implements hooks.Push.
func (p hookPusher) push(ctx context.Context, events []hooks.Event) (hooks.Pushed, error) {
	w := &ingest.Whole{Lines: make([]ingest.Line, len(events))}
	for i := range events {
		e := &events[i]
		w.Lines[i] = ingest.Line{Scope: e.Scope, Name: e.Name, ID: e.ID, At: e.At, Data: e.Data, Text: e.Text}
	}
	r, err := p.ingest.PushWhole(ctx, w)
	if busy, ok := errors.AsType[*ingest.Busy](err); ok {
		return hooks.Pushed{}, fmt.Errorf("%w: %w", hooks.ErrBusy, busy)
	}
	pushed := hooks.Pushed{Accepted: r.Accepted, Duplicates: r.Duplicates, Rejected: r.Rejected}
	for _, e := range r.Errors {
		pushed.Faults = append(pushed.Faults, hooks.Fault{Event: e.Line, Error: e.Error})
	}
	return pushed, err
}

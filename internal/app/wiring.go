package app

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/go-chi/chi/v5"

	"attend/internal/access"
	"attend/internal/api"
	"attend/internal/feed"
	"attend/internal/ingest"
	"attend/internal/mcpserve"
	"attend/internal/runner"
	"attend/internal/silences"
)

// mount makes the adapters and adds their routes.
func (a *App) mount(r chi.Router) error {
	reader := feed.NewReader(a.store)
	a.outbox.reader = reader
	a.consumers = feed.NewConsumers(a.store, reader, feed.ConsumersOptions{Shared: a.leases != nil})
	if err := a.consumers.Register(a.opt.Registry); err != nil {
		return err
	}
	streams, err := feed.NewStreams(a.opt.Registry, 0)
	if err != nil {
		return err
	}
	a.ingest, err = ingest.New(ingest.Options{
		Log: a.store, Owner: a.runner, Logger: a.log, Registerer: a.opt.Registry,
		Allows: func(ctx context.Context, scope string) bool { return access.From(ctx).May(access.Ingest, scope) },
	})
	if err != nil {
		return err
	}
	a.silences = silences.New(a.store, a.store.Now)
	if err := a.buildSources(); err != nil {
		return err
	}
	handlers, err := api.New(api.Options{
		Log:       a.store,
		Feed:      reader,
		Scopes:    scopeViews{a.runner},
		Marks:     a.runner,
		Consumers: a.consumers,
		Sources:   sourceViews{a},
		Silences:  a.silences,
		Reload:    a.reloadFor,
		Streams:   streams,
		Fields:    a.fields,
		Stopping:  a.stopping,
		Logger:    a.log,
	})
	if err != nil {
		return err
	}
	posts, err := a.buildWebhooks()
	if err != nil {
		return err
	}
	protocol, err := mcpserve.New(mcpserve.Options{
		Reader:     reader,
		Consumers:  a.consumers,
		Streams:    streams,
		Push:       pusher{a.ingest},
		Flush:      handlers,
		Silences:   a.silences,
		Scopes:     toolViews{scopeViews{a.runner}},
		Fields:     a.fields,
		Logger:     a.log,
		Registerer: a.opt.Registry,
		Version:    ReadBuild().Version,
		Webhooks:   offered(posts),
		Caller:     func(ctx context.Context) mcpserve.Caller { return callerFor(access.From(ctx)) },
		Principal:  a.principal,
		Now:        a.store.Now,
		Stopping:   a.stopping,
	})
	if err != nil {
		return err
	}
	a.webhooks = webhooks{posts, protocol}
	if a.hooks, err = a.buildHooks(); err != nil {
		return err
	}
	r.Method(http.MethodPost, pathHook, a.hooks)
	r.Method(http.MethodOptions, pathHook, a.hooks)
	r.Handle(pathIngest, needs(access.Ingest, a.ingest)) // it says itself what other methods should be
	r.Method(http.MethodGet, pathMCP, protocol)
	r.Method(http.MethodPost, pathMCP, protocol)
	r.Method(http.MethodDelete, pathMCP, protocol)
	handlers.Register(r)
	return nil
}

// pusher gives ingest to MCP without naming its types.
type pusher struct{ ingest *ingest.Handler }

// Push takes events in as an ingest body would bring them.
func (p pusher) Push(ctx context.Context, events []json.RawMessage) (mcpserve.Pushed, error) {
	result, err := p.ingest.PushJSON(ctx, "", events)
	pushed := mcpserve.Pushed{
		Accepted: result.Accepted, Duplicates: result.Duplicates, Rejected: result.Rejected,
		Errors: make([]mcpserve.PushFault, len(result.Errors)),
	}
	for i, e := range result.Errors {
		pushed.Errors[i] = mcpserve.PushFault{Line: e.Line, Code: string(e.Code), Error: e.Error, Retryable: e.Retryable}
	}
	return pushed, err
}

// scopeViews gives the runner's views to the API without naming their type.
type scopeViews struct{ runner *runner.Runner }

// Scope returns the view of one scope.
func (s scopeViews) Scope(ctx context.Context, scope string) (api.ScopeView, error) {
	v, err := s.runner.Scope(ctx, scope)
	return api.ScopeView{Scope: scope, View: v}, err
}

// Scopes returns views ordered by name.
func (s scopeViews) Scopes(ctx context.Context, after string, limit int) ([]api.ScopeView, error) {
	views, err := s.runner.Scopes(ctx, after, limit)
	if err != nil {
		return nil, err
	}
	out := make([]api.ScopeView, len(views))
	for i := range views {
		out[i] = api.ScopeView{Scope: views[i].Scope, View: views[i]}
	}
	return out, nil
}

// toolViews gives the same views to MCP.
type toolViews struct{ views scopeViews }

// Scope returns the view of one scope.
func (t toolViews) Scope(ctx context.Context, scope string) (mcpserve.ScopeView, error) {
	v, err := t.views.Scope(ctx, scope)
	return mcpserve.ScopeView(v), err
}

// Scopes returns views ordered by name.
func (t toolViews) Scopes(ctx context.Context, after string, limit int) ([]mcpserve.ScopeView, error) {
	views, err := t.views.Scopes(ctx, after, limit)
	out := make([]mcpserve.ScopeView, len(views))
	for i := range views {
		out[i] = mcpserve.ScopeView(views[i])
	}
	return out, err
}

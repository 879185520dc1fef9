// Package api serves what people and programs ask the daemon over HTTP under
// /v1, but for ingest: decisions and the story of each, flush calls, scopes,
// dead letters, consumers, Fields.
//
// Reading holds nothing: a page is a position in the log and a filter, and a
// cursor is good on any of the daemon's interfaces. What changes something
// (flush, requeue) is one step appended to the log; the fold does the rest.
package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"attend/internal/engine"
	"attend/internal/feed"
	"attend/internal/fields"
	"attend/internal/store"
)

// Limits of what one request may ask for.
const (
	defaultLimit = 100
	maxLimit     = 1000
	maxWait      = 30 * time.Second
	maxWaiting   = 1000 // requests that wait at once
	maxBodyBytes = 64 << 10
	maxPageBytes = 8 << 20 // of events' data in one page; one item always fits
	maxStory     = 1000    // steps of one window

	flushPatience = time.Second // for what a flush call marked

	readTimeout  = 15 * time.Second // of a request's body
	writeTimeout = maxWait + 60*time.Second
)

// Scopes shows what each scope holds now.
type Scopes interface {
	// Scope returns the view of one scope, known or not.
	Scope(ctx context.Context, scope string) (ScopeView, error)
	// Scopes returns at most limit views, ordered by name, after the name given.
	Scopes(ctx context.Context, after string, limit int) ([]ScopeView, error)
}

// ScopeView is S of the API, ready to be encoded.
type ScopeView struct {
	Scope string
	View  any
}

// Marks tells what a flush call did.
type Marks interface {
	// Marked waits until the flush call at the position has been applied and
	// returns what it marked: a subset of "open", "held", "judging".
	Marked(ctx context.Context, at engine.Position) ([]string, error)
}

// Consumers are the named readers whose positions the daemon keeps.
type Consumers interface {
	// List returns every consumer by name.
	List(ctx context.Context) ([]feed.Consumer, error)
	// Delete forgets one consumer; feed.ErrNoConsumer when there is none.
	Delete(ctx context.Context, name string) error
}

// Options are what the handlers need. All are required.
type Options struct {
	Log       store.Log
	Feed      *feed.Reader
	Scopes    Scopes
	Marks     Marks
	Consumers Consumers
	Streams   *feed.Streams
	Fields    Fields
	// FieldAccess says which Fields the sender of a request may use, and for
	// which agents it may speak there.
	FieldAccess func(context.Context) fields.Access
	// Principal names who sent a request, "" where there are no tokens.
	Principal func(context.Context) string
	// Admin guards the routes that need the right of that name.
	Admin func(http.Handler) http.Handler
	// Stopping is closed when the daemon begins to stop: requests that wait are
	// then answered at once, and streams end.
	Stopping <-chan struct{}
	Logger   *slog.Logger
}

// API holds the handlers.
type API struct {
	Options
	tail    *feed.Tail
	waiting chan struct{} // holds one for each request that waits
}

// New checks the options and returns the handlers.
func New(o Options) (*API, error) {
	if o.Log == nil || o.Feed == nil || o.Scopes == nil || o.Marks == nil || o.Consumers == nil ||
		o.Streams == nil || o.Fields == nil || o.FieldAccess == nil || o.Principal == nil || o.Admin == nil || o.Stopping == nil || o.Logger == nil {
		return nil, errors.New("api: an option is missing")
	}
	return &API{Options: o, tail: feed.NewTail(o.Feed, o.Stopping), waiting: make(chan struct{}, maxWaiting)}, nil
}

// Register adds the routes. A name in a path is one percent-encoded segment.
func (a *API) Register(r chi.Router) {
	r.Method(http.MethodGet, "/v1/decisions", a.handle(a.listDecisions))
	r.Method(http.MethodGet, "/v1/decisions/stream", a.handle(a.streamDecisions))
	r.Method(http.MethodGet, "/v1/decisions/{id}", a.handle(a.showDecision))
	r.Method(http.MethodPost, "/v1/flush", a.handle(a.flushBody))
	r.Method(http.MethodPost, "/v1/scopes/{scope}/flush", a.handle(a.flushPath))
	r.Method(http.MethodGet, "/v1/scopes", a.handle(a.listScopes))
	r.Method(http.MethodGet, "/v1/scopes/{scope}", a.handle(a.showScope))
	r.Method(http.MethodGet, "/v1/deadletters", a.handle(a.listDeadLetters))
	r.Method(http.MethodGet, "/v1/deadletters/{id}", a.handle(a.showDeadLetter))
	r.Method(http.MethodPost, "/v1/deadletters/{id}/requeue", a.Admin(a.handle(a.requeue)))
	r.Method(http.MethodGet, "/v1/consumers", a.handle(a.listConsumers))
	r.Method(http.MethodGet, "/v1/consumers/{name}", a.handle(a.showConsumer))
	r.Method(http.MethodDelete, "/v1/consumers/{name}", a.Admin(a.handle(a.deleteConsumer)))
	a.registerField(r)
}

// handle bounds the time that a request may take, and answers an error as a
// problem. While a handler runs there is no read deadline, unless it reads a
// body: one that passed would end the request's context.
func (a *API) handle(serve func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		deadlines := http.NewResponseController(w)
		_ = deadlines.SetWriteDeadline(time.Now().Add(writeTimeout)) // a writer that cannot is no connection
		if err := serve(w, r); err != nil {
			a.fail(w, r, err)
		}
		_ = deadlines.SetReadDeadline(time.Now().Add(readTimeout)) // for a body that nobody has read
	})
}

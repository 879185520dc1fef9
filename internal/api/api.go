// Package api serves what people and programs ask the daemon over HTTP under
// /v1, but for ingest: decisions and the story of each, flush calls, scopes,
// dead letters, consumers, sources, silences, reloads, Fields.
//
// Reading holds nothing: a page is a position in the log and a filter, and a
// cursor is good on any of the daemon's interfaces. What changes something
// (flush, requeue, silence) is one step appended to the log; the fold does the rest.
package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"attend/internal/access"
	"attend/internal/engine"
	"attend/internal/feed"
	"attend/internal/store"
)

// Limits of what one request may ask for.
const (
	defaultLimit = 100
	maxLimit     = 1000
	maxWait      = 30 * time.Second
	maxWaiting   = 1000 // requests of one principal that wait at once
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

// Options are what the handlers need. All are required. Who sent a request they
// find in its context ([access.From]).
type Options struct {
	Log       store.Log
	Feed      *feed.Reader
	Scopes    Scopes
	Marks     Marks
	Consumers Consumers
	Sources   Sources
	Silences  Silences
	Reload    Reloader
	Streams   *feed.Streams
	Fields    Fields
	// Stopping is closed when the daemon begins to stop: requests that wait are
	// then answered at once, and streams end.
	Stopping <-chan struct{}
	Logger   *slog.Logger
}

// API holds the handlers.
type API struct {
	Options
	tail    *feed.Tail
	waiting *access.Bound // the requests that wait
	outage  store.Outage
}

// New checks the options and returns the handlers.
func New(o Options) (*API, error) {
	if o.Log == nil || o.Feed == nil || o.Scopes == nil || o.Marks == nil || o.Consumers == nil || o.Sources == nil || o.Silences == nil || o.Reload == nil ||
		o.Streams == nil || o.Fields == nil || o.Stopping == nil || o.Logger == nil {
		return nil, errors.New("api: an option is missing")
	}
	a := &API{Options: o, tail: feed.NewTail(o.Feed, o.Stopping), waiting: access.NewBound(maxWaiting)}
	a.outage = store.Outage{Logger: o.Logger, Of: "api"}
	return a, nil
}

// anyRight is for what whoever gets in may ask for.
const anyRight = ""

// route is a route, and the right that it needs (design, section 9).
type route struct {
	method, path, right string
	serve               func(http.ResponseWriter, *http.Request) error
}

// routes are all but those of the Fields. A name in a path is one
// percent-encoded segment.
func (a *API) routes() []route {
	return []route{
		{http.MethodGet, "/v1/decisions", access.Read, a.listDecisions},
		{http.MethodGet, "/v1/decisions/stream", access.Read, a.streamDecisions},
		{http.MethodGet, "/v1/decisions/{id}", access.Read, a.showDecision},
		{http.MethodPost, "/v1/flush", access.Ingest, a.flushBody},
		{http.MethodPost, "/v1/scopes/{scope}/flush", access.Ingest, a.flushPath},
		{http.MethodGet, "/v1/scopes", access.Read, a.listScopes},
		{http.MethodGet, "/v1/scopes/{scope}", access.Read, a.showScope},
		{http.MethodGet, "/v1/deadletters", access.Read, a.listDeadLetters},
		{http.MethodGet, "/v1/deadletters/{id}", access.Read, a.showDeadLetter},
		{http.MethodPost, "/v1/deadletters/requeue", access.Admin, a.requeueMany},
		{http.MethodPost, "/v1/deadletters/{id}/requeue", access.Admin, a.requeue},
		{http.MethodGet, "/v1/consumers", access.Read, a.listConsumers},
		{http.MethodGet, "/v1/consumers/{name}", access.Read, a.showConsumer},
		{http.MethodDelete, "/v1/consumers/{name}", access.Admin, a.deleteConsumer},
		{http.MethodGet, "/v1/sources", access.Read, a.listSources},
		{http.MethodGet, "/v1/silences", access.Read, a.listSilences},
		{http.MethodPost, "/v1/reload", access.Admin, a.reload},
		{http.MethodPost, "/v1/silences", access.Admin, a.addSilence},
		{http.MethodGet, "/v1/silences/{id}", access.Read, a.showSilence},
		{http.MethodDelete, "/v1/silences/{id}", access.Admin, a.endSilence},
	}
}

// Register adds the routes.
func (a *API) Register(r chi.Router) {
	for _, route := range append(a.routes(), a.fieldRoutes()...) {
		r.Method(route.method, route.path, a.handle(&route))
	}
}

// handle refuses who lacks the route's right, bounds the time that a request
// may take, and answers an error as a problem. While a handler runs there is no
// read deadline, unless it reads a body: one that passed would end the
// request's context.
func (a *API) handle(to *route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		deadlines := http.NewResponseController(w)
		_ = deadlines.SetWriteDeadline(time.Now().Add(writeTimeout)) // a writer that cannot is no connection
		if err := a.allowed(to, w, r); err != nil {
			a.fail(w, r, to.right, err)
		} else {
			a.outage.Worked(to.right)
		}
		_ = deadlines.SetReadDeadline(time.Now().Add(readTimeout)) // for a body that nobody has read
	})
}

// allowed answers a request of whoever has the route's right.
func (a *API) allowed(to *route, w http.ResponseWriter, r *http.Request) error {
	if caller := access.From(r.Context()); to.right != anyRight && !caller.May(to.right, "") {
		return refuse(http.StatusForbidden, codeForbidden, "%s", caller.Lacks(to.right))
	}
	return to.serve(w, r)
}

package app

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"attend/internal/problem"
)

// Paths that are served by this package.
const (
	pathHealth   = "/healthz"
	pathReady    = "/readyz"
	pathMetrics  = "/metrics"
	pathDocument = "/openapi.json"
	pathIngest   = "/v1/ingest"
	pathMCP      = "/mcp"
)

// newRouter returns a router with what stands before every route: recovery,
// the guard, the token. Chi matches a path as it was sent, escaped, so a name
// with a slash in it is one segment.
func newRouter(log *slog.Logger, g *guard, a *auth) *chi.Mux {
	r := chi.NewRouter()
	r.Use(observe(log), g.wrap, a.wrap, middleware.GetHead)
	r.NotFound(func(w http.ResponseWriter, r *http.Request) { notFound(w, r) })
	r.MethodNotAllowed(func(w http.ResponseWriter, req *http.Request) { wrongMethod(w, req, r) })
	return r
}

func notFound(w http.ResponseWriter, r *http.Request) {
	problem.New(http.StatusNotFound, "noSuchRoute", fmt.Sprintf("there is nothing at %q", r.URL.EscapedPath())).Write(w)
}

// wrongMethod says which methods the path has, in Allow too.
func wrongMethod(w http.ResponseWriter, r *http.Request, routes chi.Routes) {
	var allow []string
	for _, method := range []string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
	} {
		asked := method
		if method == http.MethodHead {
			asked = http.MethodGet // whatever can be read has a head
		}
		if routes.Match(chi.NewRouteContext(), asked, r.URL.EscapedPath()) {
			allow = append(allow, method)
		}
	}
	if len(allow) == 0 {
		notFound(w, r) // a method that no route has
		return
	}
	w.Header().Set("Allow", strings.Join(allow, ", "))
	problem.New(http.StatusMethodNotAllowed, "methodNotAllowed", fmt.Sprintf("%s is not offered here: use %s", r.Method, strings.Join(allow, " or "))).Write(w)
}

// observe logs each request at level debug, and turns a panic into an answer
// and a log line that hold nothing of the request's data.
func observe(log *slog.Logger) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			began := time.Now()
			written := &statusWriter{ResponseWriter: w}
			defer func() {
				recovered(log, written, r, recover())
				log.DebugContext(r.Context(), "request",
					"method", r.Method, "route", pattern(r), "status", written.status, "took_ms", time.Since(began).Milliseconds())
			}()
			next.ServeHTTP(written, r)
		})
	}
}

// statusWriter notes the status of an answer. Whatever else a connection can do
// is reached through http.ResponseController, with its errors.
type statusWriter struct {
	http.ResponseWriter
	status int // 0 until something has been written
}

// WriteHeader notes the status.
func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK { // those before are not the answer yet
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write notes that there is an answer.
func (w *statusWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap gives http.ResponseController the connection's own writer.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// recovered ends a request whose handler panicked.
func recovered(log *slog.Logger, w *statusWriter, r *http.Request, cause any) {
	switch {
	case cause == nil:
		return
	case cause == any(http.ErrAbortHandler):
		panic(cause) // the handler's way to cut the connection
	}
	log.ErrorContext(r.Context(), "panic in a handler",
		"method", r.Method, "route", pattern(r), "panic", describePanic(cause), "stack", string(debug.Stack()))
	if w.status != 0 {
		panic(http.ErrAbortHandler) // a half-written answer must not look whole
	}
	problem.New(http.StatusInternalServerError, "internal", "the daemon met a fault of its own: its log tells more").Write(w)
}

// describePanic shows the runtime's own words, and of anything else the type
// alone: its text might hold what a caller sent.
func describePanic(cause any) string {
	if err, ok := cause.(error); ok {
		var fault interface{ RuntimeError() }
		if errors.As(err, &fault) {
			return err.Error()
		}
	}
	return fmt.Sprintf("%T", cause)
}

// pattern is the route as it was registered, without what the caller put in.
func pattern(r *http.Request) string {
	if ctx := chi.RouteContext(r.Context()); ctx != nil {
		return ctx.RoutePattern()
	}
	return ""
}

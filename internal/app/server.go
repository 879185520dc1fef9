package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"attend/internal/access"
	"attend/internal/config"
	"attend/internal/problem"
)

// Bounds on what a connection may cost before a handler looks at it. Bodies
// and answers have bounds of their own: a body may be a stream that never ends.
const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	readyTimeout      = 2 * time.Second
	answerTimeout     = 30 * time.Second // of the short answers of this package
	metricsAtOnce     = 4
)

// buildServer puts the routes together.
func (a *App) buildServer() error {
	who := newAuth(a.cfg)
	a.auth, a.tokens = who, who.tokens
	a.cleanups.push("tokens", func(context.Context) error { who.tokens.Stop(); return nil })
	r := newRouter(a.log, newGuard(a.cfg), who)
	r.Method(http.MethodGet, pathHealth, bounded(http.HandlerFunc(a.health)))
	r.Method(http.MethodGet, pathReady, bounded(http.HandlerFunc(a.ready)))
	r.Method(http.MethodGet, pathMetrics, needs(access.Read, bounded(promhttp.HandlerFor(a.opt.Registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: metricsAtOnce,
		Registry:            a.opt.Registry,
	}))))
	r.Method(http.MethodGet, pathDocument, bounded(http.HandlerFunc(serveDocument)))
	if err := a.mount(r); err != nil {
		return fmt.Errorf("build the handlers: %w", err)
	}
	a.server = &http.Server{
		Handler:           r,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		// Else OPTIONS * is answered before the guard has seen it.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(a.log.Handler(), slog.LevelDebug), // broken clients, for the most part
	}
	return nil
}

// bounded cuts off a caller that does not take a short answer: a few of them
// would else keep all places.
func bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout)) // a writer that cannot is no connection
		next.ServeHTTP(w, r)
	})
}

// health answers as long as the process does.
func (a *App) health(w http.ResponseWriter, _ *http.Request) { writeStatus(w, "ok") }

// ready answers whether the daemon does its work: the store answers, the loop
// has caught up, and nobody has asked it to stop.
func (a *App) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	if err := a.readiness(ctx); err != nil {
		problem.New(http.StatusServiceUnavailable, "notReady", err.Error()).Write(w)
		return
	}
	writeStatus(w, "ready")
}

func (a *App) readiness(ctx context.Context) error {
	select {
	case <-a.stopping:
		return errors.New("the daemon is stopping")
	default:
	}
	if _, err := a.store.Head(ctx); err != nil {
		a.log.WarnContext(ctx, "not ready: the store does not answer", "error", err)
		return errors.New("the store does not answer")
	}
	if err := a.runner.Ready(ctx); err != nil {
		return fmt.Errorf("the loop has not caught up with the log: %w", err)
	}
	return nil
}

func writeStatus(w http.ResponseWriter, status string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(map[string]string{"status": status}) // an error means that the caller has gone
}

// startServer serves until the server is shut down.
func (a *App) startServer() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := a.server.Serve(a.listener); !errors.Is(err, http.ErrServerClosed) {
			a.failed <- fmt.Errorf("serve: %w", err)
		}
	}()
	a.cleanups.push("http", func(ctx context.Context) error {
		err := a.stopServer(ctx)
		<-done
		return err
	})
}

// stopServer answers those who wait, lets requests under way finish, and cuts
// off what has not ended when most of the time is up: the loop needs the rest.
func (a *App) stopServer(ctx context.Context) error {
	close(a.stopping)
	a.consumers.Close()
	a.ingest.Stop()
	part, cancel := most(ctx)
	defer cancel()
	select { // nobody gets the turn of a reload any more
	case <-a.reloading.turn:
	case <-part.Done():
	}
	if err := a.server.Shutdown(part); err != nil {
		a.log.Warn("requests were cut off", "error", err)
		return a.server.Close()
	}
	return nil
}

// most returns a context that ends after four fifths of the time that is left.
func most(ctx context.Context) (context.Context, context.CancelFunc) {
	end, bounded := ctx.Deadline()
	if !bounded {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(end)*4/5)
}

// newGuard takes the trusted names from the configuration, and the name that
// the daemon itself was told to listen under.
func newGuard(cfg *config.Config) *guard {
	return &guard{
		hosts:   append([]string{strings.ToLower(cfg.Host)}, cfg.AllowedHosts...),
		origins: cfg.AllowedOrigins,
		socket:  cfg.Socket != "",
	}
}

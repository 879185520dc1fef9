package app

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"attend/internal/config"
)

// answer sends a request through the router to a handler at /x.
func answer(t *testing.T, log *bytes.Buffer, serve http.HandlerFunc) (rec *httptest.ResponseRecorder, panicked any) {
	t.Helper()
	r := newRouter(slog.New(slog.NewTextHandler(log, nil)), new(guard), newAuth(new(config.Config)))
	r.Get("/x", serve)
	rec = httptest.NewRecorder()
	defer func() { panicked = recover() }()
	r.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/x?q=private", nil))
	return rec, nil
}

func TestRouter_APanicIsAnAnswerAndALineWithoutData(t *testing.T) {
	var log bytes.Buffer
	rec, panicked := answer(t, &log, func(http.ResponseWriter, *http.Request) { panic("private words of a caller") })
	if panicked != nil || rec.Code != http.StatusInternalServerError || !strings.Contains(rec.Body.String(), `"code":"internal"`) {
		t.Errorf("status %d, panic %v: %s", rec.Code, panicked, rec.Body)
	}
	if !strings.Contains(log.String(), "panic in a handler") || !strings.Contains(log.String(), "routes_test.go") {
		t.Errorf("the log does not say where: %s", log.String())
	}
	if strings.Contains(log.String(), "private") || strings.Contains(rec.Body.String(), "private") {
		t.Errorf("data got out: %s %s", log.String(), rec.Body)
	}
}

func TestRouter_ARuntimeErrorIsLoggedInItsOwnWords(t *testing.T) {
	var log bytes.Buffer
	_, _ = answer(t, &log, func(http.ResponseWriter, *http.Request) {
		var none []int
		_ = none[len(log.String())]
	})
	if !strings.Contains(log.String(), "index out of range") {
		t.Errorf("log: %s", log.String())
	}
}

func TestRouter_AHalfWrittenAnswerIsCut(t *testing.T) {
	var log bytes.Buffer
	_, panicked := answer(t, &log, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		panic(errors.New("half-way"))
	})
	if panicked != any(http.ErrAbortHandler) {
		t.Errorf("the connection is not cut: %v", panicked)
	}
}

// brokenWriter is a connection that cannot be written to.
type brokenWriter struct{ http.ResponseWriter }

func (brokenWriter) FlushError() error { return errors.New("nobody reads") }

func TestRouter_HandlersLearnThatNobodyReads(t *testing.T) {
	var flushed error
	r := newRouter(slog.New(slog.DiscardHandler), new(guard), newAuth(new(config.Config)))
	r.Get("/x", func(w http.ResponseWriter, _ *http.Request) { flushed = http.NewResponseController(w).Flush() })
	r.ServeHTTP(brokenWriter{httptest.NewRecorder()}, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/x", nil))
	if flushed == nil {
		t.Error("a flush that failed looks like one that did not")
	}
}

func TestReady_SaysWhenItStops(t *testing.T) {
	a := &App{stopping: make(chan struct{})}
	close(a.stopping)
	rec := httptest.NewRecorder()
	a.ready(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
	if rec.Code != http.StatusServiceUnavailable || !strings.Contains(rec.Body.String(), "stopping") {
		t.Errorf("status %d: %s", rec.Code, rec.Body)
	}
}

func TestCleanups_TheLastFirstAndAllOfThem(t *testing.T) {
	var c cleanups
	var order []string
	for _, name := range []string{"a", "b", "c"} {
		c.push(name, func(_ context.Context) error {
			order = append(order, name)
			return errors.New("no " + name)
		})
	}
	err := c.drain(t.Context())
	if got := strings.Join(order, " "); got != "c b a" {
		t.Errorf("order %q", got)
	}
	if err == nil || err.Error() != "c: no c\nb: no b\na: no a" {
		t.Errorf("error %v", err)
	}
	if err := c.drain(t.Context()); err != nil || len(order) != 3 {
		t.Errorf("drained twice: %v, %q", err, order)
	}
}

package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"attend/internal/app"
	"attend/internal/judge/wire"
	"attend/internal/program"
)

// exchange is one request as it was sent, or one command as it was run, and
// what came back. A key in it is hidden.
type exchange struct {
	For  string `json:"for"`            // judge, context or capture
	Name string `json:"name,omitempty"` // of the judge

	Method  string            `json:"method,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Command []string          `json:"command,omitempty"`
	Input   string            `json:"input"` // the body, or the standard input

	Asked           bool              `json:"asked"` // false: with --dry-run nothing is sent
	Status          int               `json:"status,omitempty"`
	ResponseHeaders map[string]string `json:"responseHeaders,omitempty"`
	Exit            *int              `json:"exit,omitempty"`
	Output          string            `json:"output"`
	Error           string            `json:"error,omitempty"`
	TookMs          int64             `json:"tookMs"`
}

// errDry is in place of an answer where nothing is to be sent.
var errDry = errors.New("nothing is sent with --dry-run")

// maxShown is how much of an answer is kept to be shown.
const maxShown = 1 << 20

// watcher takes down what goes out, and what comes back.
type watcher struct {
	dry     bool
	secrets []string // that are hidden wherever they stand, the longest first

	mu   sync.Mutex
	what string // is asked: judge, context or capture
	name string // of the judge
	all  []*exchange
}

// newWatcher hides secrets; those that are too short to be one are left.
func newWatcher(dry bool, secrets []string) *watcher {
	secrets = slices.DeleteFunc(slices.Clone(secrets), func(s string) bool { return len(s) < 4 })
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	return &watcher{dry: dry, secrets: secrets}
}

// tap is what the judges are built with.
func (w *watcher) tap() *app.Tap {
	return &app.Tap{
		HTTP:    func(next http.RoundTripper) http.RoundTripper { return &watchedTransport{w, next} },
		Asking:  func(name string) { w.now(forJudge, name) },
		Command: w.command,
	}
}

// What an exchange may be for.
const (
	forJudge   = "judge"
	forContext = "context"
	forCapture = "capture"
)

// now says what the next exchanges are for: which judge, or which hook.
func (w *watcher) now(what, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.what, w.name = what, name
}

// exchanges are all so far.
func (w *watcher) exchanges() []exchange {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]exchange, len(w.all))
	for i, x := range w.all {
		out[i] = *x
	}
	return out
}

// begin takes down what is asked.
func (w *watcher) begin(x *exchange) (done func(change func())) {
	start := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	x.For, x.Name, x.Asked = w.what, w.name, !w.dry
	w.all = append(w.all, x)
	return func(change func()) {
		w.mu.Lock()
		defer w.mu.Unlock()
		change()
		x.TookMs = time.Since(start).Milliseconds()
	}
}

func (w *watcher) hide(s string) string { return wire.Hide(s, w.secrets...) }

// command is asked in place of a command.
func (w *watcher) command(argv []string, stdin []byte, run func() ([]byte, error)) ([]byte, error) {
	x := &exchange{Input: w.hide(string(stdin))}
	for _, arg := range argv {
		x.Command = append(x.Command, w.hide(arg))
	}
	done := w.begin(x)
	if w.dry {
		return nil, errDry
	}
	out, err := run()
	done(func() {
		x.Output = w.hide(string(out))
		code := 0
		if err != nil {
			x.Error, code = w.hide(err.Error()), -1
		}
		if failed := (*program.Error)(nil); errors.As(err, &failed) {
			code = failed.Code
		}
		x.Exit = &code
	})
	return out, err
}

// watchedTransport sends requests, and takes them down.
type watchedTransport struct {
	*watcher
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *watchedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	x := &exchange{Method: r.Method, URL: t.hide(r.URL.String()), Headers: t.headers(r.Header)}
	if r.GetBody != nil {
		if body, err := r.GetBody(); err == nil {
			b, _ := io.ReadAll(body) // it is in memory
			x.Input = t.hide(string(b))
		}
	}
	done := t.begin(x)
	if t.dry {
		return nil, errDry
	}
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		done(func() { x.Error = "no answer came" }) // the judge says why, and without what may be secret
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxShown))
	rest := resp.Body
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(b), failing{err}, rest), rest}
	done(func() {
		x.Status, x.ResponseHeaders, x.Output = resp.StatusCode, t.headers(resp.Header), t.hide(string(b))
	})
	return resp, nil
}

// failing fails as a read did, or is at its end.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return 0, io.EOF
}

// headers are shown without keys and cookies, whatever they are.
func (w *watcher) headers(h http.Header) map[string]string {
	shown := make(map[string]string, len(h))
	for name, values := range h { //arch:sorted each by itself
		switch http.CanonicalHeaderKey(name) {
		case "Authorization", "X-Api-Key", "X-Goog-Api-Key", "Set-Cookie":
			shown[name] = "[hidden]"
		default:
			shown[name] = w.hide(strings.Join(values, ", "))
		}
	}
	return shown
}

package exec

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/judge/wire"
	"attend/internal/program"
)

const (
	key   = "sk-a-key-that-nobody-may-see"
	state = "the words of a stranger"
)

// The commands that are asked are this binary itself, in a role.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if role, ok := strings.CutPrefix(os.Args[1], "role:"); ok {
			syscall.Exit(play(role, os.Args[2:])) // at once: under the race detector os.Exit takes a second
		}
	}
	goleak.VerifyTestMain(m)
}

// play is the whole life of a command. It returns its exit status.
func play(role string, args []string) int {
	switch role {
	case "say":
		fmt.Fprint(os.Stdout, args[0])
	case "repeat": // the question as the answer
		_, _ = io.Copy(os.Stdout, os.Stdin)
	case "fail":
		fmt.Fprint(os.Stderr, "no model at "+os.Getenv("KEY"))
		code, _ := strconv.Atoi(args[0])
		return code
	case "hang":
		never := make(chan os.Signal, 1)
		signal.Notify(never, syscall.SIGHUP)
		<-never
	case "flood":
		flood(os.Stdout)
	}
	return 0
}

func flood(w io.Writer) {
	line := []byte(strings.Repeat("flood ", 1<<12))
	for {
		if _, err := w.Write(line); err != nil {
			return
		}
	}
}

// command returns a command in a role, with a secret among its variables.
func command(t *testing.T, role string, args ...string) Endpoint {
	t.Helper()
	s, err := program.New(program.Options{
		Command: append([]string{os.Args[0], "role:" + role}, args...),
		Env:     map[string]string{"KEY": key},
	}, os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	return Command(s)
}

// serve returns a host that answers as a handler does, once it has read the
// question.
func serve(t *testing.T, h func(w http.ResponseWriter, r *http.Request, question string)) Endpoint {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		h(w, r, string(b))
	}))
	client := wire.New()
	t.Cleanup(s.Close)
	t.Cleanup(client.Close)
	return HTTP(client, s.URL+"/judge?code="+key, key)
}

// says returns a host that answers with a text.
func says(t *testing.T, text string) Endpoint {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, _ *http.Request, _ string) { fmt.Fprint(w, text) })
}

// pixel is the smallest GIF.
const pixel = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"

// input is a window with one event, all of which a judge may be told.
func input() *judge.Input {
	return &judge.Input{
		Scope: "chat:1", Now: 1500,
		Window: judge.Window{
			ID: "w1", Reason: engine.ReasonFlush, SettledAt: 1400, Waits: 1, Dropped: 2, Gap: true,
			Events: []engine.EventView{{ID: "e1", Name: "message.created", Kind: engine.Flush, SeenAt: 1300, Text: state, Data: engine.RawJSON(`{"from": "bob"}`)}},
		},
		Routes:     []judge.Offer{{Route: engine.Queue, Criterion: "work"}, {Route: engine.Skip}},
		Guidance:   "be kind",
		Predicates: []engine.Predicate{{Name: "asked", Question: "asked?"}, {Name: "route", Question: "a route?"}},
		Recent:     []engine.Recent{{Window: "w0", At: 900, Route: engine.Note, JudgedRoute: engine.Skip}},
		Facts:      []byte(`{"mid": true}`),
		Images:     []judge.Image{{Data: pixel, MIME: "image/gif"}},
	}
}

// silent checks that an error holds nothing that it must not.
func silent(t *testing.T, err error) {
	t.Helper()
	for _, s := range []string{key, state, "code=", pixel} {
		if strings.Contains(err.Error(), s) {
			t.Errorf("the error %q holds %q", err, s)
		}
	}
	var e *judge.Error
	if !errors.As(err, &e) {
		return
	}
	for _, x := range e.Calls {
		if strings.Contains(x.Answer, key) || strings.Contains(x.Message, key) || strings.Contains(x.Message, state) || strings.Contains(x.Prompt, pixel) {
			t.Errorf("the record holds what it must not: %+v", x)
		}
	}
}

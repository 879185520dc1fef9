package bridge

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Whoever pipes requests in wants the answers, not the last line's fate.
func TestEnd_AnswersAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{handle: func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(drainTime / 2)
			asJSON(w, http.StatusOK, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		}}
		h := connect(t, d)
		io.WriteString(h.in, `{"jsonrpc":"2.0","id":1,"method":"x"}`) // no newline
		began := time.Now()
		h.leave()
		h.hears(`{"jsonrpc":"2.0","id":1,"result":{}}`)
		if took := time.Since(began); took != drainTime/2 {
			t.Errorf("the bridge ended after %v", took)
		}
	})
}

func TestEnd_WaitsAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{handle: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}
		h := connect(t, d)
		h.say(`{"jsonrpc":"2.0","id":1,"method":"x"}`)
		began := time.Now()
		h.leave()
		h.hears()
		if took := time.Since(began); took != drainTime {
			t.Errorf("the bridge ended after %v", took)
		}
		if n := d.gaveUp(); n != 1 {
			t.Errorf("%d requests were ended, want one", n)
		}
	})
}

// broken is an end of a pipe at which nobody is.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func (broken) Close() error { return nil }

func (broken) Read([]byte) (int, error) { return 0, errors.New("input/output error") }

func TestEnd_OfOneSideAlone(t *testing.T) {
	for name, c := range map[string]struct {
		in   func() io.ReadCloser
		out  io.Writer
		end  bool
		want string
	}{
		"the host reads no more":  {asked, broken{}, false, "write to the host: broken pipe"},
		"the host cannot be read": {func() io.ReadCloser { return broken{} }, io.Discard, false, "read from the host: input/output error"},
		"told to end":             {asked, io.Discard, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				d := &daemon{handle: func(w http.ResponseWriter, _ *http.Request) {
					asJSON(w, http.StatusOK, `{"jsonrpc":"2.0","id":1,"result":{}}`)
				}}
				in := c.in()
				if c.end {
					time.AfterFunc(time.Minute, cancel)
				}
				err := Run(ctx, Options{
					Endpoint: "http://attend.test/mcp", Token: "secret", HTTP: &http.Client{Transport: d},
					In: in, Out: c.out, Logger: slog.New(slog.DiscardHandler),
				})
				if (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
					t.Errorf("got %v, want %q", err, c.want)
				}
				in.Close() // for the read that was left behind
			})
		})
	}
}

// asked is one request and then nothing, for ever.
func asked() io.ReadCloser {
	wait, _ := io.Pipe()
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"x"}`+"\n"), wait), wait}
}

func TestRun_Options(t *testing.T) {
	if err := Run(t.Context(), Options{}); err == nil {
		t.Error("a bridge to nowhere runs")
	}
}

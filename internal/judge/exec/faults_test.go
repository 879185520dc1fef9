package exec

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"attend/internal/judge"
	"attend/internal/judge/wire"
	"attend/internal/program"
)

// uses are the three things that a program is asked for.
func uses() map[string]func(ctx context.Context, e Endpoint) error {
	return map[string]func(ctx context.Context, e Endpoint) error{
		"judge": func(ctx context.Context, e Endpoint) error {
			_, err := Judge(e).Judge(ctx, input())
			return err
		},
		"context": func(ctx context.Context, e Endpoint) error {
			_, err := Context(e)(ctx, state)
			return err
		},
		"capture": func(ctx context.Context, e Endpoint) error {
			_, err := Capture(e)(ctx, state)
			return err
		},
	}
}

// fault is a program that does not answer as it should, in both ways.
type fault struct {
	name  string
	e     Endpoint
	class judge.Class // for the judge
	says  []string    // one of them, whoever is asked
}

func faults(t *testing.T) []fault {
	t.Helper()
	status := func(code int) Endpoint {
		return serve(t, func(w http.ResponseWriter, _ *http.Request, question string) {
			w.WriteHeader(code)
			_, _ = fmt.Fprint(w, key, question)
		})
	}
	return []fault{
		{"http 500", status(500), judge.Transient, []string{"the judge failed (status 500)", "the hook answered with status 500"}},
		{"http 400", status(400), judge.Permanent, []string{"refused the request (status 400)", "the hook answered with status 400"}},
		{"http 307", status(307), judge.Permanent, []string{"redirects are not followed", "the hook answered with status 307"}},
		{"http garbage", says(t, key+state), judge.Malformed, []string{"the answer is no JSON"}},
		{"http scalar", says(t, "7"), judge.Malformed, []string{"is not one JSON object", "none of"}},
		{"http flood", serve(t, func(w http.ResponseWriter, _ *http.Request, _ string) { flood(w) }), judge.Malformed, []string{"the answer is longer than"}},
		{"http repeats", serve(t, func(w http.ResponseWriter, _ *http.Request, q string) { _, _ = fmt.Fprint(w, q) }), judge.Malformed, []string{"no route", "besides facts and predicates", "none of"}},
		{"http refused", refused(t), judge.Transient, []string{"connection refused"}},
		{"command 1", command(t, "fail", "1"), judge.Transient, []string{"ended with status 1: no model at [hidden]"}},
		{"command 65", command(t, "fail", "65"), judge.Permanent, []string{"ended with status 65: no model at [hidden]"}},
		{"command garbage", command(t, "say", key+state), judge.Malformed, []string{"not one JSON object", "none of"}},
		{"command scalar", command(t, "say", "7"), judge.Malformed, []string{"is not one JSON object", "none of"}},
		{"command silent", command(t, "say", ""), judge.Malformed, []string{"is empty", "none of"}},
		{"command flood", command(t, "flood"), judge.Transient, []string{"to its standard output, which is not taken"}},
		{"command repeats", command(t, "repeat"), judge.Malformed, []string{"no route", "besides facts and predicates", "none of"}},
		{"command gone", gone(t), judge.Transient, []string{"did not start"}},
	}
}

func TestFaults(t *testing.T) {
	for _, f := range faults(t) {
		for name, use := range uses() {
			t.Run(f.name+" "+name, func(t *testing.T) {
				err := use(t.Context(), f.e)
				if err == nil {
					t.Fatal("no error")
				}
				silent(t, err)
				said := false
				for _, s := range f.says {
					said = said || strings.Contains(err.Error(), s)
				}
				if !said {
					t.Errorf("%v, want it to say one of %q", err, f.says)
				}
				if name != "judge" {
					return
				}
				e, x := exchange(t, err)
				if e.Class != f.class || x.Outcome != string(f.class) || x.Message != e.Message || x.Prompt == "" {
					t.Errorf("class %s, want %s, on the record %+v", e.Class, f.class, x)
				}
			})
		}
	}
}

// A command may write what it read to its standard error. Where nothing of that
// is to be kept, it stands in no error.
func TestFaults_Quiet(t *testing.T) {
	loud, ok := command(t, "fail", "65").(commandEndpoint)
	if !ok {
		t.Fatal("it is no command")
	}
	for name, use := range uses() {
		err := use(t.Context(), Quiet(loud.spec))
		if err == nil || !strings.HasSuffix(err.Error(), "ended with status 65") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFaults_NoAnswerInTime(t *testing.T) {
	host := serve(t, func(_ http.ResponseWriter, r *http.Request, _ string) { <-r.Context().Done() })
	slow := serve(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		_, _ = w.Write([]byte(`{"route":`))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	for way, e := range map[string]Endpoint{"http": host, "http body": slow, "command": command(t, "hang")} {
		for name, use := range uses() {
			t.Run(way+" "+name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				err := use(ctx, e)
				if err == nil || !strings.Contains(err.Error(), "did not answer in time") && !strings.Contains(err.Error(), " gave no answer within ") {
					t.Fatalf("%v", err)
				}
				silent(t, err)
				if name != "judge" {
					return
				}
				if e, x := exchange(t, err); e.Class != judge.Transient || x.Outcome != "timeout" {
					t.Errorf("class %s, outcome %s", e.Class, x.Outcome)
				}
			})
		}
	}
}

// refused is a host where nobody listens.
func refused(t *testing.T) Endpoint {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	client := wire.New()
	t.Cleanup(client.Close)
	return HTTP(client, "http://"+l.Addr().String()+"/?code="+key, key)
}

// gone is a command that was there when it was configured.
func gone(t *testing.T) Endpoint {
	t.Helper()
	path := filepath.Join(t.TempDir(), "judge")
	if err := os.WriteFile(path, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := program.New(program.Options{Command: []string{path}, Env: map[string]string{"KEY": key}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	return Command(s)
}

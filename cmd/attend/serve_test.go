package main

import (
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// hang sends a request that the daemon cannot finish, and returns when it is
// being served.
func (s *served) hang(t *testing.T) {
	t.Helper()
	body, feeder := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/ingest", body)
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = 1 << 20 // a body with a length is read to its end
	req.Header.Set("Content-Type", "application/x-ndjson")
	client := &http.Client{Transport: &http.Transport{}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if resp, err := client.Do(req); err == nil {
			_ = resp.Body.Close()
		}
	}()
	t.Cleanup(func() {
		_ = feeder.CloseWithError(io.ErrUnexpectedEOF)
		<-ended
		client.CloseIdleConnections()
	})
	if _, err := io.WriteString(feeder, `{"scope":"a","id":"1","name":"x"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	s.until(t, "the line is in the log", func() bool {
		resp, err := client.Get(s.url + "/v1/scopes/a")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return err == nil && strings.Contains(string(b), `"events":1`)
	})
}

func (s *served) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("never came: %s\n%s", what, s.stderr)
		}
		time.Sleep(5 * time.Millisecond) //arch:sleep the poll of a condition
	}
}

func TestServe_ASecondSignalEndsItAtOnce(t *testing.T) {
	env := append(withoutAttend(os.Environ()), "ATTEND_SHUTDOWN_GRACE_MS=60000")
	s, err := serve(t.TempDir(), env, "--store", "memory", "--port", "0")
	if err != nil {
		t.Fatal(err)
	}
	s.hang(t)
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.until(t, "it is stopping", func() bool { return strings.Contains(s.stderr.String(), "msg=stopping") })
	exited := make(chan error, 1)
	go func() { exited <- s.wait() }()
	for {
		// The first signal hands the next one to the system a moment later.
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-exited:
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
				t.Errorf("it ended with %v, want by the signal", err)
			}
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

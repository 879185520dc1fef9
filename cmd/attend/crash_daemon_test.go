package main_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"attend/internal/store/sqlite"
)

// Bounds on what a daemon may take. They are generous: the machine may have
// other things to do.
const (
	readyBound = 60 * time.Second
	stopBound  = 15 * time.Second // the grace of 10 s, and then some
)

// buildDaemon builds the real binary, as it is released.
func buildDaemon(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "attend")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the daemon: %v\n%s", err, out)
	}
	return binary
}

// daemon runs the binary again and again on one database and one port. The
// test's goroutine alone starts and ends it; base and get may be called by any.
type daemon struct {
	t      *testing.T
	binary string
	dir    string
	port   atomic.Int64
	rng    *rand.Rand

	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has ended
	lives  []life

	store     func() []string // variables that say where the log is
	fails     bool            // the store is made to fail
	recovered uint32          // pages that the WAL's index gave as tried when the daemon was ready
}

func newDaemon(t *testing.T, binary string, rng *rand.Rand) *daemon {
	t.Helper()
	d := &daemon{t: t, binary: binary, dir: t.TempDir(), rng: rng}
	d.store = func() []string { return []string{"ATTEND_STORE=sqlite:" + d.file()} }
	if keep := os.Getenv("ATTEND_CRASH_DIR"); keep != "" {
		d.dir = filepath.Join(keep, strings.ReplaceAll(t.Name(), "/", "_"))
		if err := os.MkdirAll(d.dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	d.write("kinds.json", crashKinds)
	for i, text := range crashConfigs {
		d.write(configName(i), text)
	}
	d.choosePort()
	t.Cleanup(func() {
		if d.running() {
			d.kill()
		}
		if t.Failed() {
			t.Logf("the daemon's log ends with:\n%s", d.logTail())
		}
	})
	return d
}

func configName(i int) string { return fmt.Sprintf("attend-%d.yaml", i) }

func (d *daemon) write(name, text string) {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// choosePort takes a free port below those that the system gives to clients:
// a client that calls while no daemon listens must not be given the very port
// it calls, and then talk to itself.
func (d *daemon) choosePort() {
	d.t.Helper()
	for range 1000 {
		port := 20000 + d.rng.IntN(12000)
		l, err := new(net.ListenConfig).Listen(d.t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			d.t.Fatal(err)
		}
		d.port.Store(int64(port))
		return
	}
	d.t.Fatal("no free port on 127.0.0.1 was found")
}

// base is where the daemon listens, or will.
func (d *daemon) base() string { return fmt.Sprintf("http://127.0.0.1:%d", d.port.Load()) }

// file is the database.
func (d *daemon) file() string { return filepath.Join(d.dir, "attend.db") }

// restart implements host.
func (d *daemon) restart() {
	d.t.Helper()
	d.kill()
	d.startReady(0)
}

// stop implements host.
func (d *daemon) stop() {
	d.t.Helper()
	d.end(syscall.SIGTERM)
}

func (d *daemon) life() []life { return d.lives }

func (d *daemon) faulty() bool { return d.fails }

// left opens the database itself.
func (d *daemon) left() leftovers {
	d.t.Helper()
	st, err := sqlite.Open(d.t.Context(), d.file(), sqlite.Options{})
	if err != nil {
		d.t.Fatal(err)
	}
	return st
}

// start starts a process on the database, under one of the configurations.
func (d *daemon) start(config int) {
	d.t.Helper()
	log, err := os.OpenFile(d.logName(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(d.binary, "serve",
		"--config", configName(config), "--kinds", "kinds.json", "--port", fmt.Sprint(d.port.Load()))
	cmd.Dir, cmd.Stderr = d.dir, log
	cmd.Env = append([]string{"HOME=" + d.dir}, d.store()...)
	if err := cmd.Start(); err != nil {
		d.t.Fatalf("start the daemon: %v", err)
	}
	d.cmd, d.exited = cmd, make(chan struct{})
	d.lives = append(d.lives, life{begun: time.Now()})
	go func(exited chan struct{}) {
		_ = cmd.Wait() // how it ended is in its ProcessState
		close(exited)
	}(d.exited)
}

// startReady starts a process and waits until it is ready. A port that was
// taken in the meantime is given up for another.
func (d *daemon) startReady(config int) {
	d.t.Helper()
	for {
		d.start(config)
		switch err := d.waitReady(readyBound); {
		case err == nil:
			return
		case errors.Is(err, errPortTaken):
			d.choosePort()
		default:
			d.t.Fatal(err)
		}
	}
}

var errPortTaken = errors.New("somebody else has taken the port")

// waitReady asks /readyz until it says yes.
func (d *daemon) waitReady(within time.Duration) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	end := time.Now().Add(within)
	for time.Now().Before(end) {
		if d.ended() {
			d.now().ended = time.Now()
			if bytes.Contains(d.logTail(), []byte("address already in use")) {
				return errPortTaken
			}
			return fmt.Errorf("the daemon ended by itself before it was ready: %v", d.cmd.ProcessState)
		}
		if status := get(d.t.Context(), client, d.base()+"/readyz", nil); status == http.StatusOK {
			d.now().ready = time.Now()
			_, d.recovered = d.walIndex()
			return nil
		}
		pause(d.t.Context(), 3*time.Millisecond)
	}
	return fmt.Errorf("the daemon is not ready %v after its start", within)
}

// now is the life that is under way.
func (d *daemon) now() *life { return &d.lives[len(d.lives)-1] }

func (d *daemon) ended() bool {
	select {
	case <-d.exited:
		return true
	default:
		return false
	}
}

func (d *daemon) running() bool { return d.cmd != nil && !d.ended() }

// kill is kill -9. It fails the test when the daemon has ended by itself.
func (d *daemon) kill() {
	d.t.Helper()
	if d.ended() && d.cmd.ProcessState.ExitCode() != 0 {
		d.t.Errorf("the daemon ended by itself: %v", d.cmd.ProcessState)
	}
	_ = d.cmd.Process.Kill() // it may have ended just now
	<-d.exited
	d.now().ended = time.Now()
}

// signal asks the process to stop.
func (d *daemon) signal(s syscall.Signal) {
	d.t.Helper()
	if err := d.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		d.t.Fatalf("signal the daemon: %v", err)
	}
}

// end ends the process in order, which has to succeed within its grace.
func (d *daemon) end(s syscall.Signal) {
	d.t.Helper()
	d.now().ended = time.Now() // what becomes due from now on is the next life's
	d.signal(s)
	select {
	case <-d.exited:
	case <-time.After(stopBound):
		d.t.Fatalf("the daemon has not ended %v after %v", stopBound, s)
	}
	if code := d.cmd.ProcessState.ExitCode(); code != 0 {
		d.t.Errorf("the daemon ended with code %d after %v (%v)", code, s, d.cmd.ProcessState)
	}
}

func (d *daemon) logName() string { return filepath.Join(d.dir, "attend.log") }

// logTail is the end of what the daemons wrote on standard error.
func (d *daemon) logTail() []byte {
	const most = 4 << 10
	b, err := os.ReadFile(d.logName())
	if err != nil {
		return []byte(err.Error())
	}
	return b[max(0, len(b)-most):]
}

// checkLog looks for what must never stand in the daemon's log.
func (d *daemon) checkLog() {
	d.t.Helper()
	b, err := os.ReadFile(d.logName())
	if err != nil {
		d.t.Fatal(err)
	}
	for text := range bytes.Lines(b) {
		for _, bad := range []string{"panic", "fatal error", "goroutine ", "DATA RACE", "differs from what this version", "corrupt", "malformed"} {
			if bytes.Contains(text, []byte(bad)) {
				d.t.Errorf("the daemon's log: %s", text)
			}
		}
	}
}

// get asks for a document, and decodes a 200 into out unless that is nil. The
// status is 0 when no whole answer came.
func get(ctx context.Context, client *http.Client, url string, out any) (status int) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0
	}
	return do(client, req, out)
}

// do sends a request and reads the whole answer.
func do(client *http.Client, req *http.Request, out any) (status int) {
	resp, err := client.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0
	}
	if out != nil && resp.StatusCode/100 == 2 && decodeAnswer(resp.Header, body, out) != nil {
		return 0
	}
	return resp.StatusCode
}

// call makes one call on a connection of its own. The status is 0 when no whole
// answer came.
func (d *daemon) call(t *testing.T, method, path, body string) (status int, answer []byte, header http.Header) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	req, err := http.NewRequestWithContext(t.Context(), method, d.base()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, nil
	}
	defer resp.Body.Close()
	if answer, err = io.ReadAll(resp.Body); err != nil {
		return 0, nil, nil
	}
	return resp.StatusCode, answer, resp.Header
}

// pause waits, unless the context ends before.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// eventually waits until a condition holds, and fails the test after a bound.
func eventually(t *testing.T, within time.Duration, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !holds(); pause(t.Context(), 10*time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v: %s", within, what)
		}
	}
}

package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/sqlite"
)

// appendTo names the store that the test binary appends to in place of running
// tests, until it is killed.
const appendTo = "ATTEND_TEST_APPEND_TO"

func TestMain(m *testing.M) {
	if path := os.Getenv(appendTo); path != "" {
		if err := appendForever(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// appendForever appends from several goroutines, each to a Field of its own
// too, and prints the last position of each acknowledged call. Each entry has
// one step and one change.
func appendForever(path string) error {
	s, err := sqlite.Open(context.Background(), path, sqlite.Options{})
	if err != nil {
		return err
	}
	fails := make(chan error)
	for g := range 4 {
		go func() {
			name := fmt.Sprint(g)
			head, err := s.FieldHead(context.Background(), name)
			if err != nil {
				fails <- err
				return
			}
			for i := 0; ; i++ {
				e := store.Entry{Scope: "a", Steps: []engine.Step{{Kind: engine.StepFlush}}, Field: change(name, head)}
				head++
				for range i % 20 {
					e.Events = append(e.Events, event(fmt.Sprint(g), fmt.Sprint(i)))
				}
				rs, err := s.Append(context.Background(), e)
				if err = errors.Join(err, rs[0].Err); err != nil {
					fails <- err
					return
				}
				fmt.Fprintln(os.Stdout, rs[0].Last)
			}
		}()
	}
	return <-fails
}

// killAppender runs the appender, kills it after about n acknowledgements, and
// returns the last position that it told.
func killAppender(t *testing.T, path string, n int) (told engine.Position) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), appendTo+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for i := 0; lines.Scan(); i++ {
		p, err := strconv.ParseInt(lines.Text(), 10, 64)
		if err != nil {
			t.Fatalf("the appender said %q", lines.Text())
		}
		told = max(told, engine.Position(p))
		if i == n {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() > 0 {
		t.Fatalf("the appender ended by itself: %v", err)
	}
	if told == 0 {
		t.Fatal("the appender acknowledged nothing")
	}
	return told
}

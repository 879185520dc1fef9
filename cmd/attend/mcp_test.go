package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// raceSleepsNot has a binary with the race detector end at once: else it sleeps
// for a second first.
const raceSleepsNot = "GORACE=atexit_sleep_ms=0"

// bridged is a host that has started `attend mcp`.
type bridged struct {
	t       *testing.T
	session *mcp.ClientSession
}

// hostOf connects the SDK's client, as a host would, in a revision of the
// protocol.
func hostOf(t *testing.T, at, version string) *bridged {
	t.Helper()
	bin, err := exec.LookPath("attend") // the test binary, under the command's name
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "mcp")
	cmd.Env = append(withoutAttend(os.Environ()), "ATTEND_URL="+at, raceSleepsNot)
	log := new(syncBuffer)
	cmd.Stderr = log
	session, err := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil).
		Connect(t.Context(), &mcp.CommandTransport{Command: cmd, TerminateDuration: patience}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatalf("connect in %s: %v\n%s", version, err, log)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Errorf("the bridge ended with %v\n%s", err, log)
		}
	})
	return &bridged{t, session}
}

// waited is the part of an answer that an agent acts on.
type waited struct {
	Decisions []struct{ ID, Route, Notice string }
	Ack       string
	TimedOut  bool
}

func (b *bridged) use(ctx context.Context, tool string, args map[string]any, out any) error {
	res, err := b.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return err
	}
	content, err := json.Marshal(res.StructuredContent)
	if err != nil || res.IsError {
		return fmt.Errorf("%s: %s (%w)", tool, res.Content, err)
	}
	return json.Unmarshal(content, out)
}

func (b *bridged) wait(args map[string]any) waited {
	b.t.Helper()
	var got waited
	if err := b.use(b.t.Context(), "attend_wait", args, &got); err != nil {
		b.t.Fatal(err)
	}
	return got
}

func (b *bridged) push(id, text string) {
	b.t.Helper()
	var got struct{ Accepted int }
	event := map[string]any{"scope": "chat:1", "name": "message.created", "id": id, "text": text}
	err := b.use(b.t.Context(), "attend_push", map[string]any{"events": []any{event}}, &got)
	if err != nil || got.Accepted != 1 {
		b.t.Fatalf("push: %+v, %v", got, err)
	}
}

// A host's whole life: the tools, a decision that comes while it waits, a
// daemon that is killed and comes back, and nothing lost.
func TestMCP_AHostOverStdio(t *testing.T) {
	for _, version := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			dir := t.TempDir()
			args := []string{"--store", "sqlite:attend.db", "--kinds", `{"message.*":"flush"}`}
			daemon, err := serve(dir, append(withoutAttend(os.Environ()), "ATTEND_PORT=0"), args...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = daemon.end(os.Kill) })
			at, err := url.Parse(daemon.url)
			if err != nil {
				t.Fatal(err)
			}
			host := hostOf(t, daemon.url, version)
			if info := host.session.InitializeResult(); info.ProtocolVersion != version || info.ServerInfo.Name != "attend" {
				t.Errorf("connected to %+v", info)
			}
			if tools, err := host.session.ListTools(t.Context(), nil); err != nil || len(tools.Tools) < 3 {
				t.Fatalf("tools: %+v, %v", tools, err)
			}

			host.wait(map[string]any{"consumer": "coder", "timeoutMs": 0}) // from here on
			answer := make(chan waited)
			go func() { answer <- host.wait(map[string]any{"consumer": "coder"}) }()
			eventually(t, "the call waits", func() bool { return gauge(t, daemon.url, "attend_mcp_waits") == 1 })
			host.push("1", "while it waits")
			first := <-answer
			if len(first.Decisions) != 1 || first.Decisions[0].Notice != "while it waits" {
				t.Fatalf("got %+v", first)
			}
			host.push("2", "before the crash")

			if err := daemon.end(os.Kill); err == nil {
				t.Fatal("the daemon ended well, although it was killed")
			}
			var wire *jsonrpc.Error
			err = host.use(t.Context(), "attend_wait", map[string]any{"consumer": "coder"}, nil)
			if !errors.As(err, &wire) || !strings.Contains(wire.Message, "start it with `attend serve`") {
				t.Fatalf("with no daemon: %v", err)
			}
			daemon, err = serve(dir, append(withoutAttend(os.Environ()), "ATTEND_PORT="+at.Port()), args...)
			if err != nil {
				t.Fatal(err)
			}

			// The answer was never acknowledged, so it comes again; the rest after it.
			again := host.wait(map[string]any{"consumer": "coder"})
			if len(again.Decisions) != 1 || again.Decisions[0].ID != first.Decisions[0].ID {
				t.Errorf("after the crash came %+v, want %+v again", again, first)
			}
			next := host.wait(map[string]any{"consumer": "coder", "ack": again.Ack})
			if len(next.Decisions) != 1 || next.Decisions[0].Notice != "before the crash" {
				t.Errorf("then came %+v", next)
			}
			if last := host.wait(map[string]any{"consumer": "coder", "ack": next.Ack, "timeoutMs": 0}); len(last.Decisions) != 0 {
				t.Errorf("at last came %+v", last)
			}
		})
	}
}

// A wait that the host gives up ends in the daemon at once.
func TestMCP_AWaitThatIsGivenUp(t *testing.T) {
	daemon, err := serve(t.TempDir(), append(withoutAttend(os.Environ()), "ATTEND_PORT=0"), "--store", "memory", "--kinds", `{"message.*":"flush"}`)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = daemon.end(os.Kill) })
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			host := hostOf(t, daemon.url, version)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- host.use(ctx, "attend_wait", map[string]any{"timeoutMs": 240000}, nil) }()
			eventually(t, "the call waits", func() bool { return gauge(t, daemon.url, "attend_mcp_waits") == 1 })
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the call ended with %v", err)
			}
			eventually(t, "the daemon has seen it", func() bool { return gauge(t, daemon.url, "attend_mcp_waits") == 0 })
		})
	}
}

// Whatever is under way when the host goes ends with it.
func TestMCP_TheHostGoes(t *testing.T) {
	daemon, err := serve(t.TempDir(), append(withoutAttend(os.Environ()), "ATTEND_PORT=0"), "--store", "memory", "--kinds", `{"message.*":"flush"}`)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = daemon.end(os.Kill) })
	bin, err := exec.LookPath("attend")
	if err != nil {
		t.Fatal(err)
	}
	for name, leave := range map[string]func(cmd *exec.Cmd, stdin io.Closer) error{
		"it closes its end": func(_ *exec.Cmd, stdin io.Closer) error { return stdin.Close() },
		"it sends SIGTERM":  func(cmd *exec.Cmd, _ io.Closer) error { return cmd.Process.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(bin, "mcp", "--url", daemon.url)
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			var stdout, stderr syncBuffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			io.WriteString(stdin, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"host","version":"1"}}}`+"\n")
			eventually(t, "there is a session", func() bool { return gauge(t, daemon.url, "attend_mcp_sessions") == 1 })
			io.WriteString(stdin, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"attend_wait","arguments":{"timeoutMs":240000}}}`+"\n")
			eventually(t, "the call waits", func() bool { return gauge(t, daemon.url, "attend_mcp_waits") == 1 })
			if err := leave(cmd, stdin); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil || strings.Count(stdout.String(), "\n") != 1 || stderr.String() != "" {
				t.Errorf("the bridge ended with %v\n%s%s", err, stdout.String(), stderr.String())
			}
			eventually(t, "the wait has ended", func() bool { return gauge(t, daemon.url, "attend_mcp_waits") == 0 })
			eventually(t, "the session has ended", func() bool { return gauge(t, daemon.url, "attend_mcp_sessions") == 0 })
		})
	}
}

// gauge reads a metric of a daemon; it must be there.
func gauge(t *testing.T, base, name string) float64 {
	t.Helper()
	resp, err := (&http.Client{Timeout: patience}).Get(base + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(body), "\n"+name+" ")
	var value float64
	if _, err := fmt.Sscan(rest, &value); !found || err != nil {
		t.Fatalf("no metric %s", name)
	}
	return value
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("it never came to be that %s", what)
		}
		time.Sleep(5 * time.Millisecond) //arch:sleep the poll of a condition
	}
}

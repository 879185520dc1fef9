//go:build e2e

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// upstream is a server on the JavaScript SDK that a daemon follows.
type upstream struct {
	t    *testing.T
	dir  string
	port string // over HTTP
	cmd  *exec.Cmd
	all  []string // ids of what has happened
}

func newUpstream(t *testing.T) *upstream {
	t.Helper()
	u := &upstream{t: t, dir: t.TempDir(), port: "0"}
	u.write("events", "")
	u.says("")
	return u
}

func (u *upstream) file(name string) string { return filepath.Join(u.dir, name) }

func (u *upstream) write(name, text string) {
	u.t.Helper()
	if err := os.WriteFile(u.file(name), []byte(text), 0o600); err != nil {
		u.t.Fatal(err)
	}
}

// says tells the server what to do beside.
func (u *upstream) says(word string) { u.write("word", word) }

// happens has so much happen.
func (u *upstream) happens(n int) {
	u.t.Helper()
	f, err := os.OpenFile(u.file("events"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		u.t.Fatal(err)
	}
	defer f.Close()
	var lines strings.Builder
	for range n {
		id := fmt.Sprintf("e%d", len(u.all))
		u.all = append(u.all, id)
		fmt.Fprintf(&lines, `{"eventId":%q,"name":"message.posted","timestamp":"2026-01-31T12:00:00.000Z","data":{"n":%d}}`+"\n", id, len(u.all))
	}
	if _, err := f.WriteString(lines.String()); err != nil { // at once, so that no line is seen half
		u.t.Fatal(err)
	}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	if !strings.ContainsRune(path, '/') {
		found, err := exec.LookPath(path)
		if err != nil {
			t.Fatal(err)
		}
		path = found
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

// listen starts the server over HTTP, on the port that it had.
func (u *upstream) listen() {
	u.t.Helper()
	u.cmd = exec.Command(node(u.t), "clients/eventserver.mjs", "http")
	u.cmd.Env = append(os.Environ(), "EVENTS_FILE="+u.file("events"), "WORD_FILE="+u.file("word"), "SERVER_TOKEN="+token, "SERVER_PORT="+u.port)
	u.cmd.Stderr = os.Stderr
	out, err := u.cmd.StdoutPipe()
	if err != nil {
		u.t.Fatal(err)
	}
	if err := u.cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(u.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		u.t.Fatal(err)
	}
	u.port = strings.TrimSpace(line)
}

func (u *upstream) kill() {
	if u.cmd != nil {
		_ = u.cmd.Process.Kill()
		_ = u.cmd.Wait()
		u.cmd = nil
	}
}

// followed is a source as the daemon shows it.
type followed struct {
	Name, State string
	LastError   *struct{ Kind, Message string }
	Counts      struct{ Accepted, Duplicates, Gaps int }
}

func (d *daemon) sources() map[string]followed {
	d.t.Helper()
	var answer struct{ Sources []followed }
	d.read(d.do(http.MethodGet, "/v1/sources", "", ""), &answer)
	all := make(map[string]followed)
	for _, s := range answer.Sources {
		all[s.Name] = s
	}
	return all
}

// taken are the events' ids in the decisions of a scope, and how many of these
// tell of a gap.
func (d *daemon) taken(scope string) (ids []string, gaps int) {
	d.t.Helper()
	var page struct {
		Decisions []struct {
			Gap    bool
			Events []struct {
				ID   string
				Data json.RawMessage
			}
		}
	}
	d.read(d.do(http.MethodGet, "/v1/decisions?limit=1000&scope="+scope, "", ""), &page)
	for _, decision := range page.Decisions {
		if decision.Gap {
			gaps++
		}
		for _, e := range decision.Events {
			ids = append(ids, e.ID)
		}
	}
	return ids, gaps
}

func TestSources_OnTheJavaScriptSDK(t *testing.T) {
	t.Parallel()
	for _, over := range []string{"stdio", "http"} {
		t.Run(over, func(t *testing.T) {
			t.Parallel()
			follow(t, over)
		})
	}
}

// following is a daemon that follows a server, by a stream and by polls over one
// connection.
type following struct {
	*daemon
	up *upstream
}

// startFollowing starts both.
func startFollowing(t *testing.T, over string) *following {
	t.Helper()
	u := newUpstream(t)
	server := fmt.Sprintf("command: [%q, %q, stdio]\n  env: {EVENTS_FILE: %q, WORD_FILE: %q}",
		absolute(t, node(t)), absolute(t, "clients/eventserver.mjs"), u.file("events"), u.file("word"))
	if over == "http" {
		u.listen()
		server = fmt.Sprintf("url: http://127.0.0.1:%s/mcp\n  token: %s", u.port, token)
	}
	f := &following{prepare(t, ""), u}
	config := "policy: {retryBackoffMs: [100, 500]}\nsources:\n"
	for name, event := range map[string]string{"pushed": "repo.activity", "polled": "repo.polled"} {
		config += fmt.Sprintf("- name: %s\n  %s\n  event: %s\n  arguments: {repo: %s}\n  scope: \"repo:{arguments.repo}\"\n  idleTimeoutMs: 1500\n",
			name, server, event, name)
	}
	if err := os.WriteFile(filepath.Join(f.dir, "attend.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	f.start()
	f.becomesState("pushed", "streaming")
	f.becomesState("polled", "polling")
	return f
}

func (f *following) becomesState(name, state string) {
	f.t.Helper()
	eventually(f.t, name+" is "+state, func() bool { return f.sources()[name].State == state })
}

// trouble waits for what the stream's source tells of.
func (f *following) trouble(kind, text string) {
	f.t.Helper()
	eventually(f.t, "the trouble is "+kind, func() bool {
		last := f.sources()["pushed"].LastError
		return last != nil && last.Kind == kind && strings.Contains(last.Message, text)
	})
}

// arrive has more happen, and waits until all is there, once.
func (f *following) arrive(more int) {
	f.t.Helper()
	f.up.happens(more)
	for _, scope := range []string{"repo:pushed", "repo:polled"} {
		var ids []string
		eventually(f.t, "everything has come to "+scope, func() bool { ids, _ = f.taken(scope); return len(ids) >= len(f.up.all) })
		if diff := cmp.Diff(f.up.all, ids); diff != "" {
			f.t.Fatalf("%s (-happened +taken):\n%s", scope, diff)
		}
	}
}

// marked is how many decisions tell of a gap.
func (f *following) marked() int {
	f.t.Helper()
	_, pushed := f.taken("repo:pushed")
	_, polled := f.taken("repo:polled")
	return pushed + polled
}

// follow goes through all that can happen to a source.
func follow(t *testing.T, over string) {
	f := startFollowing(t, over)
	f.arrive(5)

	f.up.says("error") // trouble that passes
	f.trouble("stream", "the tap drips")
	f.arrive(2)

	f.up.says("silent") // a stream that dies without a word
	f.trouble("idle", "not even a heartbeat")
	f.up.says("")
	f.arrive(1)

	f.up.says("terminate") // and one that is ended
	f.trouble("stream", "terminated")
	f.arrive(1)
	f.becomesState("pushed", "streaming")

	if over == "stdio" { // the server goes down, and comes back
		f.up.says("exit")
	} else {
		f.up.kill()
	}
	f.trouble("connection", "")
	f.up.says("")
	if over == "http" {
		f.up.listen()
	}
	f.arrive(3)
	f.becomesState("pushed", "streaming")

	f.kill() // and so do we
	f.start()
	f.arrive(2)
	if n := f.marked(); n != 0 {
		t.Errorf("%d decisions tell of a gap", n)
	}

	f.terminate() // and the server forgets where we were
	f.up.says("lost")
	f.start()
	eventually(t, "the loss is noticed", func() bool {
		all := f.sources()
		return all["pushed"].Counts.Gaps+all["polled"].Counts.Gaps == 1
	})
	f.arrive(1)
	if n := f.marked(); n != 1 {
		t.Errorf("%d decisions tell of the gap, want 1", n)
	}
}

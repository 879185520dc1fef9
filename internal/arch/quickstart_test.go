package arch

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fence is a fenced block of a document.
type fence struct{ language, text string }

// fences returns the blocks under a heading, up to the next one of its level.
func fences(doc, heading string) []fence {
	_, section, _ := strings.Cut(doc, "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var all []fence
	for _, m := range regexp.MustCompile("(?s)```([a-z]*)\n(.*?)```").FindAllStringSubmatch(section, -1) {
		all = append(all, fence{m[1], m[2]})
	}
	return all
}

// quickStart is the README's first minute, in a folder of its own and on a
// port of its own.
type quickStart struct {
	dir, address string
}

// start runs the first block of the README's first minute, which ends in the
// daemon, with a binary that was built before. It returns when the daemon has
// said where it listens.
func start(t *testing.T, binary string) *quickStart {
	t.Helper()
	q := &quickStart{dir: t.TempDir()}
	script, built := strings.CutPrefix(readmeBlocks(t)[0].text, "make build\n")
	if !built {
		t.Fatalf("the first line is not make build:\n%s", script)
	}
	if err := os.Mkdir(filepath.Join(q.dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(binary, filepath.Join(q.dir, "bin", "attend")); err != nil {
		t.Fatal(err)
	}

	cmd := exec.Command("bash", "-c", strings.Replace(script, "bin/attend serve", "exec bin/attend serve --port 0", 1))
	cmd.Dir = q.dir
	// A reader has none of the daemon's variables set.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "ATTEND_") })
	cmd.Stderr = &testLog{t: t}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the daemon, told to stop: %v", err)
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the daemon said nothing: %v", err)
	}
	at, err := url.Parse(line[strings.Index(line, "http://") : len(line)-1])
	if err != nil || at.Host == "" {
		t.Fatalf("the daemon does not say where it listens: %q", line)
	}
	q.address = at.Host
	return q
}

// run runs a block as a reader would, but for the port.
func (q *quickStart) run(t *testing.T, script string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", strings.ReplaceAll(script, "127.0.0.1:8787", q.address))
	cmd.Dir = q.dir
	cmd.Stderr = &testLog{t: t}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

// page is what a reader looks at in an answer of /v1/decisions.
type page struct {
	Decisions []struct{ ID, Route, Reason, Notice string }
	Cursor    string
}

func (q *quickStart) decisions(t *testing.T, script string) page {
	t.Helper()
	var p page
	if out := q.run(t, script); json.Unmarshal([]byte(out), &p) != nil {
		t.Fatalf("%s: not JSON: %s", script, out)
	}
	return p
}

// The pages that people type from, typed. The binary is the one that the
// Dockerfile builds, so that there is one to link.
func TestPages_DoWhatTheySay(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "attend")
	buildAsDockerfile(t, binary)
	t.Run("image", func(t *testing.T) {
		if err := static(binary); err != nil {
			t.Errorf("the Dockerfile's build line: %v", err)
		}
	})
	t.Run("README.md", func(t *testing.T) { typeReadme(t, start(t, binary)) })
	t.Run("docs/http.md", func(t *testing.T) { typeHTTPPage(t, start(t, binary), "http.md") })
	t.Run("docs/field.md", func(t *testing.T) { typeHTTPPage(t, start(t, binary), "field.md") })
	t.Run("docs/mcp.md", func(t *testing.T) { typeMCPPage(t, start(t, binary)) })
}

// readmeBlocks are: build and serve, ingest, its answer, read.
func readmeBlocks(t testing.TB) []fence {
	t.Helper()
	blocks := fences(string(readFile(t, filepath.Join(root(t), "README.md"))), "Sixty seconds")
	if len(blocks) != 4 || blocks[0].language != "sh" || blocks[1].language != "sh" || blocks[2].language != "json" || blocks[3].language != "sh" {
		t.Fatalf("the quick start has other blocks than this test knows: %q", blocks)
	}
	return blocks
}

func typeReadme(t *testing.T, q *quickStart) {
	t.Helper()
	blocks := readmeBlocks(t)
	ingest, answer, read := blocks[1].text, blocks[2].text, blocks[3].text
	if got := q.run(t, ingest); got != strings.TrimSpace(answer) {
		t.Errorf("ingest answers %s, and the README shows %s", got, answer)
	}
	// The decision is in the log when the fold has closed the window: the
	// request waits for it.
	waiting := strings.Replace(read, "?", "?waitMs=10000&", 1)
	first := q.decisions(t, waiting)
	if len(first.Decisions) != 1 {
		t.Fatalf("%d decisions, want one", len(first.Decisions))
	}
	if d := first.Decisions[0]; d.Route != "interrupt" || d.Reason != "flush" || strings.Count(strings.TrimSpace(d.Notice), "\n") != 2 {
		t.Errorf("route %s, reason %s, notice %q: want interrupt, flush, three lines", d.Route, d.Reason, d.Notice)
	}

	if got := q.run(t, ingest); !strings.Contains(got, `"duplicates":3`) {
		t.Errorf("the same lines again give %s", got)
	}
	if again := q.decisions(t, read); len(again.Decisions) != 1 {
		t.Errorf("the same lines again made %d decisions", len(again.Decisions))
	}

	q.run(t, `curl -sS -H 'Content-Type: application/x-ndjson' -d '{"scope": "repo:acme/shop", "id": "4", "name": "build.failed"}' http://127.0.0.1:8787/v1/ingest`)
	later := q.decisions(t, strings.Replace(waiting, "?", "?after="+first.Cursor+"&", 1))
	if len(later.Decisions) != 1 || later.Decisions[0].Route != "queue" {
		t.Errorf("a failed build alone gives %+v, want one decision, queue", later.Decisions)
	}
}

// typeMCPPage types the page from top to bottom: every answer is JSON-RPC with
// a result, and the decisions are those that the page speaks of.
func typeMCPPage(t *testing.T, q *quickStart) {
	t.Helper()
	page := string(readFile(t, filepath.Join(root(t), "docs", "mcp.md")))
	var script strings.Builder
	for _, heading := range []string{"By hand: attend_wait", "By hand: events/poll", "By hand: the Field"} {
		for _, f := range fences(page, heading) {
			script.WriteString(f.text)
		}
	}
	lines := strings.Split(q.run(t, script.String()), "\n")

	var got []string
	for _, line := range lines {
		got = append(got, summary(t, line))
	}
	want := []string{
		"0 decisions, timed out",                              // the first wait
		"1 accepted", "1 decisions", "0 decisions, timed out", // push, wait, (the same again, cut up by sed), acknowledged
		"4 types", "0 events", // list, poll
		"1 accepted", "1 events", // push, poll from the cursor
		"notifications/events/active", "notifications/events/event", // the stream from the cursor
		"epoch 0", "epoch 1", "1 events", "1 conflicts", // two entries, a poll from before them, a reckoning
		"notifications/events/active", "notifications/events/event", // the stream from there
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the page's commands answer otherwise (-want +got):\n%s\n%s", diff, strings.Join(lines, "\n"))
	}
}

// summary tells an answer in a few words.
func summary(t *testing.T, line string) string {
	t.Helper()
	var a struct {
		Method string
		Error  json.RawMessage
		Result struct {
			Events            []struct{ EventID string }
			NextPollMs        *int64
			StructuredContent struct {
				Accepted  *int
				Decisions []json.RawMessage
				TimedOut  bool
				Conflicts []json.RawMessage
				Epoch     *int64
			}
		}
	}
	if err := json.Unmarshal([]byte(line), &a); err != nil || a.Error != nil {
		return "not a result: " + line
	}
	content := a.Result.StructuredContent
	switch {
	case a.Method != "":
		return a.Method
	case content.Accepted != nil:
		return fmt.Sprintf("%d accepted", *content.Accepted)
	case a.Result.NextPollMs != nil:
		return fmt.Sprintf("%d events", len(a.Result.Events))
	case a.Result.Events != nil:
		return fmt.Sprintf("%d types", len(a.Result.Events))
	case content.Conflicts != nil:
		return fmt.Sprintf("%d conflicts", len(content.Conflicts))
	case content.Epoch != nil:
		return fmt.Sprintf("epoch %d", *content.Epoch)
	case content.TimedOut:
		return fmt.Sprintf("%d decisions, timed out", len(content.Decisions))
	default:
		return fmt.Sprintf("%d decisions", len(content.Decisions))
	}
}

// testLog writes to the test's log.
type testLog struct{ t *testing.T }

func (l *testLog) Write(p []byte) (int, error) {
	l.t.Logf("%s", p)
	return len(p), nil
}

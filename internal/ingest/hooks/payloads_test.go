package hooks

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite testdata/github.golden")

// delivery is one of testdata/github.ndjson.gz: real payloads of 58 events (see
// testdata/README.md).
type delivery struct {
	Event   string          `json:"event"`
	Payload json.RawMessage `json:"payload"`
}

func deliveries(t testing.TB) (all []delivery) {
	t.Helper()
	packed, err := os.ReadFile("testdata/github.ndjson.gz")
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var d delivery
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	if err := lines.Err(); err != nil || len(all) < 100 {
		t.Fatalf("%d payloads: %v", len(all), err)
	}
	return all
}

// What every payload is read as: name, scope and text, a line each.
func TestGitHub_RealPayloads(t *testing.T) {
	w := newWorld(t, gitHubHook())
	var got strings.Builder
	names := make(map[string]bool)
	for i, d := range deliveries(t) {
		before := len(w.taken)
		w.deliver(d.Event, fmt.Sprint(i), string(d.Payload)).want(t, 200, "")
		names[d.Event] = true
		if d.Event == "ping" {
			continue
		}
		if len(w.taken) != before+1 {
			t.Fatalf("%s: %d events", d.Event, len(w.taken)-before)
		}
		e := w.taken[before]
		if !bytes.Equal(e.Data, d.Payload) || e.ID != fmt.Sprint(i) {
			t.Errorf("%s: the data is not the payload, or the id %q is another's", d.Event, e.ID)
		}
		fmt.Fprintf(&got, "%s | %s | %s\n", e.Name, e.Scope, e.Text)
	}
	if len(names) < 40 {
		t.Errorf("%d events alone", len(names))
	}
	if *update {
		if err := os.WriteFile("testdata/github.golden", []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/github.golden")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// None of them gets in with a signature that is wrong, of another body, cut, of
// another secret or missing, and all such are answered alike.
func TestGitHub_SpoofedPayloadsReachNothing(t *testing.T) {
	w := newWorld(t, gitHubHook())
	refused := 0
	for _, d := range deliveries(t) {
		body := string(d.Payload)
		right := "sha256=" + signed(gitHubSecret, body)
		var answers []string
		for _, signature := range []string{
			"", "sha256=", right[:len(right)-2], right[len("sha256="):], "sha1=" + right[len("sha256="):],
			"sha256=" + signed("another secret", body), "sha256=" + signed(gitHubSecret, body+" "), "sha256=" + strings.Repeat("0", 64),
		} {
			got := w.post("gh", body, "Content-Type", "application/json", "X-GitHub-Event", d.Event, "X-GitHub-Delivery", "x", "X-Hub-Signature-256", signature).
				want(t, 401, "unauthorized")
			answers = append(answers, fmt.Sprint(got.Body, got.Header()))
			refused++
		}
		for _, a := range answers {
			if a != answers[0] {
				t.Errorf("%s: two refusals differ:\n%s\n%s", d.Event, a, answers[0])
			}
		}
	}
	if len(w.taken) != 0 || w.count("gh", "unauthorized") != refused || w.count("gh", "accepted") != 0 {
		t.Errorf("%d events got in; %d of %d were counted", len(w.taken), w.count("gh", "unauthorized"), refused)
	}
	if strings.Contains(w.log.String(), gitHubSecret) {
		t.Error("the secret is in the log")
	}
}

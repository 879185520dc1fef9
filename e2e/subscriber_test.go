//go:build e2e

package e2e

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// hookSecret is a subscriber's: whsec_ and the base64 of 32 bytes.
const hookSecret = "whsec_a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s="

// receiver agrees to be called, and keeps the ids of what it is sent.
type receiver struct {
	*httptest.Server
	mu  sync.Mutex
	ids []string
}

// receive starts a receiver, with the certificate in these files.
func receive(t *testing.T, cert, key string) *receiver {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	r := new(receiver)
	r.Server = httptest.NewUnstartedServer(r)
	r.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	r.StartTLS()
	t.Cleanup(r.Close)
	return r
}

// ServeHTTP implements http.Handler.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var body struct{ Type, Challenge, EventID string }
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if body.Type == "verification" {
		_ = json.NewEncoder(w).Encode(map[string]string{"challenge": body.Challenge})
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids = append(r.ids, body.EventID)
	w.WriteHeader(http.StatusNoContent)
}

func (r *receiver) got(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Contains(strings.Join(r.ids, " "), id)
}

// The programs of docs/mcp.md subscribe as they are printed there.
func TestWebhooks_Documented(t *testing.T) {
	t.Parallel()
	one, two := documented(t)
	for name, program := range map[string]string{"sdk 1": one, "client 2": two} { //arch:sorted each by itself
		t.Run(name, func(t *testing.T) {
			d, r := withReceiver(t)
			cmd := exec.CommandContext(t.Context(), node(t), "--input-type=module", "--eval", program)
			cmd.Env = append(os.Environ(), "ATTEND_URL="+d.url, "ATTEND_TOKEN="+d.token, "CALLBACK="+r.URL+"/hooks/attend", "WEBHOOK_SECRET="+hookSecret)
			out := new(output)
			cmd.Stdout, cmd.Stderr = out, out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Wait()
			defer cmd.Process.Kill()
			eventually(t, "it is subscribed", func() bool { return strings.HasPrefix(out.String(), "sub_") })
			r.hears(t, d)
		})
	}
}

// documented returns the program that subscribes with the SDK 1.x, and the same
// with the imports of the client 2.x.
func documented(t *testing.T) (one, two string) {
	t.Helper()
	page, err := os.ReadFile("../docs/mcp.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "### A subscriber\n")
	section, _, _ = strings.Cut(section, "\n### ")
	blocks := regexp.MustCompile("(?s)```js\n(.*?)```").FindAllStringSubmatch(section, -1)
	if len(blocks) != 2 {
		t.Fatalf("docs/mcp.md has %d programs of subscribers, want 2", len(blocks))
	}
	one = blocks[0][1]
	return one, blocks[1][1] + regexp.MustCompile(`(?m)^import .*/sdk/.*\n`).ReplaceAllString(one, "")
}

// What docs/mcp.md shows in Go.
func TestWebhooks_Go(t *testing.T) {
	t.Parallel()
	type delivery struct {
		Mode   string `json:"mode"`
		URL    string `json:"url"`
		Secret string `json:"secret"`
	}
	type subscribeParams struct {
		mcp.ParamsBase
		Name      string         `json:"name"`
		Arguments map[string]any `json:"arguments,omitempty"`
		TTLMs     int64          `json:"ttlMs"`
		Delivery  delivery       `json:"delivery"`
	}
	type subscribeResult struct {
		mcp.ResultBase
		ID            string    `json:"id"`
		RefreshBefore time.Time `json:"refreshBefore"`
	}
	const method = "events/subscribe"
	d, r := withReceiver(t)
	client := mcp.NewClient(&mcp.Implementation{Name: "go", Version: "1"}, nil)
	if err := mcp.AddSendingCustomMethod[*subscribeParams, *subscribeResult](client, method); err != nil {
		t.Fatal(err)
	}
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: d.url + "/mcp", HTTPClient: &http.Client{Transport: bearer{d.token}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := mcp.CallCustomMethod[*subscribeParams, *subscribeResult](t.Context(), session, method, &subscribeParams{
		Name: decision, Arguments: map[string]any{"scope": "repo:*"}, TTLMs: time.Hour.Milliseconds(),
		Delivery: delivery{"webhook", r.URL + "/hooks/attend", hookSecret},
	})
	if err != nil || !strings.HasPrefix(got.ID, "sub_") || time.Until(got.RefreshBefore) < 50*time.Minute {
		t.Fatalf("subscribed: %+v, %v", got, err)
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	r.hears(t, d)
}

// withReceiver starts a daemon, and a receiver that it may call.
func withReceiver(t *testing.T) (*daemon, *receiver) {
	t.Helper()
	cert, key := certificate(t)
	d := prepare(t, token)
	d.env = []string{"ATTEND_WEBHOOK_ALLOW=127.0.0.1/32", "ATTEND_WEBHOOK_CA_FILE=" + cert, "ATTEND_SECRET_KEY=for the end-to-end tests"}
	d.start()
	return d, receive(t, cert, key)
}

// hears holds that a decision of the scopes subscribed to arrives.
func (r *receiver) hears(t *testing.T, d *daemon) {
	t.Helper()
	id := d.push("repo:acme/shop", "one")[0]
	eventually(t, "the decision is posted", func() bool { return r.got(id) })
}

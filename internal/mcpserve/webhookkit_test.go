package mcpserve

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"

	"attend/internal/guard"
	"attend/internal/mcpserve/webhook"
	"attend/internal/store"
)

// posted is one body that a receiver was sent.
type posted struct {
	id, subscription, signature string
	at                          int64
	raw                         []byte
	body                        map[string]any
}

// signedWith tells which of the signatures fits a secret, -1 for none.
func (p *posted) signedWith(secret string) int {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return -1
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%d.%s", p.id, p.at, p.raw)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for i, signature := range strings.Split(p.signature, " ") {
		if signature == want {
			return i
		}
	}
	return -1
}

// receiver is a callback on the network.
type receiver struct {
	*httptest.Server
	mu        sync.Mutex
	got       []posted
	challenge func(string) string // what it answers
	answer    func(*posted) int   // to events; nil is 204
	document  string
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{challenge: func(c string) string { return c }}
	r.Server = httptest.NewTLSServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method == http.MethodGet {
		_, _ = io.WriteString(w, r.document)
		return
	}
	h := req.Header
	p := posted{id: h.Get("webhook-id"), subscription: h.Get("X-MCP-Subscription-Id"), signature: h.Get("webhook-signature")}
	p.at, _ = strconv.ParseInt(h.Get("webhook-timestamp"), 10, 64)
	p.raw, _ = io.ReadAll(req.Body)
	_ = json.Unmarshal(p.raw, &p.body)
	status := http.StatusNoContent
	r.mu.Lock()
	if r.answer != nil && p.body["type"] == nil {
		status = r.answer(&p)
	}
	r.got = append(r.got, p)
	r.mu.Unlock()
	if p.body["type"] == "verification" {
		challenge, _ := p.body["challenge"].(string)
		_ = json.NewEncoder(w).Encode(map[string]string{"challenge": r.challenge(challenge)})
		return
	}
	w.WriteHeader(status)
}

// events are those that were posted, controls left out.
func (r *receiver) events() []posted {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []posted
	for _, p := range r.got {
		if p.body["type"] == nil {
			out = append(out, p)
		}
	}
	return out
}

func (r *receiver) controls(kind string) []posted {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []posted
	for _, p := range r.got {
		if p.body["type"] == kind {
			out = append(out, p)
		}
	}
	return out
}

// principals are who there is, by name.
type principals struct {
	mu sync.Mutex
	of map[string]Caller
}

func (p *principals) find(name string) (Caller, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.of[name]
	return c, ok
}

// webhookDaemon is a daemon that posts to a receiver on loopback.
type webhookDaemon struct {
	*daemon
	service *webhook.Service
	known   *principals
	finish  func() // ends the delivery
}

// whose is the header that says who calls.
const whose = "X-Caller"

type whoseKey struct{}

func newWebhookDaemon(t *testing.T, r *receiver, set settings) *webhookDaemon {
	t.Helper()
	w := &webhookDaemon{known: &principals{of: map[string]Caller{"ana": {Name: "ana"}, "ben": {Name: "ben"}}}}
	pool := x509.NewCertPool()
	pool.AddCert(r.Certificate())
	client := guard.New(guard.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Roots: pool})
	set.wrap = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(out http.ResponseWriter, req *http.Request) {
			next.ServeHTTP(out, req.WithContext(context.WithValue(req.Context(), whoseKey{}, req.Header.Get(whose))))
		})
	}
	more := set.options
	set.options = func(o *Options) {
		o.Caller = func(ctx context.Context) Caller {
			name, _ := ctx.Value(whoseKey{}).(string)
			c, _ := w.known.find(name)
			return c
		}
		o.Principal = w.known.find
		if more != nil {
			more(o)
		}
		o.Webhooks = lateWebhooks{w}
	}
	w.daemon = newDaemon(t, set)
	var err error
	w.service, err = webhook.New(webhook.Options{
		Store: w.store, Fence: func(int) (store.Fence, bool) { return w.fence, true }, Client: client,
		Durable: true, Logger: w.server.log, Registerer: w.reg,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- w.service.Run(ctx, w.server) }()
	w.finish = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		client.Close()
	})
	t.Cleanup(w.finish)
	return w
}

// lateWebhooks is the service, which is made after the server.
type lateWebhooks struct{ of *webhookDaemon }

func (l lateWebhooks) Subscribe(ctx context.Context, r webhook.Request) (*webhook.Granted, error) {
	return l.of.service.Subscribe(ctx, r)
}

func (l lateWebhooks) Unsubscribe(ctx context.Context, k webhook.Key) error {
	return l.of.service.Unsubscribe(ctx, k)
}

// as calls in somebody's name.
func (w *webhookDaemon) as(name, era, method, params string) *reply {
	w.t.Helper()
	h, body := request(era, method, params)
	h.Set(whose, name)
	return w.post(h, body)
}

var (
	secretA = "whsec_" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdefghijklmnopqrstuv"))
	secretB = "whsec_" + base64.StdEncoding.EncodeToString([]byte("vutsrqponmlkjihgfedcba9876543210"))
)

// subscribing are the parameters of a subscription to decisions.
func subscribing(url, secret, more string) string {
	return fmt.Sprintf(`"name":"attention.decision","delivery":{"mode":"webhook","url":%q,"secret":%q}%s`, url, secret, more)
}

func (w *webhookDaemon) subscribe(url, secret, more string) map[string]any {
	w.t.Helper()
	r := w.as("ana", modern, "events/subscribe", subscribing(url, secret, more))
	if r.msg.Error != nil || r.status != http.StatusOK {
		w.t.Fatalf("subscribe: %d %s", r.status, r.body)
	}
	return r.msg.Result
}

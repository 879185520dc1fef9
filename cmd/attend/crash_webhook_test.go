package main_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"attend/internal/engine"
	"attend/internal/feed"
)

const (
	webhookToken = "the-token-of-the-crash-test"
	webhookKills = 10 // when nobody says otherwise
)

// TestCrashWebhooks kills the daemon while it posts decisions. Every decision
// arrives, every signature is right, and no body ever says that more has arrived
// than has. ATTEND_CRASH_KILLS and ATTEND_CRASH_SEED set its length and its dice.
func TestCrashWebhooks(t *testing.T) {
	kills := environ(t, "ATTEND_CRASH_KILLS", webhookKills)
	seed := environ(t, "ATTEND_CRASH_SEED", time.Now().UnixNano()%1_000_000_000)
	t.Logf("seed %d (ATTEND_CRASH_SEED)", seed)
	rng := rand.New(rand.NewPCG(uint64(seed), 1))
	d := newDaemon(t, buildDaemon(t), rng)
	hook := newHook(t, rand.New(rand.NewPCG(uint64(seed), 2)))
	d.write("ca.pem", string(hook.certificate()))
	log := d.store
	d.store = func() []string {
		return append(log(), "ATTEND_TOKEN="+webhookToken, "ATTEND_WEBHOOK_ALLOW=127.0.0.0/8", "ATTEND_SECRET_KEY=a key that encrypts secrets",
			"ATTEND_WEBHOOK_CA_FILE="+filepath.Join(d.dir, "ca.pem"))
	}
	d.startReady(0)
	from := hook.subscribe(t, d.base())

	ctx, cancel := context.WithCancel(t.Context())
	producing := make(chan struct{})
	go func() {
		defer close(producing)
		for n := 0; ctx.Err() == nil; n++ {
			line := fmt.Sprintf(`{"scope":"hook:%d","name":"act.flush","id":"e%d","text":"it happened"}`, n%7, n)
			_ = authorized(ctx, d.base()+"/v1/ingest", "application/x-ndjson", line, nil) // what is refused did not happen
			pause(ctx, 2*time.Millisecond)
		}
	}()
	for range kills {
		pause(t.Context(), time.Duration(20+rng.IntN(500))*time.Millisecond)
		d.kill()
		d.startReady(0)
	}
	pause(t.Context(), 200*time.Millisecond)
	cancel()
	<-producing
	d.end(syscall.SIGTERM)
	all := decisionsAfter(t, d.left(), from)
	d.startReady(0)
	eventually(t, time.Minute, "not every decision has arrived", func() bool { return hook.has(all) })
	d.end(syscall.SIGTERM)
	d.checkLog()
	hook.check(t, all)
	t.Logf("%d kills, %d decisions, %d deliveries of which %d were refused on purpose", kills, len(all), len(hook.got), hook.refused)
}

// decisionsAfter are the positions of the decisions behind a position, by id. It
// closes the log.
func decisionsAfter(t *testing.T, st leftovers, from engine.Position) map[string]engine.Position {
	t.Helper()
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	all := make(map[string]engine.Position)
	for {
		recs, err := st.Read(t.Context(), from, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(recs) == 0 {
			return all
		}
		for i := range recs {
			if s := recs[i].Step; s != nil && s.Kind == engine.StepDecision {
				all[s.ID] = recs[i].Position
			}
			from = recs[i].Position
		}
	}
}

// authorized posts a body with the token, and decodes a 200 into out.
func authorized(ctx context.Context, url, kind, body string, out any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Authorization", "Bearer "+webhookToken)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || out == nil {
		return err
	}
	return json.Unmarshal(b, out)
}

// delivery is one body that arrived and was taken.
type delivery struct {
	id     string
	before engine.Position // the watermark in it
}

// hook is a receiver that refuses now and then.
type hook struct {
	*httptest.Server
	secret []byte

	mu      sync.Mutex
	rng     *rand.Rand
	got     []delivery // that were taken, in order
	first   map[string]int
	refused int
	denied  map[string]int
	faults  []string
}

func newHook(t *testing.T, rng *rand.Rand) *hook {
	h := &hook{secret: bytes.Repeat([]byte{7}, 32), rng: rng, first: make(map[string]int), denied: make(map[string]int)}
	h.Server = httptest.NewUnstartedServer(h)
	h.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // of connections that a kill has cut
	h.StartTLS()
	t.Cleanup(h.Close)
	return h
}

func (h *hook) certificate() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})
}

// ServeHTTP checks and takes what is posted.
func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // cut off by a kill
	}
	var posted struct{ EventID, Cursor, Type, Challenge string }
	bad := json.Unmarshal(body, &posted)
	id, stamp := r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp")
	mac := hmac.New(sha256.New, h.secret)
	fmt.Fprintf(mac, "%s.%s.%s", id, stamp, body)
	at, _ := strconv.ParseInt(stamp, 10, 64)
	age := time.Since(time.Unix(at, 0))
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case bad != nil, r.Header.Get("webhook-signature") != "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)), age > time.Minute, age < -time.Minute:
		h.faults = append(h.faults, fmt.Sprintf("%s of %s: signature %q, %s", id, stamp, r.Header.Get("webhook-signature"), body))
		w.WriteHeader(http.StatusUnauthorized)
	case posted.Type == "verification":
		_ = json.NewEncoder(w).Encode(map[string]string{"challenge": posted.Challenge})
	case posted.Type != "" || posted.EventID != id:
		h.faults = append(h.faults, fmt.Sprintf("nobody expects %s", body))
		w.WriteHeader(http.StatusBadRequest)
	case h.rng.IntN(10) == 0 && h.denied[id] < 2:
		h.denied[id]++
		h.refused++
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		cursor, err := feed.DecodeCursor(posted.Cursor)
		if err != nil {
			h.faults = append(h.faults, err.Error())
		}
		if _, known := h.first[id]; !known {
			h.first[id] = len(h.got)
		}
		h.got = append(h.got, delivery{id, cursor.Position})
		w.WriteHeader(http.StatusNoContent)
	}
}

// subscribe has the daemon post every decision here, and returns where it
// begins.
func (h *hook) subscribe(t *testing.T, daemon string) engine.Position {
	t.Helper()
	call := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"events/subscribe","params":{"name":"attention.decision","ttlMs":null,`+
		`"delivery":{"mode":"webhook","url":"%s/hook","secret":"whsec_%s"}}}`, h.URL, base64.StdEncoding.EncodeToString(h.secret))
	var answer struct {
		Result struct {
			Cursor        string
			RefreshBefore *string
		}
		Error json.RawMessage
	}
	if err := authorized(t.Context(), daemon+"/mcp", "application/json", call, &answer); err != nil || answer.Error != nil || answer.Result.RefreshBefore != nil {
		t.Fatalf("subscribe: %v %s %+v", err, answer.Error, answer.Result)
	}
	cursor, err := feed.DecodeCursor(answer.Result.Cursor)
	if err != nil {
		t.Fatal(err)
	}
	return cursor.Position
}

// has tells whether all decisions have arrived.
func (h *hook) has(all map[string]engine.Position) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id := range all {
		if _, ok := h.first[id]; !ok {
			return false
		}
	}
	return true
}

// check holds what arrived against what was decided: a watermark must not pass a
// decision that had not been taken before.
func (h *hook) check(t *testing.T, all map[string]engine.Position) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, fault := range h.faults {
		t.Error(fault)
	}
	if len(all) < 20 {
		t.Fatalf("%d decisions: the test has looked at nothing", len(all))
	}
	for id := range h.first {
		if _, ok := all[id]; !ok {
			t.Errorf("%s arrived, and was never decided", id)
		}
	}
	for id, at := range all {
		for i, got := range h.got {
			if i >= h.first[id] {
				break
			}
			if got.before >= at {
				t.Errorf("body %d, of %s, says that everything up to %d has arrived; %s at %d came as body %d", i, got.id, got.before, id, at, h.first[id])
				break
			}
		}
	}
}

package hooks

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a Service whose ingest is a list, and whose clock stands still.
type world struct {
	t        testing.TB
	service  *Service
	registry *prometheus.Registry
	log      bytes.Buffer
	now      time.Time

	taken []Event // by ingest, duplicates left out
	fails error   // what ingest says in place of taking them
	limit int64   // bytes of an event
}

const atTest = 1_790_000_000 // Unix seconds of the world's clock

func newWorld(t testing.TB, list ...Hook) *world {
	t.Helper()
	w := &world{t: t, registry: prometheus.NewPedanticRegistry(), now: time.Unix(atTest, 0), limit: 1 << 20}
	var err error
	w.service, err = New(Options{
		Hooks: list, Push: w.push, MaxEventBytes: func(string) int64 { return w.limit }, Now: func() time.Time { return w.now },
		Logger: slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug})), Registerer: w.registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// push takes what ingest would: it knows ids, and refuses what has no name.
func (w *world) push(_ context.Context, events []Event) (Pushed, error) {
	if w.fails != nil {
		return Pushed{}, w.fails
	}
	var p Pushed
	for i := range events {
		e := events[i]
		known := false
		for j := range w.taken {
			known = known || w.taken[j].Scope == e.Scope && w.taken[j].ID == e.ID && e.ID != ""
		}
		switch {
		case e.Name == "" || e.Scope == "" || len(e.Name) > 256 || e.Data != nil && !json.Valid(e.Data):
			p.Rejected++
			p.Faults = append(p.Faults, Fault{i + 1, "ingest refuses it"})
		case known:
			p.Duplicates++
		default:
			e.number = 0
			w.taken = append(w.taken, e)
			p.Accepted++
		}
	}
	return p, nil
}

// sent is a request and its answer.
type sent struct {
	*httptest.ResponseRecorder
	request *http.Request
}

// post sends a body to a hook.
func (w *world) post(hook, body string, headers ...string) sent {
	w.t.Helper()
	return w.send(httptest.NewRequest(http.MethodPost, Path+hook, bytes.NewReader([]byte(body))), headers...)
}

func (w *world) send(r *http.Request, headers ...string) sent {
	w.t.Helper()
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	w.service.ServeHTTP(rec, r)
	return sent{rec, r}
}

// want checks the status, and a problem's code where one is wanted.
func (s sent) want(t testing.TB, status int, code string) sent {
	t.Helper()
	var p struct{ Code string }
	if code != "" && json.Unmarshal(s.Body.Bytes(), &p) != nil || s.Code != status || p.Code != code {
		t.Errorf("%s %s: %d, want %d %s: %s", s.request.Method, s.request.URL, s.Code, status, code, s.Body)
	}
	return s
}

// count is how many requests to a hook had a result.
func (w *world) count(hook, result string) int {
	w.t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if labels := labelsOf(m); f.GetName() == "attend_hook_requests_total" && labels["hook"] == hook && labels["result"] == result {
				return int(m.GetCounter().GetValue())
			}
		}
	}
	w.t.Errorf("there is no series of the hook %q and result %q", hook, result)
	return 0
}

func labelsOf(m *dto.Metric) map[string]string {
	all := make(map[string]string)
	for _, l := range m.GetLabel() {
		all[l.GetName()] = l.GetValue()
	}
	return all
}

// signed is an HMAC-SHA-256 in hex, of our own making.
func signed(secret string, parts ...string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	for _, p := range parts {
		_, _ = io.WriteString(mac, p)
	}
	return hex.EncodeToString(mac.Sum(nil))
}

func stamp(offset time.Duration) string {
	return strconv.FormatInt(atTest+int64(offset/time.Second), 10)
}

func keys(secrets ...string) (all [][]byte) {
	for _, s := range secrets {
		all = append(all, []byte(s))
	}
	return all
}

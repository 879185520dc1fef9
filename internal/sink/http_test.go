package sink

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const key = "a key of thirty-two bytes, no less"

// receiver answers as it is told, and verifies what it is sent with the
// library of Standard Webhooks.
func receiver(t *testing.T, answer http.HandlerFunc) *HTTP {
	t.Helper()
	verifier, err := standardwebhooks.NewWebhook("whsec_" + base64.StdEncoding.EncodeToString([]byte(key)))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = verifier.Verify(body, r.Header)
		}
		if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || string(body) != `{"id":"w1"}` || r.Header.Get("Webhook-Id") != "w1" {
			t.Errorf("%s %v with %q: %v", r.Method, r.Header, body, err)
		}
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	s, err := NewHTTP(server.URL+"/hook?token=hidden", []byte(key), "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func message() *Message { return &Message{ID: "w1", Body: []byte(`{"id":"w1"}`)} }

func TestHTTP_Answers(t *testing.T) {
	for _, c := range []struct {
		status int
		header string
		never  bool
		after  time.Duration
		ok     bool
	}{
		{status: 200, ok: true},
		{status: 204, ok: true},
		{status: 301, never: true},
		{status: 307, never: true},
		{status: 400, never: true},
		{status: 401, never: true},
		{status: 404, never: true},
		{status: 408},
		{status: 410, never: true},
		{status: 413, never: true},
		{status: 422, never: true},
		{status: 425},
		{status: 429},
		{status: 429, header: "7", after: 7 * time.Second},
		{status: 429, header: " 7 ", after: 7 * time.Second},
		{status: 429, header: "0.5"},
		{status: 429, header: "Inf"},
		{status: 429, header: "1e0"},
		{status: 429, header: "0x10"},
		{status: 429, header: "+7"},
		{status: 429, header: "-1"},
		{status: 429, header: "NaN"},
		{status: 429, header: "soon"},
		{status: 503, header: "864000", after: time.Hour},
		{status: 503, header: "1e300"},
		{status: 503, header: strings.Repeat("9", 40), after: time.Hour},
		{status: 503, header: time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)},
		{status: 503, header: time.Now().Add(240 * time.Hour).UTC().Format(http.TimeFormat), after: time.Hour},
		{status: 500},
		{status: 599},
	} {
		s := receiver(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://"+r.Host+"/elsewhere")
			if c.header != "" {
				w.Header().Set("Retry-After", c.header)
			}
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, strings.Repeat("x", 100))
		})
		err := s.Deliver(t.Context(), message())
		if c.ok {
			if err != nil {
				t.Errorf("%d: %v", c.status, err)
			}
			continue
		}
		e := (*Error)(nil)
		if !errors.As(err, &e) || e.Permanent() != c.never || e.RetryAfter() != c.after || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%d %q: %#v", c.status, c.header, err)
		}
	}
}

// What goes wrong on the way is tried again, and is told without the URL.
func TestHTTP_OnTheWay(t *testing.T) {
	gone := httptest.NewServer(nil)
	url := gone.URL + "/hook?token=hidden"
	gone.Close()
	s, err := NewHTTP(url, []byte(key), "1")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	broken := receiver(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for name, s := range map[string]Sink{"nobody listens": s, "the connection breaks": broken} {
		err := s.Deliver(t.Context(), message())
		if e := (*Error)(nil); !errors.As(err, &e) || e.Permanent() || strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), "/hook") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The status says what became of a message: a body behind it that does not end
// holds nothing up, and changes nothing.
func TestHTTP_ABodyThatDoesNotEnd(t *testing.T) {
	for status, ok := range map[int]bool{200: true, 400: false} {
		s := receiver(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "begun")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := Within(40*time.Second, s).Deliver(ctx, message())
		if ctx.Err() != nil || (err == nil) != ok || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d: %v", status, err)
		}
		cancel()
	}
}

func TestHTTP_ItsTime(t *testing.T) {
	release := make(chan struct{})
	s := receiver(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	err := Within(20*time.Millisecond, s).Deliver(t.Context(), message())
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "timeoutMs (20)") {
		t.Errorf("the sink's own time: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := Within(time.Hour, s).Deliver(ctx, message()); !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "timeoutMs") {
		t.Errorf("the attempt's time: %v", err)
	}
}

func TestNewHTTP_NeedsAKey(t *testing.T) {
	if _, err := NewHTTP("http://localhost", nil, "1"); err == nil {
		t.Error("no key is taken")
	}
}

package source

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const (
	theToken = "the-token-of-the-server"
	theQuery = "key=of-the-query"
)

// serve runs a server over HTTP that answers each request of a method as a test
// says, and returns a Dialer for it.
func serve(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, method string, id json.RawMessage)) Dialer {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if err := errors.Join(err, json.Unmarshal(body, &m)); err != nil || r.Header.Get("Authorization") != "Bearer "+theToken || r.URL.RawQuery != theQuery {
			t.Errorf("%s %s came with %q: %v", r.Method, r.URL, r.Header, err)
		}
		w.Header().Set("Content-Type", "application/json")
		switch {
		case m.Method == "server/discover":
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"error":{"code":-32601,"message":"no"}}`)
		case m.Method == "initialize":
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`)
		case len(m.ID) == 0:
			w.WriteHeader(http.StatusAccepted)
		default:
			answer(w, r, m.Method, m.ID)
		}
	}))
	t.Cleanup(s.Close)
	return dialerTo(t, s.URL)
}

func dialerTo(t *testing.T, base string) Dialer {
	t.Helper()
	d, err := NewHTTP(base+"/mcp?"+theQuery, theToken, "test")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// pollOver dials and polls once.
func pollOver(t *testing.T, d Dialer) (Page, error) {
	t.Helper()
	s, err := d.Dial(t.Context(), func() {})
	if err != nil {
		return Page{}, err
	}
	defer s.Close()
	return s.Poll(t.Context(), Request{Name: "x"})
}

func TestHTTP_SendsTheTokenAndTheRevision(t *testing.T) {
	got, err := pollOver(t, serve(t, func(w http.ResponseWriter, r *http.Request, _ string, id json.RawMessage) {
		if v := r.Header.Get(headerVersion); v != "2025-11-25" {
			t.Errorf("the revision is told as %q", v)
		}
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(id)+`,"result":{"events":[],"cursor":"c"}}`)
	}))
	if err != nil || got.Cursor == nil || *got.Cursor != "c" {
		t.Errorf("page %+v, %v", got, err)
	}
}

// Whatever goes wrong is told without the token and the query.
func TestHTTP_ErrorsHoldNoSecret(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close() // nobody listens there any longer
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect is followed") }))
	defer elsewhere.Close()
	status := func(code int, body string) Dialer {
		return serve(t, func(w http.ResponseWriter, _ *http.Request, _ string, _ json.RawMessage) {
			w.Header().Set("Location", elsewhere.URL)
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		})
	}
	for name, c := range map[string]struct {
		dialer Dialer
		says   string
	}{
		"nobody listens": {dialerTo(t, "http://"+listener.Addr().String()), "connection refused"},
		"not let in":     {status(http.StatusUnauthorized, "not with "+theToken), "Unauthorized"},
		"busy":           {status(http.StatusServiceUnavailable, theToken), "Service Unavailable"},
		"a redirect":     {status(http.StatusTemporaryRedirect, ""), "Temporary Redirect"},
		"too long": {serve(t, func(w http.ResponseWriter, _ *http.Request, _ string, _ json.RawMessage) {
			_, _ = io.WriteString(w, strings.Repeat(" ", maxAnswerBytes)+`{"jsonrpc":"2.0"}`)
		}), "the answer is longer than 16777216 bytes"},
		"cut": {serve(t, func(w http.ResponseWriter, _ *http.Request, _ string, _ json.RawMessage) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, ": ok\n\n")
		}), "request terminated without response"},
		"its own words": {serve(t, func(w http.ResponseWriter, r *http.Request, _ string, id json.RawMessage) {
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(id)+`,"error":{"code":-32024,"message":"`+theToken+` may not"}}`)
		}), "Forbidden (-32024): [hidden] may not"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pollOver(t, c.dialer)
			if err == nil {
				t.Fatal("nothing goes wrong")
			}
			if text := err.Error(); !strings.Contains(text, c.says) || strings.Contains(text, theToken) || strings.Contains(text, theQuery) {
				t.Errorf("it says %q", text)
			}
		})
	}
}

// A server may repeat the address, its query, a value of it or the token.
func TestHTTP_RedactsWhatItWasAskedWith(t *testing.T) {
	d, err := NewHTTP("http://127.0.0.1:1/mcp?key=a%2Bsecret&on=1&plain=visible", theToken, "test")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"at http://127.0.0.1:1/mcp?key=a%2Bsecret&on=1&plain=visible": "at http://127.0.0.1:1/mcp",
		"at /mcp?key=a%2Bsecret&on=1&plain=visible":                   "at /mcp?[hidden]",
		"key a%2Bsecret, or a+secret":                                 "key [hidden], or [hidden]",
		"Bearer " + theToken + " visible 1":                           "Bearer [hidden] [hidden] 1",
	} {
		if got := d.Redact(text); got != want {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

func TestHTTP_RefusesWhatIsNoAddress(t *testing.T) {
	for _, address := range []string{"", "ci.example.com", "ftp://ci.example.com", "http://"} {
		if _, err := NewHTTP(address, "", "test"); err == nil {
			t.Errorf("%q is taken", address)
		}
	}
}

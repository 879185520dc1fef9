package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"attend/internal/engine"
	"attend/internal/judge"
)

const (
	secret = "sk-a-key-that-nobody-may-see"
	state  = "the-window-that-was-sent"
	answer = `{"route":"queue"}`
)

// serve starts a host of a judge.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// ask posts to a host as a judge does.
func ask(ctx context.Context, t *testing.T, url string) (Response, *engine.Exchange, *judge.Error) {
	t.Helper()
	c := New()
	t.Cleanup(c.Close)
	x := &engine.Exchange{}
	resp, err := c.Exchange(ctx, Request{
		URL: url + "/v1/ask?code=" + secret, Header: http.Header{"Authorization": {"Bearer " + secret}}, Body: []byte(`{"state":"` + state + `"}`),
	}, x)
	if err == nil {
		return resp, x, nil
	}
	var e *judge.Error
	if !errors.As(err, &e) {
		t.Fatalf("the error %v is of no class", err)
	}
	for _, s := range []string{secret, state, "code="} {
		if strings.Contains(err.Error(), s) || strings.Contains(x.Message, s) {
			t.Errorf("the error %q holds %q", err, s)
		}
	}
	if strings.Contains(x.Answer, secret) {
		t.Errorf("the record holds the key: %s", x.Answer)
	}
	if x.Message != e.Message {
		t.Errorf("the record says %q, the error %q", x.Message, e.Message)
	}
	return resp, x, e
}

// exchangeWith posts with headers, and returns the record.
func exchangeWith(t *testing.T, c *Client, url string, h http.Header) *engine.Exchange {
	t.Helper()
	x := &engine.Exchange{}
	if _, err := c.Exchange(t.Context(), Request{URL: url, Header: h, Body: []byte(`{}`)}, x); err == nil {
		t.Fatal("no error")
	}
	return x
}

// hijack answers with bytes of its own and closes the connection.
func hijack(t *testing.T, raw string, reset bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		if tcp, ok := conn.(interface{ SetLinger(sec int) error }); ok && reset {
			tcp.SetLinger(0)
		}
		conn.Write([]byte(raw))
		conn.Close()
	}
}

func TestPost_Answer(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Authorization") != "Bearer "+secret {
			t.Errorf("asked with %s %v", r.Method, r.Header)
		}
		w.Header().Set("X-Request-Id", "req_1")
		fmt.Fprint(w, answer)
	})
	resp, x, err := ask(t.Context(), t, url)
	if err != nil {
		t.Fatal(err)
	}
	if string(resp.Body) != answer || resp.Status != 200 || resp.RequestID != "req_1" {
		t.Errorf("got %+v", resp)
	}
	if x.Answer != answer || x.Status != 200 || x.RequestID != "req_1" || x.Outcome != "" || x.TookMs < 0 {
		t.Errorf("the record is %+v", x)
	}
}

// Everything that can happen to a connection or an answer.
func TestPost_Faults(t *testing.T) {
	write := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }
	}
	for name, c := range map[string]struct {
		host  http.HandlerFunc
		class judge.Class
		says  string
	}{
		"200 with HTML":            {write("<html>" + secret + "</html>"), judge.Malformed, "the answer is no JSON"},
		"200 with nothing":         {write(""), judge.Malformed, "the answer is no JSON"},
		"200 with cut JSON":        {write(answer[:9]), judge.Malformed, "the answer is no JSON"},
		"200 with two values":      {write(answer + answer), judge.Malformed, "the answer is no JSON"},
		"200 at the cap":           {write(`"` + strings.Repeat("x", MaxBody-2) + `"`), "", ""},
		"200 over the cap":         {write(`"` + strings.Repeat("x", MaxBody-1) + `"`), judge.Malformed, "longer than 1048576 bytes"},
		"body shorter than stated": {hijack(t, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"+answer, false), judge.Transient, "closed the connection"},
		"chunk that breaks off":    {hijack(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n11\r\n"+answer, false), judge.Transient, "closed the connection"},
		"closed before the answer": {hijack(t, "", false), judge.Transient, "closed the connection"},
		"reset":                    {hijack(t, "", true), judge.Transient, "connection reset by peer"},
		"reset within the body":    {hijack(t, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"+answer, true), judge.Transient, ""},
		"not HTTP":                 {hijack(t, "SSH-2.0-"+secret+"\r\n", false), judge.Transient, "did not answer as HTTP does"},
		"headers over the cap":     {hijack(t, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", maxHeaderBytes+4096)+"\r\n\r\n", false), judge.Transient, "did not answer as HTTP does"},
	} {
		t.Run(name, func(t *testing.T) {
			_, x, err := ask(t.Context(), t, serve(t, c.host))
			if c.class == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || err.Class != c.class || !strings.Contains(err.Message, c.says) {
				t.Fatalf("got %v, want %s %q", err, c.class, c.says)
			}
			if x.Outcome != string(c.class) {
				t.Errorf("the record's outcome is %q", x.Outcome)
			}
		})
	}
}

func TestPost_Slow(t *testing.T) {
	for name, begin := range map[string]func(w http.ResponseWriter){
		"headers": func(http.ResponseWriter) {},
		"body": func(w http.ResponseWriter) {
			fmt.Fprint(w, answer[:9])
			w.(http.Flusher).Flush()
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // only then is it heard that the other side has gone
				begin(w)
				<-r.Context().Done()
			})
			_, x, err := ask(ctx, t, url)
			if err == nil || err.Class != judge.Transient || !strings.Contains(err.Message, "did not answer in time") {
				t.Fatalf("got %v", err)
			}
			if x.Outcome != "timeout" {
				t.Errorf("the record's outcome is %q", x.Outcome)
			}
		})
	}
}

func TestPost_NobodyThere(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	if _, _, err := ask(t.Context(), t, s.URL); err == nil || err.Class != judge.Transient || !strings.Contains(err.Message, "connection refused") {
		t.Errorf("got %v", err)
	}
}

// A redirect would carry the key and the window elsewhere.
func TestPost_RedirectsAreRefused(t *testing.T) {
	elsewhere := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the request came to where the redirect leads, with %v", r.Header)
	})
	for _, status := range []int{301, 302, 303, 307, 308} {
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", elsewhere+"/?key="+secret)
			w.WriteHeader(status)
		})
		_, _, err := ask(t.Context(), t, url)
		if err == nil || err.Class != judge.Permanent || err.Status != status || !strings.HasPrefix(err.Message, strings.TrimPrefix(url, "http://")+": the judge redirects, and redirects are not followed") {
			t.Errorf("%d: got %v", status, err)
		}
	}
}

func TestPost_WhatCannotBeSent(t *testing.T) {
	for _, url := range []string{"", "api.example.org/v1", "ftp://example.org/", "https://", "http://%zz/" + secret} {
		_, err := New().Post(t.Context(), Request{URL: url})
		var e *judge.Error
		if !errors.As(err, &e) || e.Class != judge.Permanent || strings.Contains(e.Message, secret) {
			t.Errorf("url %q: got %v", url, err)
		}
	}
	_, err := New().Post(t.Context(), Request{URL: "http://127.0.0.1:1", Header: http.Header{"X-Api-Key": {secret + "\n"}}})
	var e *judge.Error
	if !errors.As(err, &e) || e.Class != judge.Permanent || strings.Contains(e.Message, secret) || !strings.Contains(e.Message, "X-Api-Key") {
		t.Errorf("a key with a newline: got %v", err)
	}
}

// A proxy of the environment would see every window.
func TestPost_NoProxyOfTheEnvironment(t *testing.T) {
	proxy := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the proxy was asked") })
	t.Setenv("HTTP_PROXY", proxy)
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) })
	if _, _, err := ask(t.Context(), t, url); err != nil {
		t.Error(err)
	}
	if c, ok := New().http.Transport.(*http.Transport); !ok || c.Proxy != nil { // loopback never goes through one
		t.Error("the transport has a proxy")
	}
}

func TestExchange_RecordIsBounded(t *testing.T) {
	long := `"` + strings.Repeat("é", MaxRecord) + secret + `"`
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, long) })
	_, x, err := ask(t.Context(), t, url)
	if err != nil {
		t.Fatal(err)
	}
	if len(x.Answer) > MaxRecord || !strings.HasSuffix(x.Answer, " bytes)") || strings.Contains(x.Answer, "�") {
		t.Errorf("%d bytes, ends in %q", len(x.Answer), x.Answer[len(x.Answer)-30:])
	}
	url = serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error":{"code":"invalid_api_key","message":"no such key: %s"}}`, secret)
	})
	if _, x, _ = ask(t.Context(), t, url); !strings.Contains(x.Answer, "no such key: [key]") {
		t.Errorf("the record is %s", x.Answer)
	}
}

// A model's name stands in every decision, so a host may not write what it likes there.
func TestModel(t *testing.T) {
	const key = "marker-of-a-key"
	for name, want := range map[string]string{
		"jev-1.13.0":            "jev-1.13.0",
		"m " + key + "\nforged": "m [key]\\nforged",
		"m\xff":                 `m\ufffd`,
	} {
		if got := Model(name, key); got != want {
			t.Errorf("%q is shown as %q, want %q", name, got, want)
		}
	}
	if got := Model(strings.Repeat("m", 1<<20), key); len(got) > 256 {
		t.Errorf("a name of 1 MiB is shown as %d bytes", len(got))
	}
	if got := Model("a mode", "mode"); got != "a [key]" {
		t.Errorf("a key that is short is shown: %q", got)
	}
}

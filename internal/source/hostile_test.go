package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A server that asks and does not take the answers costs a few goroutines and
// connections, and then its session.
func TestHTTP_AServerAsksMoreThanItIsAnswered(t *testing.T) {
	hangs := make(chan struct{})
	var answers atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		switch m.Method {
		case "server/discover":
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
		case "initialize":
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`, m.ID)
		case "events/stream":
			w.Header().Set("Content-Type", "text/event-stream")
			for n := range 2000 {
				_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":\"p%d\",\"method\":\"ping\"}\n\n", n)
			}
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case "":
			answers.Add(1)
			select {
			case <-hangs:
			case <-r.Context().Done():
			}
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	defer s.Close()
	defer close(hangs)
	session, err := dialerTo(t, s.URL).Dial(t.Context(), func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if err := session.Stream(t.Context(), Request{Name: "x"}, func(Notification) {}); !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), errAsked.Error()) {
		t.Errorf("it is over with %v", err)
	}
	if n := answers.Load(); n > maxAsked {
		t.Errorf("%d answers were on their way at once, want at most %d", n, maxAsked)
	}
}

// What a server asks within bounds is answered, however much it is in all.
func TestSession_AnswersWhatIsAsked(t *testing.T) {
	answered := make(chan struct{}, 1)
	s, _, _ := connect(t, func(p *peer, method string, id json.RawMessage, _ map[string]any) {
		if method == "" {
			answered <- struct{}{}
			return
		}
		go func() {
			for n := range 3 * maxAsked {
				p.say(`{"jsonrpc":"2.0","id":"p%d","method":"ping"}`, n)
				<-answered
			}
			p.result(id, `{"events":[],"cursor":"c"}`)
		}()
	})
	defer s.Close()
	if got, err := s.Poll(t.Context(), Request{Name: "x"}); err != nil || *got.Cursor != "c" {
		t.Errorf("page %+v, %v", got, err)
	}
}

// endless writes until nobody reads, and tells how much was taken.
func endless(w http.ResponseWriter) (taken int) {
	piece := []byte(strings.Repeat("x", 1<<16))
	for taken < 64<<20 {
		n, err := w.Write(piece)
		if taken += n; err != nil {
			break
		}
	}
	return taken
}

// An answer has a bound whatever it says of itself, unless it is a stream.
func TestHTTP_AnAnswerWithoutEndIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		kind   string
	}{
		"an error that says it is a stream": {http.StatusBadRequest, "text/event-stream"},
		"what is nearly a stream":           {http.StatusOK, "text/event-streams"},
		"no stream":                         {http.StatusOK, "application/json"},
	} {
		t.Run(name, func(t *testing.T) {
			took := make(chan int, 1)
			_, err := pollOver(t, serve(t, func(w http.ResponseWriter, _ *http.Request, _ string, _ json.RawMessage) {
				w.Header().Set("Content-Type", c.kind)
				w.WriteHeader(c.status)
				took <- endless(w)
			}))
			if err == nil {
				t.Error("it is an answer")
			}
			if n := <-took; n > 2*maxAnswerBytes {
				t.Errorf("%d bytes of it were read", n)
			}
		})
	}
}

// A stream is one in whatever case it is written.
func TestHTTP_TheMediaTypeHasNoCase(t *testing.T) {
	got, err := pollOver(t, serve(t, func(w http.ResponseWriter, _ *http.Request, _ string, id json.RawMessage) {
		w.Header().Set("Content-Type", "Text/Event-Stream; charset=utf-8")
		_, _ = fmt.Fprintf(w, ": %s\n\n", strings.Repeat("x", 1<<16))
		for range 300 { // more than an answer may have in all
			_, _ = fmt.Fprintf(w, ": %s\n\n", strings.Repeat("x", 1<<16))
		}
		_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"events\":[],\"cursor\":\"c\"}}\n\n", id)
	}))
	if err != nil || got.Cursor == nil || *got.Cursor != "c" {
		t.Errorf("page %+v, %v", got, err)
	}
}

// A stream that breaks off is not gone on with behind the back of its source.
func TestHTTP_ABrokenStreamIsNotResumedByItself(t *testing.T) {
	_, err := pollOver(t, serve(t, func(w http.ResponseWriter, r *http.Request, _ string, _ json.RawMessage) {
		if r.Method != http.MethodPost {
			t.Errorf("it is asked for the rest: %s %q", r.Method, r.Header)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "id: 1\nretry: 1\ndata:\n\n")
	}))
	if err == nil || !strings.Contains(err.Error(), "request terminated without response") || errors.Is(err, ErrClosed) {
		t.Errorf("it is over with %v", err)
	}
}

// One answer that takes too long is late, and the session goes on.
func TestHTTP_ASlowAnswerIsLateAndNothingElse(t *testing.T) {
	slow := true
	d := serve(t, func(w http.ResponseWriter, r *http.Request, _ string, id json.RawMessage) {
		if slow {
			slow = false
			_, _ = io.WriteString(w, " ")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"events":[],"cursor":"c"}}`, id)
	})
	s, err := d.Dial(t.Context(), func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Poll(short, Request{Name: "x"}); ofServer("events/poll", err).kind != kindTimeout {
		t.Errorf("it counts as %v", err)
	}
	if got, err := s.Poll(t.Context(), Request{Name: "x"}); err != nil || *got.Cursor != "c" {
		t.Errorf("then there is %+v, %v", got, err)
	}
}

package app_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// stream is an open stream of decisions.
type stream struct {
	t    *testing.T
	body io.ReadCloser
	in   *bufio.Reader
}

// stream opens one and returns when it is open.
func (d *running) stream(query string, headers ...string) *stream {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, d.url+"/v1/decisions/stream"+query, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := (&http.Client{Transport: d.client.Transport}).Do(req) // without a time limit
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = resp.Body.Close() })
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != "text/event-stream" {
		d.t.Fatalf("status %d, Content-Type %q", resp.StatusCode, got)
	}
	return &stream{d.t, resp.Body, bufio.NewReader(resp.Body)}
}

// next returns the next event, io.EOF when there will be none.
func (s *stream) next() (id, event, data string, err error) {
	s.t.Helper()
	for {
		line, err := s.in.ReadString('\n')
		if err != nil {
			return "", "", "", err
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "id":
			id = value
		case "event":
			event = value
		case "data":
			data = value
		case "":
			if data != "" {
				return id, event, data, nil
			}
		}
	}
}

// want reads the next event.
func (s *stream) want(event, holds string) (id string) {
	s.t.Helper()
	id, got, data, err := s.next()
	if err != nil || got != event || !strings.Contains(data, holds) {
		s.t.Fatalf("event %q %s (%v), want %q with %s", got, data, err, event, holds)
	}
	return id
}

func TestStream_FollowsTheDaemonOverRestarts(t *testing.T) {
	dir := t.TempDir()
	first := run(t, nil, "--store", sqliteIn(dir))
	s := first.stream("")
	first.ingest(`{"scope":"chat:1","id":"1","name":"message.created","text":"one","data":{"n":1}}`)
	place := s.want("decision", `"data":{"n":1}`)
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(first.log.String(), "cut off") {
		t.Errorf("a stream holds up the stop:\n%s", first.log)
	}
	s.want("end", `"reason":"stopping"`)
	if _, _, _, err := s.next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}

	second := run(t, nil, "--store", sqliteIn(dir))
	second.ingest(`{"scope":"chat:1","id":"2","name":"message.created","text":"two"}`)
	again := second.stream("", "Last-Event-ID", place)
	again.want("decision", `"notice":"two"`)
	second.ingest(`{"scope":"chat:1","id":"3","name":"message.created","text":"three"}`)
	again.want("decision", `"notice":"three"`)
}

func TestStream_HeadDoesNotStayOpen(t *testing.T) {
	d := run(t, nil)
	r := d.ask(http.MethodHead, "/v1/decisions/stream", "").want(http.StatusOK, nil)
	if r.header.Get("Content-Type") != "text/event-stream" || r.body != "" {
		t.Errorf("Content-Type %q, body %q", r.header.Get("Content-Type"), r.body)
	}
	r = d.ask(http.MethodPost, "/v1/decisions/stream", "{}").problem(http.StatusMethodNotAllowed, "methodNotAllowed")
	if got := r.header.Get("Allow"); got != "GET, HEAD" {
		t.Errorf("Allow %q", got)
	}
}

func TestStream_ShowsHowManyAreOpen(t *testing.T) {
	d := run(t, nil)
	open := func(n int) {
		t.Helper()
		until(t, fmt.Sprintf("%d streams", n), func() bool {
			return strings.Contains(d.ask(http.MethodGet, "/metrics", "").body, fmt.Sprintf("\nattend_event_streams %d\n", n))
		})
	}
	open(0)
	one, two := d.stream(""), d.stream("")
	open(2)
	_ = one.body.Close()
	open(1)
	_ = two.body.Close()
	open(0)
}

package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
)

const (
	headerVersion = "Mcp-Protocol-Version"
	headerSession = "Mcp-Session-Id"

	typeJSON   = "application/json"
	typeEvents = "text/event-stream"
)

// What can be wrong with an answer.
var (
	errNoAnswer      = errors.New("it ended without an answer")
	errNotRPC        = errors.New("the answer is not JSON-RPC")
	errAnswerTooLong = fmt.Errorf("the answer has more than %d bytes", maxAnswer)
)

// request has the daemon answer a request and writes what comes back. When no
// answer comes, the host gets one all the same, unless it has cancelled.
func (b *bridge) request(ctx context.Context, m *message) {
	resp, err := b.send(ctx, m)
	if err != nil {
		b.explain(ctx, m, err)
		return
	}
	defer resp.Body.Close()
	for got, err := range messages(resp) {
		switch {
		case ctx.Err() != nil:
			return // the host has forgotten the id
		case err != nil:
			b.explain(ctx, m, err)
			return
		case got.answers():
			b.tell(b.accept(m, got, resp))
			return
		default:
			b.tell(got.raw)
		}
	}
	b.explain(ctx, m, errNoAnswer)
}

// accept returns an answer as the host gets it, and takes in what a new session
// brings. An answer without an id is to what the daemon could not read; the
// host would not know to what.
func (b *bridge) accept(m, got *message, resp *http.Response) []byte {
	if m.method == methodInitialize && !got.failed {
		b.session.begin(m, got, resp.Header.Get(headerSession))
	}
	if got.id != nil && string(got.id) != "null" {
		return got.raw
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(got.raw, &members) != nil {
		return got.raw
	}
	members["id"] = m.id
	answer, err := verbatim(members)
	if err != nil {
		return got.raw
	}
	return answer
}

// notify passes on what wants no answer. It is not sent again: by the time the
// daemon is back it says nothing any more.
func (b *bridge) notify(ctx context.Context, m *message) {
	resp, err := b.send(ctx, m)
	if err != nil {
		if ctx.Err() == nil {
			b.log.Warn("a notification was dropped: attend does not answer", "method", m.method, "error", err)
		}
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 && m.method != "" {
		b.log.Warn("a notification was refused", "method", m.method, "status", resp.Status)
	}
	for got, err := range messages(resp) { // a batch is answered
		if err == nil && m.method == "" {
			b.tell(got.raw)
		}
	}
	if m.method == methodInitialized {
		b.session.confirm()
	}
}

// send posts a message as its era wants it. Where the daemon does not know the
// session any more, it is sent once more in a new one.
func (b *bridge) send(ctx context.Context, m *message) (*http.Response, error) {
	in := b.session.current()
	resp, err := b.post(ctx, m, in)
	if err != nil || resp.StatusCode != http.StatusNotFound || in.id == "" || m.modern() || m.method == methodInitialize {
		return resp, err
	}
	resp.Body.Close()
	if in, err = b.renew(ctx, in); err != nil {
		return nil, err
	}
	return b.post(ctx, m, in)
}

// post makes one HTTP request of a message.
func (b *bridge) post(ctx context.Context, m *message, in sessionState) (*http.Response, error) {
	req, err := b.newRequest(ctx, http.MethodPost, bytes.NewReader(m.raw))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", typeJSON)
	req.Header.Set("Accept", typeJSON+", "+typeEvents)
	switch {
	case m.modern():
		m.setHeaders(req.Header)
	case m.method != methodInitialize:
		in.setHeaders(req.Header)
	}
	return b.opts.HTTP.Do(req)
}

func (b *bridge) newRequest(ctx context.Context, method string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, b.opts.Endpoint, body)
	if err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	if b.opts.Token != "" {
		req.Header.Set("Authorization", "Bearer "+b.opts.Token)
	}
	return req, nil
}

// messages are those of an answer, one or a stream of them. What is no JSON-RPC
// gives an error that says what it is.
func messages(resp *http.Response) iter.Seq2[*message, error] {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return func(yield func(*message, error) bool) {
		if kind == typeEvents && resp.StatusCode == http.StatusOK {
			for data, err := range events(resp.Body, maxAnswer) {
				if err != nil {
					yield(nil, err)
					return
				}
				if !yield(parseAnswer(data)) {
					return
				}
			}
			return
		}
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
		switch {
		case err != nil:
			yield(nil, err)
		case len(body) > maxAnswer:
			yield(nil, errAnswerTooLong)
		case kind == typeJSON:
			yield(parseAnswer(body))
		case resp.StatusCode/100 != 2 || len(body) > 0:
			yield(nil, readRefusal(resp.StatusCode, kind, body))
		}
	}
}

// parseAnswer reads a message of the daemon's.
func parseAnswer(b []byte) (*message, error) {
	b = bytes.TrimSpace(b)
	var version struct {
		JSONRPC string `json:"jsonrpc"`
	}
	if json.Unmarshal(b, &version) != nil || version.JSONRPC != "2.0" {
		return nil, errNotRPC
	}
	m, bad := parse(b)
	if bad != nil {
		return nil, errNotRPC
	}
	return m, nil
}

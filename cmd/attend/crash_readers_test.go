package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// agent is the named consumer: it waits with the tool attend_wait, and loses
// some answers on purpose.
type agent struct {
	t      *testing.T
	at     host
	ledger *ledger
	rng    *rand.Rand
	client *http.Client

	calls int
	ack   string
}

func newAgent(t *testing.T, at host, l *ledger, rng *rand.Rand) *agent {
	return &agent{t: t, at: at, ledger: l, rng: rng, client: &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}}
}

// toolResult is the answer of attend_wait.
type toolResult struct {
	Decisions   []json.RawMessage `json:"decisions"`
	Ack         *string           `json:"ack"`
	Redelivered bool              `json:"redelivered"`
	Truncated   bool              `json:"truncated"`
	TimedOut    bool              `json:"timedOut"`
}

// run waits for decisions until the context ends.
func (a *agent) run(ctx context.Context) {
	defer a.client.CloseIdleConnections()
	for ctx.Err() == nil {
		calling, cancel := context.WithCancel(ctx)
		if a.rng.IntN(20) == 0 { // an agent that is gone before it is answered
			calling, cancel = context.WithTimeout(ctx, time.Duration(a.rng.IntN(50))*time.Millisecond)
		}
		_, ok := a.wait(calling, 50+a.rng.IntN(350), a.rng.IntN(6) == 0)
		cancel()
		if !ok {
			pause(ctx, time.Duration(2+a.rng.IntN(20))*time.Millisecond)
		}
	}
}

// drain takes what is left, and acknowledges it.
func (a *agent) drain(ctx context.Context) {
	for ctx.Err() == nil {
		if n, ok := a.wait(ctx, 0, false); ok && n == 0 {
			return
		}
	}
	a.t.Error("the consumer did not come to the end of the decisions")
}

// wait makes one call. With lose, the answer is treated as lost on its way.
func (a *agent) wait(ctx context.Context, timeoutMs int, lose bool) (decisions int, ok bool) {
	call := waitAnswer{ack: a.ack}
	got, err := a.call(ctx, timeoutMs)
	if err != nil {
		call.failed = true
		a.ledger.waited(call)
		return 0, false
	}
	call.decisions, call.redelivered, call.truncated, call.timedOut = got.Decisions, got.Redelivered, got.Truncated, got.TimedOut
	call.kept = !lose
	if got.Ack != nil {
		call.token = *got.Ack
	}
	a.ledger.waited(call)
	switch {
	case got.TimedOut:
		a.ack = "" // it has been heard
	case len(got.Decisions) == 0: // the wait was broken off, maybe before that
	case !lose:
		a.ack = call.token
	case a.rng.IntN(2) == 0: // the ack of the answer before may come again
		a.ack = ""
	}
	return len(got.Decisions), true
}

func (a *agent) call(ctx context.Context, timeoutMs int) (*toolResult, error) {
	a.calls++
	arguments := map[string]any{"consumer": "crash-agent", "timeoutMs": timeoutMs}
	if a.ack != "" {
		arguments["ack"] = a.ack
	}
	body, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": a.calls, "method": "tools/call",
		"params": map[string]any{"name": "attend_wait", "arguments": arguments},
	})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.at.base()+"/mcp", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	var answer struct {
		Error  json.RawMessage `json:"error"`
		Result struct {
			IsError    bool            `json:"isError"`
			Structured *toolResult     `json:"structuredContent"`
			Content    json.RawMessage `json:"content"`
		} `json:"result"`
	}
	status := do(a.client, req, &answer)
	switch {
	case status == 0:
		return nil, errors.New("no answer")
	case status != http.StatusOK:
		a.t.Errorf("attend_wait is answered with status %d", status)
		return nil, errors.New("refused")
	case a.at.faulty() && answer.Result.IsError && bytes.Contains(answer.Result.Content, []byte("try again")):
		return nil, errors.New("the store did not answer")
	case answer.Error != nil || answer.Result.IsError || answer.Result.Structured == nil:
		a.t.Errorf("attend_wait fails: %s %s", answer.Error, answer.Result.Content)
		return nil, errors.New("refused")
	}
	return answer.Result.Structured, nil
}

// decodeAnswer decodes a JSON body, or the last message of an event stream.
func decodeAnswer(h http.Header, body []byte, out any) error {
	if strings.HasPrefix(h.Get("Content-Type"), "text/event-stream") {
		var message []byte
		for text := range bytes.Lines(body) {
			if data, ok := bytes.CutPrefix(text, []byte("data:")); ok && len(bytes.TrimSpace(data)) > 0 {
				message = data
			}
		}
		if message == nil {
			return errors.New("a stream without a message")
		}
		body = message
	}
	return json.Unmarshal(body, out)
}

// follower reads GET /v1/decisions by its cursors.
type follower struct {
	t      *testing.T
	at     host
	ledger *ledger
	client *http.Client
	cursor string
}

func newFollower(t *testing.T, at host, l *ledger) *follower {
	return &follower{t: t, at: at, ledger: l, client: &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}}
}

func (r *follower) run(ctx context.Context) {
	defer r.client.CloseIdleConnections()
	for ctx.Err() == nil {
		if _, ok := r.page(ctx, 200); !ok {
			pause(ctx, 10*time.Millisecond)
		}
	}
}

func (r *follower) drain(ctx context.Context) {
	for ctx.Err() == nil {
		if n, ok := r.page(ctx, 0); ok && n == 0 {
			return
		}
	}
	r.t.Error("the follower did not come to the end of the decisions")
}

// page reads one page. What was not answered is read again from the same
// cursor.
func (r *follower) page(ctx context.Context, waitMs int) (decisions int, ok bool) {
	query := url.Values{"limit": {"100"}}
	if r.cursor != "" {
		query.Set("after", r.cursor)
	}
	if waitMs > 0 {
		query.Set("waitMs", fmt.Sprint(waitMs))
	}
	var page struct {
		Decisions []struct {
			ID string `json:"id"`
		} `json:"decisions"`
		Cursor    string `json:"cursor"`
		Truncated bool   `json:"truncated"`
	}
	switch status := get(ctx, r.client, r.at.base()+"/v1/decisions?"+query.Encode(), &page); {
	case status == 0 || status == http.StatusServiceUnavailable:
		return 0, false
	case status != http.StatusOK || page.Cursor == "" || page.Truncated:
		r.t.Errorf("GET /v1/decisions?%s: status %d, cursor %q, truncated %v", query.Encode(), status, page.Cursor, page.Truncated)
		return 0, false
	}
	r.cursor = page.Cursor
	ids := make([]string, len(page.Decisions))
	for i := range page.Decisions {
		ids[i] = page.Decisions[i].ID
	}
	if len(ids) > 0 {
		r.ledger.paged(ids)
	}
	return len(ids), true
}

// flusher makes flush calls.
type flusher struct {
	t      *testing.T
	at     host
	ledger *ledger
	rng    *rand.Rand
	client *http.Client
	scopes []string
}

func newFlusher(t *testing.T, at host, l *ledger, scopes []string, rng *rand.Rand) *flusher {
	return &flusher{t: t, at: at, ledger: l, rng: rng, scopes: scopes, client: &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}}
}

// run flushes a scope now and then until the context ends.
func (c *flusher) run(ctx context.Context) {
	defer c.client.CloseIdleConnections()
	for ctx.Err() == nil {
		c.flush(ctx, c.scopes[c.rng.IntN(len(c.scopes))])
		pause(ctx, time.Duration(20+c.rng.IntN(150))*time.Millisecond)
	}
}

// flush makes one call, and reports whether it was answered.
func (c *flusher) flush(ctx context.Context, scope string) bool {
	body, err := json.Marshal(map[string]string{"scope": scope})
	if err != nil {
		c.t.Error(err)
		return false
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.at.base()+"/v1/flush", bytes.NewReader(body))
	if err != nil {
		c.t.Error(err)
		return false
	}
	req.Header.Set("Content-Type", "application/json")
	switch status := do(c.client, req, nil); status {
	case http.StatusAccepted:
		c.ledger.flushed(scope)
		return true
	case 0, http.StatusServiceUnavailable:
	default:
		c.t.Errorf("POST /v1/flush is answered with status %d", status)
	}
	return false
}

package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
)

// session is that of the 2025 revisions, as the daemon knows it. The host
// knows of none: when the daemon has forgotten it, the bridge begins a new one.
type session struct {
	renewing sync.Mutex // held while a new one is begun

	// confirmed tells the listener that there is a session to listen to.
	confirmed chan struct{}

	mu    sync.Mutex
	state sessionState
	hello *message // the initialize that the host began with
}

// sessionState is what a request says of its session.
type sessionState struct {
	id      string // "" while there is none
	version string // of the protocol, as agreed
}

func (s sessionState) setHeaders(h http.Header) {
	if s.version != "" {
		h.Set(headerVersion, s.version)
	}
	if s.id != "" {
		h.Set(headerSession, s.id)
	}
}

// begin takes in the answer to an initialize.
func (s *session) begin(hello, answer *message, id string) sessionState {
	var result struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	_ = json.Unmarshal(answer.result, &result) // a daemon that names none is asked without
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hello = hello
	s.state = sessionState{id: id, version: result.ProtocolVersion}
	return s.state
}

// confirm tells the listener of a session.
func (s *session) confirm() {
	select {
	case s.confirmed <- struct{}{}:
	default: // it has not seen the last one yet
	}
}

func (s *session) current() sessionState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// renew begins a session in place of one that the daemon does not know any
// more. Of several that find out at once, one does it.
func (b *bridge) renew(ctx context.Context, gone sessionState) (sessionState, error) {
	s := &b.session
	s.renewing.Lock()
	defer s.renewing.Unlock()
	s.mu.Lock()
	now, hello := s.state, s.hello
	s.mu.Unlock()
	if now != gone {
		return now, nil
	}
	resp, err := b.post(ctx, hello, sessionState{})
	if err != nil {
		return now, err
	}
	defer resp.Body.Close()
	answer, err := onlyAnswer(resp)
	if err != nil {
		return now, fmt.Errorf("begin a new session: %w", err)
	}
	now = s.begin(hello, answer, resp.Header.Get(headerSession))
	b.log.Info("attend had forgotten the session, and a new one has begun")
	return now, b.confirm(ctx, now)
}

// onlyAnswer reads the answer to a request of the bridge's own.
func onlyAnswer(resp *http.Response) (*message, error) {
	for got, err := range messages(resp) {
		switch {
		case err != nil:
			return nil, err
		case got.failed:
			return nil, fmt.Errorf("the answer is an error: %s", cut(string(got.raw)))
		case got.answers():
			return got, nil
		}
	}
	return nil, errNoAnswer
}

// confirm tells the daemon, and the listener, that a session has begun.
func (b *bridge) confirm(ctx context.Context, in sessionState) error {
	m := &message{raw: []byte(`{"jsonrpc":"2.0","method":"` + methodInitialized + `"}`), method: methodInitialized}
	resp, err := b.post(ctx, m, in)
	if err != nil {
		return err
	}
	b.session.confirm()
	return resp.Body.Close()
}

// leave ends the session, so that the daemon need not keep it until it is old.
func (b *bridge) leave() {
	in := b.session.current()
	if in.id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	req, err := b.newRequest(ctx, http.MethodDelete, nil)
	if err != nil {
		return
	}
	in.setHeaders(req.Header)
	if resp, err := b.opts.HTTP.Do(req); err == nil {
		resp.Body.Close()
	}
}

package webhook

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"path"
	"strings"
)

// How a receiver may have agreed to be called.
const (
	byList      = "list"      // the operator has named it
	byChallenge = "challenge" // it has echoed one
	byDocument  = "document"  // its origin says so
)

// wellKnown is where an origin names its receivers.
const wellKnown = "/.well-known/mcp-webhook-receiver.json"

// consent finds out whether a receiver agrees to be called, before it is sent
// anything else (events contract, 6). One that has agreed for a principal is not
// asked again while a subscription of that principal to it lives.
func (s *Service) consent(ctx context.Context, g *grant, secret []byte) (how string, err error) {
	callback, err := url.Parse(g.URL)
	if err != nil {
		return "", &InvalidError{Path: "/delivery/url", Reason: "is not an absolute URL"}
	}
	if err := s.reachable(ctx, callback); err != nil {
		return "", err
	}
	for _, prefix := range s.opt.Receivers {
		if listed(prefix, callback) {
			return byList, nil
		}
	}
	if how := s.agreed(g.Principal, g.URL); how != "" {
		return how, nil
	}
	failure := s.challenge(ctx, g, secret)
	switch failure {
	case "":
		return byChallenge, nil
	case fail4xx, fail5xx, failChallenge: // it answers, and may know the document
		if s.document(ctx, g.Principal, callback) {
			return byDocument, nil
		}
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	return "", &CallbackError{failure}
}

// agreed tells how a receiver has agreed for a principal before, "" if it has
// not.
func (s *Service) agreed(principal, url string) string {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.grants { //arch:sorted any of them will do
		if g.Principal == principal && g.URL == url && g.live(now) && g.Consent != byList {
			return g.Consent
		}
	}
	return ""
}

// challenge asks the receiver to echo something that nobody can guess. It
// returns why that failed, "" where it did not.
func (s *Service) challenge(ctx context.Context, g *grant, secret []byte) string {
	drawn := make([]byte, 32)
	_, _ = rand.Read(drawn) // it never fails
	challenge := base64.RawURLEncoding.EncodeToString(drawn)
	body, _ := json.Marshal(map[string]string{"type": "verification", "challenge": challenge}) // of strings
	leave, err := s.lanes.enter(ctx, laneConsent, g.Principal, "")
	if err != nil {
		return failTimeout
	}
	out := s.post(ctx, g.URL, g.ID, s.controlID("verification"), [][]byte{secret}, body)
	leave()
	if !out.ok {
		return out.failure
	}
	var echo struct {
		Challenge string `json:"challenge"`
	}
	if json.Unmarshal(out.answer, &echo) != nil || subtle.ConstantTimeCompare([]byte(echo.Challenge), []byte(challenge)) != 1 {
		return failChallenge
	}
	return ""
}

// document asks the callback's origin which receivers it has.
func (s *Service) document(ctx context.Context, principal string, callback *url.URL) bool {
	at := url.URL{Scheme: callback.Scheme, Host: callback.Host, Path: wellKnown}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return false
	}
	req.Header.Set("Accept", "application/json")
	leave, err := s.lanes.enter(ctx, laneConsent, principal, "")
	if err != nil {
		return false
	}
	defer leave()
	answer, err := s.opt.Client.Do(req, maxDocument)
	if err != nil || answer.Status != http.StatusOK {
		return false
	}
	var doc struct {
		Receivers []string `json:"receivers"`
	}
	if json.Unmarshal(answer.Body, &doc) != nil {
		return false
	}
	for _, prefix := range doc.Receivers {
		if covers(prefix, callback) {
			return true
		}
	}
	return false
}

const maxDocument = 64 << 10

// listed tells whether a callback is of those that begin so.
func listed(prefix string, callback *url.URL) bool {
	p, err := url.Parse(prefix)
	return err == nil && p.Scheme == callback.Scheme && strings.EqualFold(p.Host, callback.Host) && covers(p.EscapedPath(), callback)
}

// covers tells whether a callback's path lies at or below one. A path that would
// lead elsewhere when it is tidied up lies nowhere.
func covers(prefix string, callback *url.URL) bool {
	at := callback.EscapedPath()
	if at == "" {
		at = "/"
	}
	clean := path.Clean(callback.Path)
	if strings.HasSuffix(callback.Path, "/") && clean != "/" {
		clean += "/"
	}
	if callback.Path != "" && clean != callback.Path || !strings.HasPrefix(prefix, "/") && prefix != "" {
		return false
	}
	if at == prefix {
		return true
	}
	return strings.HasPrefix(at, strings.TrimSuffix(prefix, "/")+"/")
}

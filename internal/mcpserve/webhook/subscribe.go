package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"attend/internal/engine"
	"attend/internal/feed"
	"attend/internal/guard"
	"attend/internal/store"
)

// How long a subscription is granted (events contract, 10).
const (
	ttlFloor   = time.Minute
	ttlDefault = time.Hour
	ttlCeiling = 24 * time.Hour
)

// maxURL is how many bytes a callback may have.
const maxURL = 2048

// InvalidError reports a parameter that cannot be meant.
type InvalidError struct {
	Path    string // a JSON pointer
	Reason  string // what is wrong with it
	Address bool   // the callback leads to an address that is not allowed
}

// Error implements error.
func (e *InvalidError) Error() string { return e.Path + ": " + e.Reason }

// CallbackError reports a callback that could not be reached, or did not agree.
type CallbackError struct{ Reason string }

// Error implements error.
func (e *CallbackError) Error() string {
	return "the callback did not agree to be called: " + e.Reason
}

// ErrNotFound says that there is no such subscription.
var ErrNotFound = errors.New("there is no such subscription")

// TTL is for how long a subscriber asks. The zero TTL leaves it to the daemon.
type TTL struct {
	For   time.Duration // above 0
	Never bool          // it is not to expire
}

// Request is what a subscriber asks for.
type Request struct {
	Key
	Secret    string
	TTL       TTL
	Start     string // the cursor to begin at, where the subscription is not live
	Truncated bool   // it is later than the cursor asked for
}

// Granted is what a subscriber gets.
type Granted struct {
	ID            string
	RefreshBefore engine.Time // 0: it does not expire
	Cursor        string      // the watermark
	Truncated     bool
	Status        *Status // of a refresh
}

// Status is how delivery goes.
type Status struct {
	Active       bool
	LastDelivery engine.Time // 0 for none
	LastError    string      // one of the contract's words; "" for none
	FailedSince  engine.Time
	Throttled    bool // the receiver has asked for a pause
	RetryAfter   time.Duration
}

// Subscribe grants a subscription, or refreshes the one that has the same key:
// for a new time, with a new secret, from where it stands.
//
// Errors: *InvalidError, *CallbackError, *feed.LimitError, the store's, and the
// context's.
func (s *Service) Subscribe(ctx context.Context, r Request) (*Granted, error) {
	if err := checkURL(r.URL); err != nil {
		return nil, err
	}
	secret, err := parseSecret(r.Secret)
	if err != nil {
		return nil, &InvalidError{Path: "/delivery/secret", Reason: err.Error()}
	}
	id, err := r.ID()
	if err != nil {
		return nil, &InvalidError{Path: "/arguments", Reason: err.Error()}
	}
	leave, err := s.enter(ctx, id)
	if err != nil {
		return nil, err
	}
	defer leave()
	old, err := s.grantOf(ctx, id)
	if err != nil {
		return nil, err
	}
	live := old != nil && old.live(s.now())
	g := &grant{
		Format: rowFormat, ID: id, Principal: r.Principal, URL: r.URL, Name: r.Name, Arguments: r.Arguments,
		Created: s.now(), Life: s.opt.NewID(), Start: r.Start,
	}
	if live {
		again := *old
		g = &again
		g.Refreshes++
	} else if s.count(r.Principal) >= s.opt.MaxSubscriptions {
		return nil, &feed.LimitError{Limit: "subscriptions", Max: s.opt.MaxSubscriptions}
	}
	if g.Consent == "" {
		if g.Consent, err = s.consent(ctx, g, secret); err != nil {
			return nil, err
		}
	}
	now := s.now()
	s.rotate(g, secret, now)
	g.Expires = s.expiry(r.TTL, now)
	return s.grant(ctx, g, &r, live)
}

// grant writes and applies what was decided.
func (s *Service) grant(ctx context.Context, g *grant, r *Request, refresh bool) (*Granted, error) {
	row, err := put(store.SpaceWebhook, g.ID, g)
	if err != nil {
		return nil, err
	}
	if err := s.append(ctx, store.Entry{Puts: []store.Put{row, s.changed()}}); err != nil {
		return nil, err
	}
	s.sayClear(g)
	s.mu.Lock()
	s.grants[g.ID] = g
	w := s.workers[g.ID]
	s.mu.Unlock()
	if w != nil {
		w.regrant(g)
	}
	s.nudge()
	granted := &Granted{ID: g.ID, RefreshBefore: g.Expires, Cursor: g.Start, Truncated: r.Truncated}
	if !refresh {
		return granted, nil
	}
	granted.Truncated = false
	granted.Cursor, granted.Status, err = s.standing(ctx, g, w)
	return granted, err
}

// standing tells the watermark of a subscription and how its delivery goes.
func (s *Service) standing(ctx context.Context, g *grant, w *worker) (cursor string, status *Status, err error) {
	now := s.now()
	if w != nil && !w.over() {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.track.watermark(), statusOf(&w.progress, g, now, w.hold), nil
	}
	p, err := s.progressOf(ctx, g.ID)
	if err != nil {
		return "", nil, err
	}
	if p == nil || p.Life != g.Life {
		p = &progress{Cursor: g.Start}
	}
	return p.Cursor, statusOf(p, g, now, 0), nil
}

func statusOf(p *progress, g *grant, now, hold engine.Time) *Status {
	status := &Status{Active: !p.suspends(g), LastDelivery: p.LastDelivery, LastError: p.LastError, FailedSince: p.FailedSince}
	if hold > now {
		status.Throttled, status.RetryAfter = true, time.Duration(hold-now)*time.Millisecond
	}
	return status
}

// Unsubscribe ends a subscription. What is on its way may still arrive.
//
// Errors: ErrNotFound, *InvalidError, the store's, and the context's.
func (s *Service) Unsubscribe(ctx context.Context, k Key) error {
	id, err := k.ID()
	if err != nil {
		return &InvalidError{Path: "/arguments", Reason: err.Error()}
	}
	leave, err := s.enter(ctx, id)
	if err != nil {
		return err
	}
	defer leave()
	g, err := s.grantOf(ctx, id)
	if err != nil {
		return err
	}
	if g == nil {
		return ErrNotFound
	}
	s.mu.Lock()
	w := s.workers[id]
	s.mu.Unlock()
	if w != nil {
		w.drop()
	}
	if err := s.append(ctx, store.Entry{Puts: s.deletion(id)}); err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.grants, id)
	s.mu.Unlock()
	s.nudge()
	if !g.live(s.now()) {
		return ErrNotFound
	}
	return nil
}

// enter lets one call of a key run at a time.
func (s *Service) enter(ctx context.Context, id string) (leave func(), err error) {
	for {
		leave, free := s.tryEnter(id)
		if free {
			return leave, nil
		}
		s.mu.Lock()
		before := s.busy[id]
		s.mu.Unlock()
		if before == nil {
			continue // it has just ended
		}
		select {
		case <-before:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// tryEnter is enter for whoever does not wait.
func (s *Service) tryEnter(id string) (leave func(), free bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[id] != nil {
		return nil, false
	}
	mine := make(chan struct{})
	s.busy[id] = mine
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.busy, id)
		close(mine)
	}, true
}

// grantOf reads a grant from the store, where that of another replica stands
// too; nil for none.
func (s *Service) grantOf(ctx context.Context, id string) (*grant, error) {
	b, err := s.opt.Store.Row(ctx, store.SpaceWebhook, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil //nolint:nilnil // there is none, which is no fault
	}
	if err != nil {
		return nil, store.Describe("read a webhook subscription", err)
	}
	return decodeGrant(b)
}

// count is how many live subscriptions a principal has.
func (s *Service) count(principal string) int {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, g := range s.grants { //arch:sorted a count
		if g.Principal == principal && g.live(now) {
			n++
		}
	}
	return n
}

// expiry is the instant up to which a subscription is granted, 0 for ever.
func (s *Service) expiry(ttl TTL, now engine.Time) engine.Time {
	span := ttlDefault
	switch {
	case ttl.Never && s.opt.Durable:
		return 0
	case ttl.Never:
		span = ttlCeiling
	case ttl.For > 0:
		span = min(max(ttl.For, ttlFloor), ttlCeiling)
	}
	return now + engine.Time(span.Milliseconds())
}

// sayClear warns once that a secret is stored as it is.
func (s *Service) sayClear(g *grant) {
	s.mu.Lock()
	say := g.Secret.Key == "" && s.opt.Durable && !s.clear
	s.clear = s.clear || say
	s.mu.Unlock()
	if say {
		s.log.Warn("the secrets of webhook subscriptions are stored as they are: set ATTEND_SECRET_KEY to encrypt them")
	}
}

// checkURL reports what no callback can be.
func checkURL(text string) error {
	invalid := func(reason string) error { return &InvalidError{Path: "/delivery/url", Reason: reason} }
	u, err := url.Parse(text)
	switch {
	case len(text) > maxURL:
		return invalid(fmt.Sprintf("has %d bytes: at most %d", len(text), maxURL))
	case err != nil || u.Host == "" || u.Hostname() == "":
		return invalid("is not an absolute URL")
	case u.Scheme != "https":
		return invalid("must begin with https://")
	case u.User != nil:
		return invalid("must hold no user and password")
	case strings.Contains(text, "#"):
		return invalid("must have no fragment")
	}
	return nil
}

// hostOf is what the tries to a URL are bounded by.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	return strings.ToLower(u.Host)
}

func (g *grant) key() Key {
	return Key{Principal: g.Principal, URL: g.URL, Name: g.Name, Arguments: g.Arguments}
}

// reachable refuses a callback that leads to where none may be.
func (s *Service) reachable(ctx context.Context, callback *url.URL) error {
	var refused *guard.AddressError
	err := s.opt.Client.Check(ctx, callback.Hostname())
	switch {
	case errors.As(err, &refused):
		s.log.Info("a webhook's callback was refused, for it leads to an address that is not allowed (webhook.allow)",
			"host", refused.Host, "address", refused.Addr.String(), "why", refused.Why)
		return &InvalidError{Path: "/delivery/url", Reason: "address_not_allowed", Address: true}
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return &CallbackError{failureOf(err)}
	}
	return nil
}

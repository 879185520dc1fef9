// Package access says who may do what. A principal is whoever a bearer token
// stands for: it has rights, in some scopes and some Fields, and speaks for some
// agents. Every interface asks the same functions of it, for lists and streams
// as for single things, so that what one hides no other shows.
package access

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"attend/internal/engine"
)

// The rights. Each is granted by itself: none of them includes another.
const (
	Ingest = "ingest" // events, flush calls, and what changes a Field
	Read   = "read"   // whatever only shows: decisions, scopes, Fields; waiting, and acknowledging
	Admin  = "admin"  // requeueing dead letters, seeing and forgetting everybody's consumers
)

// Rights returns all of them, in the order of the documentation.
func Rights() []string { return []string{Ingest, Read, Admin} }

// ErrRevoked says that a principal's rights have ended: its token has expired or
// was taken away.
var ErrRevoked = errors.New("the token has expired or was taken away")

// Grant is what the configuration gives a principal. Patterns are those of
// [engine.Glob]; an empty list grants every scope, Field or agent.
type Grant struct {
	Name    string // "" where there are no tokens
	Rights  []string
	Scopes  []string
	Fields  []string
	Agents  []string  // for whom it may speak in a Field
	Expires time.Time // zero is never
}

// Principal is who sent a request. It is safe for concurrent use.
type Principal struct {
	Grant
	revoked chan struct{}
	revoke  func()
}

// NewPrincipal gives somebody what a grant says.
func NewPrincipal(g Grant) *Principal {
	revoked := make(chan struct{})
	return &Principal{Grant: g, revoked: revoked, revoke: sync.OnceFunc(func() { close(revoked) })}
}

// Anonymous is everybody, where there are no tokens: it may ingest and read, and
// is an administrator where only the daemon's own user gets in.
func Anonymous(admin bool) *Principal {
	g := Grant{Rights: []string{Ingest, Read}}
	if admin {
		g.Rights = append(g.Rights, Admin)
	}
	return NewPrincipal(g)
}

// May tells whether the principal has a right in a scope or, for the scope "",
// whether it has the right at all.
func (p *Principal) May(right, scope string) bool {
	return slices.Contains(p.Rights, right) && (scope == "" || matches(p.Scopes, scope)) && !p.over()
}

// MayField tells whether the principal may use a Field; write says that it wants
// to change it.
func (p *Principal) MayField(name string, write bool) bool {
	right := Read
	if write {
		right = Ingest
	}
	return p.May(right, "") && matches(p.Fields, name)
}

// SpeaksFor tells for whom the principal may speak in a Field; "" is nobody. Nil
// is for everybody.
func (p *Principal) SpeaksFor() func(agent string) bool {
	if len(p.Agents) == 0 {
		return nil
	}
	return func(agent string) bool { return matches(p.Agents, agent) }
}

// Visible tells which scopes the principal may read, as a filter takes it: nil
// is all of them.
func (p *Principal) Visible() func(scope string) bool {
	if len(p.Scopes) == 0 {
		return nil
	}
	return func(scope string) bool { return p.May(Read, scope) }
}

// ReadsAll tells whether the principal may read every scope, also one that
// nobody knows yet.
func (p *Principal) ReadsAll() bool {
	return p.May(Read, "") && (len(p.Scopes) == 0 || slices.Contains(p.Scopes, "*"))
}

// Owns tells whether a consumer of that owner is shown to the principal: its
// own, and those from before there were tokens. An administrator sees all, and
// so does everybody where there are no tokens.
func (p *Principal) Owns(owner string) bool {
	return owner == "" || owner == p.Name || p.Name == "" || p.May(Admin, "")
}

// Lacks says in words that the principal has not a right, and how it would be
// given.
func (p *Principal) Lacks(right string) string {
	if p.Name == "" {
		return fmt.Sprintf("this needs the right %s, which a token or a unix socket gives: set ATTEND_TOKEN for the daemon and send Authorization: Bearer <token>, or let it listen on ATTEND_SOCKET", right)
	}
	return fmt.Sprintf("this needs the right %s, which the token %q has not: its rights stand under tokens in the daemon's configuration", right, p.Name)
}

// Revoked is closed when the rights end.
func (p *Principal) Revoked() <-chan struct{} { return p.revoked }

// Revoke ends the rights, and with them streams and waits.
func (p *Principal) Revoke() { p.revoke() }

// Until returns a context that also ends, with the cause [ErrRevoked], when the
// rights do. stop must be called.
func (p *Principal) Until(ctx context.Context) (until context.Context, stop func()) {
	until, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-p.revoked:
			cancel(ErrRevoked)
		case <-until.Done():
		}
	}()
	return until, func() { cancel(nil) }
}

// over tells whether the rights have ended. The clock is asked besides the
// channel: a machine that slept wakes with its timers late.
func (p *Principal) over() bool {
	select {
	case <-p.revoked:
		return true
	default:
		return !p.Expires.IsZero() && !time.Now().Before(p.Expires)
	}
}

// matches tells whether one of the patterns matches; none of them match all.
func matches(patterns []string, name string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { return engine.Glob(p, name) })
}

type principalKey struct{}

// With puts the sender of a request into its context.
func With(ctx context.Context, p *Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// From finds the sender of a request. Without one it is somebody who may do
// nothing: what forgets to ask who calls refuses everybody.
func From(ctx context.Context) *Principal {
	if p, ok := ctx.Value(principalKey{}).(*Principal); ok {
		return p
	}
	return NewPrincipal(Grant{})
}

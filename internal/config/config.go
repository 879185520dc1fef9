package config

import (
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"time"

	"attend/internal/engine"
	"attend/internal/silences"
)

// Config is everything the daemon is told, validated. It is not changed after
// [Load].
type Config struct {
	// Host and Port are where the daemon listens. Port 0 is any free one.
	Host string
	Port int
	// Socket is the path of a unix socket to listen on in place of both, ""
	// for none. It is relative to the working directory.
	Socket string
	// Token is the one bearer token, with every right; "" for none.
	Token Secret
	// Tokens are further principals, each with a token and rights of its own.
	Tokens []Token
	// RemoteWithoutToken allows a Host that other machines reach although no
	// token is set.
	RemoteWithoutToken bool
	// AllowedHosts are values of the Host header that are trusted besides those
	// of the loopback interface: lower-case, as "attend.internal" (any port) or
	// "attend.internal:8787".
	AllowedHosts []string
	// AllowedOrigins are values of the Origin header that are trusted:
	// lower-case, as "https://ops.example.com".
	AllowedOrigins []string

	Store    Store
	Replicas Replicas
	Judges   Judges

	Retention Retention

	Field   Field
	Webhook Webhook
	Context Context

	// Sources bring events in from servers of MCP Events.
	Sources []Source

	// Hooks are paths that senders post events to.
	Hooks []InHook

	// Sinks take decisions, each of its routes; empty for none. DeadLetters takes
	// dead letters; nil leaves them to the log.
	Sinks       []Sink
	DeadLetters *Sink

	// Silences keep scopes from the judge for as long as they stand here.
	Silences []silences.Configured

	LogLevel      slog.Level
	LogFormat     string // "text" or "json"
	ShutdownGrace time.Duration

	Kinds    Kinds
	Settings engine.Settings // of every scope that no pattern of Scopes matches
	Scopes   []Scope

	// Files are the paths that were read, in that order.
	Files []string
	// Warnings are legal, and probably not meant.
	Warnings []Warning
}

// Store says where the log is kept.
type Store struct {
	Kind    StoreKind
	File    string // of a SQLite store
	Address Secret // of one in Postgres: a URL, with its password
}

// StoreKind names a kind of store.
type StoreKind string

// The kinds of store of this version.
const (
	StoreMemory   StoreKind = "memory"
	StoreSQLite   StoreKind = "sqlite"
	StorePostgres StoreKind = "postgres"
)

// String writes the store as it is configured, but for a password: "memory",
// "sqlite:attend.db", "postgres://attend@db:5432/app".
func (s Store) String() string {
	switch s.Kind {
	case StoreSQLite:
		return string(s.Kind) + ":" + s.File
	case StorePostgres:
		return shownAddress(s.Address.Reveal())
	default:
		return string(s.Kind)
	}
}

// Address is where to listen, as "127.0.0.1:8787" or "unix:attend.sock".
func (c *Config) Address() string {
	if c.Socket != "" {
		return "unix:" + c.Socket
	}
	return net.JoinHostPort(c.Host, strconv.Itoa(c.Port))
}

// Policy returns the rules: kinds, the settings of every scope, the judge, the
// rules and overrides that the fold applies itself, and who takes what.
// Its Number is 0: whoever records it gives it one. It compiles without error.
func (c *Config) Policy() engine.Policy {
	p := engine.Policy{Kinds: c.Kinds.Map(), Default: c.Settings, Judge: c.Judges.name()}
	if c.Judges.pure() {
		p.Rules = c.Judges.Entries[0].Rules
	}
	for _, o := range c.Judges.Overrides {
		p.Overrides = append(p.Overrides, engine.OverrideRule{Name: o.Name, When: o.When, Then: o.Then})
	}
	c.lanes(&p)
	for _, s := range c.Scopes {
		p.Scopes = append(p.Scopes, engine.ScopeSettings{Scope: s.Pattern, Settings: s.Settings})
	}
	return p
}

// LogValue shows what a person wants to see at start, without secrets.
func (c *Config) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Any("files", slices.Clone(c.Files)),
		slog.String("address", c.Address()),
		slog.Bool("token", c.Token != ""),
		slog.Int("tokens", len(c.Tokens)),
		slog.String("store", c.Store.String()),
		slog.String("judge", c.Judges.String()),
		slog.Int("kinds", len(c.Kinds.Entries)),
		slog.Int("scopes", len(c.Scopes)),
	)
}

// String shows the same on one line.
func (c *Config) String() string {
	return fmt.Sprintf("address=%s token=%s store=%s judge=%s kinds=%d scopes=%d files=%v",
		c.Address(), c.Token, c.Store, c.Judges.String(), len(c.Kinds.Entries), len(c.Scopes), c.Files)
}

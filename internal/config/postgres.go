package config

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Replicas is how this daemon shares a store in Postgres with others. It says
// nothing about other stores.
type Replicas struct {
	// NoMigrate leaves the tables alone: the daemon then needs only to SELECT,
	// INSERT, UPDATE and DELETE, and does not start on tables of another version.
	NoMigrate bool
	// Lease is how long the daemon's right to decide lasts when it falls silent.
	Lease time.Duration
	// Name is what people know the replica by; "" for its host and process. A
	// random word is added, so that it need not be its alone.
	Name string
}

// setPostgres reads the address of a store in Postgres. It quotes none of it:
// even a URL that cannot be parsed may hold a password.
func setPostgres(c *Config, address string) error {
	const want = "write postgres://user:password@host:5432/database"
	u, err := url.Parse(address)
	switch {
	case !strings.HasPrefix(address, "postgres://") && !strings.HasPrefix(address, "postgresql://"):
		return errors.New("is postgres, and no URL: " + want)
	case err != nil, u.Fragment != "", strings.Contains(u.Path+u.RawQuery, "@"), ambiguous(address, u):
		return errors.New("is a URL that cannot be read: " + want + ", where / ? # @ and % in the password are written as %2F %3F %23 %40 and %25")
	}
	c.Store = Store{Kind: StorePostgres, Address: Secret(address)}
	return nil
}

// ambiguous reports whether what stands as the host may be the rest of a
// password that holds an "@": a second one stands before the host, or a
// parameter names the host. Parsers disagree about where such a password ends,
// and would print what is behind.
func ambiguous(address string, u *url.URL) bool {
	_, authority, _ := strings.Cut(address, "://")
	if i := strings.IndexAny(authority, "/?#"); i >= 0 {
		authority = authority[:i]
	}
	return strings.Count(authority, "@") > 1 || u.User != nil && u.Host != "" && u.Query().Has("host")
}

// shownAddress is a URL without what may be secret: of its parameters it keeps
// those that say which tables are meant.
func shownAddress(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return redacted
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if name := u.User.Username(); name != "" {
		shown.User = url.User(name)
	}
	given, kept := u.Query(), make(url.Values)
	for _, name := range []string{"search_path", "prefix"} {
		if given.Has(name) {
			kept.Set(name, given.Get(name))
		}
	}
	shown.RawQuery = kept.Encode()
	return shown.String()
}

// hasPassword reports whether an address says more than it should to everyone.
func hasPassword(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return true
	}
	_, given := u.User.Password()
	return given || u.Query().Has("password") || u.Query().Has("sslpassword")
}

func setNoMigrate(c *Config, text string) (err error) {
	if c.Replicas.NoMigrate, err = strconv.ParseBool(text); err != nil {
		return fmt.Errorf("is %s: must be true or false", quote(text))
	}
	return nil
}

// setLease: a lease that is too short is lost whenever the disk is slow.
func setLease(c *Config, text string) error {
	const least, most = 500, int64(10 * time.Minute / time.Millisecond)
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < least || v > most {
		return fmt.Errorf("is %s: must be whole milliseconds from %d to %d", quote(text), least, most)
	}
	c.Replicas.Lease = time.Duration(v) * time.Millisecond
	return nil
}

func setReplica(c *Config, text string) error {
	const most = 128
	switch {
	case len(text) > most:
		return fmt.Errorf("has %d bytes: may have at most %d", len(text), most)
	case strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }):
		return fmt.Errorf("is %s: must have no blanks and no control characters", quote(text))
	}
	c.Replicas.Name = text
	return nil
}

// warnReplicas warns of what is for a store in Postgres alone, where another
// one is used.
func (l *loader) warnReplicas() {
	if l.c.Store.Kind == StorePostgres {
		return
	}
	for _, s := range scalars() {
		v := l.value(s.key)
		if key := s.key; slices.Contains([]string{"noMigrate", "leaseMs", "replica"}, key) && v.text != s.fallback {
			l.c.Warnings = append(l.c.Warnings, Warning{
				v.place, WarnIgnored,
				fmt.Sprintf("%s is for a store in Postgres, and the store is %s: it changes nothing", key, l.c.Store),
			})
		}
	}
}

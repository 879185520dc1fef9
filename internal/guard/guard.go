// Package guard reaches addresses that callers have chosen, and nothing that
// they must not be led to: the daemon's own machine, its network, the metadata
// service of its cloud. Everything that goes where a caller points goes through
// here.
//
// What counts is the address, not the name: a name is resolved here, each
// address is judged, and the connection goes to the very address that was
// judged, so that a name cannot point elsewhere in between. Redirects are not
// followed, and no proxy of the environment is used, which would resolve the
// name anew.
package guard

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// Resolver looks names up, as *net.Resolver does.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Options are what a Client is made of. The zero Options reach whatever is
// globally routable, and trust the roots of the system.
type Options struct {
	Allow    []netip.Prefix // addresses that may be reached besides
	Roots    *x509.CertPool // trusted for TLS; nil is the system's
	Resolver Resolver       // nil is net.DefaultResolver
	Timeout  time.Duration  // of a whole exchange; 0 is 5 s
}

// Client makes requests. It is safe for concurrent use.
type Client struct {
	http    *http.Client
	dialer  *dialer
	timeout time.Duration
}

// What one exchange and one host may take.
const (
	defaultTimeout = 5 * time.Second
	addressTimeout = 2 * time.Second // of one address, where the name has several
	maxAddresses   = 4
	maxHeaderBytes = 16 << 10
	idleConns      = 256
	idleConnsAHost = 4
	idleTimeout    = 30 * time.Second
)

// New makes a Client.
func New(o Options) *Client {
	d := &dialer{rules: newRules(o.Allow), resolver: o.Resolver}
	if d.resolver == nil {
		d.resolver = net.DefaultResolver
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	return &Client{
		dialer: d, timeout: o.Timeout,
		http: &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				Proxy:                  nil, // it would look the name up itself
				DialContext:            d.dial,
				TLSClientConfig:        &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS12},
				TLSHandshakeTimeout:    o.Timeout,
				MaxIdleConns:           idleConns,
				MaxIdleConnsPerHost:    idleConnsAHost,
				IdleConnTimeout:        idleTimeout,
				MaxResponseHeaderBytes: maxHeaderBytes,
				DisableCompression:     true, // a small answer must not become a large one
			},
		},
	}
}

// Answer is what came back: the first bytes of the body alone.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Do sends a request and reads at most limit bytes of the answer.
//
// Errors: *AddressError, wrapped, where the host leads to no address that may be
// reached; context.DeadlineExceeded after the client's timeout; else those of
// net/http.
func (c *Client) Do(req *http.Request, limit int64) (*Answer, error) {
	ctx, cancel := context.WithTimeout(req.Context(), c.timeout)
	defer cancel()
	resp, err := c.http.Do(req.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // what is left unread costs the connection
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return &Answer{Status: resp.StatusCode, Header: resp.Header, Body: body}, nil
}

// Check looks up where a host leads to, without connecting.
//
// Errors: *AddressError, wrapped, and those of the resolver.
func (c *Client) Check(ctx context.Context, host string) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	_, err := c.dialer.addresses(ctx, host)
	return err
}

// Close lets go of connections that are kept for later.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// dialer connects to addresses that were judged.
type dialer struct {
	rules    *rules
	resolver Resolver
	net      net.Dialer
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addrs, err := d.addresses(ctx, host)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, a := range addrs {
		conn, err := d.connect(ctx, network, net.JoinHostPort(a.String(), port))
		if err == nil {
			return conn, nil
		}
		if errs = append(errs, err); ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

func (d *dialer) connect(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, addressTimeout)
	defer cancel()
	return d.net.DialContext(ctx, network, address)
}

// addresses returns those of a host that may be reached: at least one, else an
// error.
func (d *dialer) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		if why := d.rules.judge(a); why != "" {
			return nil, &AddressError{Host: host, Addr: a, Why: why}
		}
		return []netip.Addr{a.Unmap()}, nil
	}
	if why := noName(host); why != "" {
		return nil, &AddressError{Host: host, Why: why}
	}
	found, err := d.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("look up %q: %w", host, err)
	}
	var refused error
	var out []netip.Addr
	for _, a := range found {
		if why := d.rules.judge(a); why != "" {
			refused = &AddressError{Host: host, Addr: a, Why: why}
		} else if len(out) < maxAddresses {
			out = append(out, a.Unmap())
		}
	}
	switch {
	case len(out) > 0:
		return out, nil
	case refused != nil:
		return nil, refused
	default:
		return nil, fmt.Errorf("look up %q: it has no address", host)
	}
}

// noName tells why a host is none that is looked up. What ends in a number is an
// IPv4 address to some resolvers, in octal, hex, or as one number: nobody writes
// one so who means well.
func noName(host string) string {
	host = strings.TrimSuffix(host, ".")
	last := strings.ToLower(host[strings.LastIndexByte(host, '.')+1:])
	switch {
	case host == "":
		return "empty"
	case strings.ContainsAny(host, "%:[]"):
		return "not a name"
	case strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x"):
		return "a number"
	}
	return ""
}

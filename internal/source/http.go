package source

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Bounds of what a server may make the daemon hold.
const (
	maxAnswerBytes = 16 << 20 // of an answer, or of one event of a stream
	maxHeaderBytes = 64 << 10
	dialTimeout    = 10 * time.Second

	// maxConns is room for a stream of each source that a configuration may have,
	// with the requests beside it.
	maxConns = 256
)

// NewHTTP makes the Dialer of a server that speaks Streamable HTTP. The token is
// sent as a bearer token; "" sends none. Neither the token nor the address's
// query stands in an error.
func NewHTTP(address, token, version string) (Dialer, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, errors.New("the address of a source's server must be http:// or https:// and a host")
	}
	carrier := &carrier{token: token, transport: &http.Transport{
		Proxy:                  nil, // it would see the token's host, and be chosen by whoever sets the environment
		DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
		ForceAttemptHTTP2:      true,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    dialTimeout,
		ResponseHeaderTimeout:  requestTimeout,
		IdleConnTimeout:        90 * time.Second,
		MaxConnsPerHost:        maxConns,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     true, // a small answer must not become a large one
	}}
	return &server{
		version: version,
		open: func() *way {
			lasts, cancel := context.WithCancel(context.Background())
			leg := &leg{carrier: carrier, atEnd: func(f func()) func() bool { return context.AfterFunc(lasts, f) }}
			leg.version.Store("")
			client := &http.Client{
				Transport:     leg,
				CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			}
			return &way{
				Transport: &mcp.StreamableClientTransport{Endpoint: address, HTTPClient: client, MaxEventSize: maxAnswerBytes},
				closes: func() {
					cancel()
					carrier.transport.CloseIdleConnections()
				},
				adopt: func(version string) { leg.version.Store(version) },
			}
		},
		hide: hider(u, address, token),
	}, nil
}

// minSecret is the length from which a value of an address's query is hidden.
// Shorter ones ("1", "on") are no secrets, and hiding them would leave nothing
// to read.
const minSecret = 4

// hider takes an address's query and the token out of texts.
func hider(u *url.URL, address, token string) func(text string) string {
	secrets := []string{token, u.RawQuery}
	for _, pair := range strings.Split(u.RawQuery, "&") {
		_, raw, _ := strings.Cut(pair, "=")
		value, _ := url.QueryUnescape(raw) // "" of one that is broken
		secrets = append(secrets, raw, value)
	}
	secrets = slices.DeleteFunc(secrets, func(s string) bool { return len(s) < minSecret && s != token || s == "" })
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) }) // one may hold another
	pairs := []string{address, u.Scheme + "://" + u.Host + u.Path}
	for _, s := range secrets {
		pairs = append(pairs, s, "[hidden]")
	}
	return strings.NewReplacer(pairs...).Replace
}

// carrier sends requests with what all of them need.
type carrier struct {
	token     string
	transport *http.Transport
}

// headerVersion tells the revision. The SDK sets it in 2026-07-28 alone when
// its connection is wrapped.
const headerVersion = "Mcp-Protocol-Version"

// leg sends the requests of one session. They end with it.
type leg struct {
	*carrier
	atEnd   func(f func()) (forget func() bool) // has something done when the session ends
	version atomic.Value                        // string: the revision of the protocol; "" before it is known
}

// RoundTrip implements http.RoundTripper.
func (l *leg) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return nothingLeft(r), nil
	}
	ctx, cancel := context.WithCancel(r.Context())
	forget := l.atEnd(cancel)
	over := func() { forget(); cancel() }
	r = r.Clone(ctx)
	if l.token != "" {
		r.Header.Set("Authorization", "Bearer "+l.token)
	}
	if version, _ := l.version.Load().(string); version != "" && r.Header.Get(headerVersion) == "" {
		r.Header.Set(headerVersion, version)
	}
	resp, err := l.transport.RoundTrip(r)
	if err != nil {
		defer over()
		return nil, reached(ctx, r.URL.Host, err)
	}
	resp.Body = &ending{resp.Body, over}
	switch {
	case resp.StatusCode/100 == 2 && mediaType(resp) == "text/event-stream":
		return resp, nil // the SDK bounds each of its events
	case resp.StatusCode/100 == 2 && mediaType(resp) == "application/json" && ctx.Value(callKey{}) != nil:
		return whole(resp)
	default:
		resp.Body = &bounded{resp.Body, maxAnswerBytes}
		return resp, nil
	}
}

// nothingLeft answers for the server when the SDK wants the rest of a stream
// that has broken off, with which a server could keep it busy without anybody
// being told. A source goes on from its own cursor instead.
func nothingLeft(r *http.Request) *http.Response {
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: http.NoBody,
	}
}

func mediaType(resp *http.Response) string {
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(kind))
}

// whole reads an answer to its end while its request lasts. Were it the SDK that
// reads it, one that takes too long would end the session.
func whole(resp *http.Response) (*http.Response, error) {
	defer resp.Body.Close()
	b, err := io.ReadAll(&bounded{resp.Body, maxAnswerBytes})
	if ctx := resp.Request.Context(); err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: the answer cannot be read: %w", resp.Request.URL.Host, err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(b))
	return resp, nil
}

// ending is a body at whose end something is done.
type ending struct {
	io.ReadCloser
	over func()
}

// Close implements io.Closer.
func (e *ending) Close() error {
	defer e.over()
	return e.ReadCloser.Close()
}

// reached says why a request did not come through, without its address.
func reached(ctx context.Context, host string, err error) error {
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var errno syscall.Errno
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &dns):
		return fmt.Errorf("%s cannot be looked up", host)
	case errors.As(err, &certificate):
		return fmt.Errorf("%s shows a certificate that is not trusted", host)
	case errors.As(err, &errno):
		return fmt.Errorf("%s: %w", host, errno)
	default:
		return fmt.Errorf("%s did not answer as HTTP does: %w", host, err)
	}
}

// bounded is a body that ends with an error where it is too long.
type bounded struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the answer is longer than %d bytes", maxAnswerBytes)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

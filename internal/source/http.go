package source

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
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
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     true, // a small answer must not become a large one
	}}
	client := &http.Client{
		Transport:     carrier,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	shown := u.Scheme + "://" + u.Host + u.Path
	return &server{
		version: version,
		open: func() (mcp.Transport, func()) {
			carrier.version.Store("")
			return &mcp.StreamableClientTransport{Endpoint: address, HTTPClient: client, MaxEventSize: maxAnswerBytes}, carrier.transport.CloseIdleConnections
		},
		hide: func(text string) string {
			text = strings.ReplaceAll(text, address, shown)
			if token != "" {
				text = strings.ReplaceAll(text, token, "[hidden]")
			}
			return text
		},
		adopt: func(version string) { carrier.version.Store(version) },
	}, nil
}

// carrier sends requests with what all of them need.
type carrier struct {
	token     string
	version   atomic.Value // string: the revision of the protocol; "" before it is known
	transport *http.Transport
}

// headerVersion tells the revision. The SDK sets it in 2026-07-28 alone when
// its connection is wrapped.
const headerVersion = "Mcp-Protocol-Version"

// RoundTrip implements http.RoundTripper.
func (c *carrier) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	if version, _ := c.version.Load().(string); version != "" && r.Header.Get(headerVersion) == "" {
		r.Header.Set(headerVersion, version)
	}
	resp, err := c.transport.RoundTrip(r)
	if err != nil {
		return nil, reached(r.Context(), r.URL.Host, err)
	}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		resp.Body = &bounded{resp.Body, maxAnswerBytes}
	}
	return resp, nil
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

// Package wire makes one POST of JSON to a judge and classes what came of it
// (seed, "Errors from the hosted judges"). Every judge that is asked over HTTP
// goes through here, so that one place decides what is tried again, what a
// host may make the daemon read, and what an error may say.
//
// Redirects are not followed: a 307 would carry the key and the window to
// wherever it points. No proxy of the environment is used.
package wire

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"attend/internal/judge"
)

// MaxBody is the size of an answer that is read, in bytes, unless the request
// says otherwise.
const MaxBody = 1 << 20

// What one host may take.
const (
	maxHeaderBytes = 64 << 10
	idleConnsAHost = 32
	idleTimeout    = 90 * time.Second
	dialTimeout    = 10 * time.Second
)

// Client posts JSON to judges. It is safe for concurrent use.
type Client struct{ http *http.Client }

// New makes a Client with a transport of its own.
func New() *Client {
	dialer := &net.Dialer{Timeout: dialTimeout}
	return &Client{http: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                  nil, // it would see the key's host, and be chosen by whoever sets the environment
			DialContext:            dialer.DialContext,
			ForceAttemptHTTP2:      true,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    dialTimeout,
			MaxIdleConnsPerHost:    idleConnsAHost,
			IdleConnTimeout:        idleTimeout,
			MaxResponseHeaderBytes: maxHeaderBytes,
			DisableCompression:     true, // a small answer must not become a large one
		},
	}}
}

// Through returns a Client like this one, whose requests go through what wrap
// makes of its transport: it sees each as it is sent, the key too.
func (c *Client) Through(wrap func(http.RoundTripper) http.RoundTripper) *Client {
	through := *c.http
	through.Transport = wrap(c.http.Transport)
	return &Client{http: &through}
}

// Close lets go of connections that are kept for later.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Request is one question to a judge.
type Request struct {
	URL    string
	Header http.Header // the key stands here; Content-Type and Accept are set by Post
	Body   []byte      // JSON
	// MaxBody is the size of the answer that is read, in bytes; 0 is MaxBody.
	MaxBody int
}

// Response is what came back.
type Response struct {
	Status     int
	Header     http.Header
	Body       []byte        // at most as long as the request allows
	RequestID  string        // as the host names the call, "" for none
	RetryAfter time.Duration // the host asked for no call before this: at most MaxRetryAfter, 0 for nothing
}

// Post asks once, and takes as long as the context allows. The response is
// filled as far as it came, beside an error too.
//
// Errors: *judge.Error for anything but a 2xx with a whole JSON value.
// Transient where the network failed, the context ended, or the status asks
// to try again; Malformed where an answer came that is no JSON or is longer
// than the request allows; Permanent for what would be refused again. Its text names the
// host, and holds nothing else of the request or the body.
func (c *Client) Post(ctx context.Context, r Request) (Response, error) {
	req, err := request(ctx, r)
	if err != nil {
		return Response{}, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return Response{}, failure(ctx, req.URL, err)
	}
	defer func() { _ = resp.Body.Close() }() // what is left unread costs the connection
	out := Response{
		Status: resp.StatusCode, Header: resp.Header,
		RequestID: requestID(resp.Header), RetryAfter: retryAfter(resp.Header, time.Now()),
	}
	if scrub([]byte(out.RequestID), r.Header) != out.RequestID {
		out.RequestID = "" // the host calls its request by the key that it was sent
	}
	most := cmp.Or(r.MaxBody, MaxBody)
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(most)+1))
	out.Body = body[:min(len(body), most)]
	if classed := Classify(&out); classed != nil {
		classed.Message = req.URL.Host + ": " + classed.Message
		return out, classed // whatever became of the body, the status says what to do
	}
	switch {
	case err != nil:
		classed := failure(ctx, req.URL, err)
		classed.Status, classed.RequestID, classed.RetryAfter = out.Status, out.RequestID, out.RetryAfter
		return out, classed
	case len(body) > most:
		return out, malformed(&out, fmt.Sprintf("the answer is longer than %d bytes", most))
	case !json.Valid(body):
		return out, malformed(&out, "the answer is no JSON")
	}
	return out, nil
}

func malformed(r *Response, message string) *judge.Error {
	return &judge.Error{Class: judge.Malformed, Message: message, Status: r.Status, RequestID: r.RequestID, RetryAfter: r.RetryAfter}
}

// request checks what a configuration can get wrong, and says so without
// repeating it: a key may stand there.
func request(ctx context.Context, r Request) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL, bytes.NewReader(r.Body))
	if err != nil || req.URL.Host == "" || (req.URL.Scheme != "http" && req.URL.Scheme != "https") {
		return nil, &judge.Error{Class: judge.Permanent, Message: "the judge's url cannot be called: want http:// or https:// and a host"}
	}
	for name, values := range r.Header {
		for _, v := range values {
			if strings.ContainsFunc(v, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
				return nil, &judge.Error{Class: judge.Permanent, Message: "the judge's key cannot be sent: " + name + " would hold a newline or another control character"}
			}
		}
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "attend")
	return req, nil
}

// failure says in words of our own why no answer came: errors of net/http
// repeat the URL, or what the other side wrote.
func failure(ctx context.Context, u *url.URL, err error) *judge.Error {
	e := &judge.Error{Class: judge.Transient}
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var errno syscall.Errno
	var timeout net.Error
	switch {
	case ctx.Err() != nil:
		e.Message = "did not answer in time"
	case errors.As(err, &dns):
		e.Message = "cannot be looked up"
	case errors.As(err, &certificate):
		e.Message = "shows a certificate that is not trusted"
	case errors.As(err, &errno):
		e.Message = errno.Error()
	case errors.As(err, &timeout) && timeout.Timeout():
		e.Message = "cannot be reached in time"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		e.Message = "closed the connection within the answer"
	default:
		e.Message = "did not answer as HTTP does"
	}
	e.Message = u.Host + ": " + e.Message
	return e
}

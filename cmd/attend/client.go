package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	// maxAnswerBytes bounds what a command takes from a daemon in one answer.
	maxAnswerBytes = 64 << 20
	dialTimeout    = 10 * time.Second
)

// client talks to a running daemon over HTTP.
type client struct {
	base  *url.URL
	at    string // where the daemon listens, for people
	token string
	http  *http.Client
	dial  func(ctx context.Context, network, address string) (net.Conn, error)
}

// address is where a daemon listens, as --url and --socket give it.
type address struct {
	flags       *pflag.FlagSet
	url, socket string
}

// addAddressFlags gives a command --url and --socket. Their defaults follow the
// variables that configure the daemon, so that a command in the same
// environment (a container's health check) finds it. ATTEND_URL, which the
// daemon does not know, comes before them.
func addAddressFlags(cmd *cobra.Command, p *process, into *address) {
	into.flags = cmd.Flags()
	port := cmp.Or(p.getenv("ATTEND_PORT"), "8787")
	socket := p.getenv("ATTEND_SOCKET")
	if p.getenv("ATTEND_URL") != "" {
		socket = ""
	}
	into.flags.StringVar(&into.url, "url", cmp.Or(p.getenv("ATTEND_URL"), "http://127.0.0.1:"+port), "where the daemon listens (ATTEND_URL)")
	into.flags.StringVar(&into.socket, "socket", socket, "`path` of the unix socket on which it does (ATTEND_SOCKET)")
	cmd.MarkFlagsMutuallyExclusive("url", "socket")
}

// connect makes a client for the address.
func connect(p *process, a *address) (*client, error) {
	if a.socket == "" || a.flags.Changed("url") {
		return newClient(p, a.url)
	}
	c, err := newClient(p, "http://localhost") // no name leads to a socket; no proxy is asked for this one
	if err != nil {
		return nil, err
	}
	c.at = "unix:" + a.socket
	c.dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "unix", a.socket)
	}
	c.http.Transport = c.transport()
	return c, nil
}

// newClient reads an address as --url takes it. The bearer token comes from
// ATTEND_TOKEN alone: on a command line everyone on the machine could read it.
func newClient(p *process, address string) (*client, error) {
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, fmt.Errorf("--url %q: want http://host:port or https://host", address)
	}
	c := &client{
		base:  base,
		at:    base.Redacted(),
		token: p.getenv("ATTEND_TOKEN"),
		dial:  (&net.Dialer{Timeout: dialTimeout}).DialContext,
	}
	c.http = &http.Client{
		Transport: c.transport(),
		// A redirect would take the request, and the token with it, elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

func (c *client) transport() *http.Transport {
	return &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: c.dial, ResponseHeaderTimeout: time.Minute}
}

// close ends the connections that are kept open.
func (c *client) close() { c.http.CloseIdleConnections() }

// problemError is what a daemon answered in place of a result.
type problemError struct {
	Status int    `json:"-"`
	Code   string `json:"code"`
	Title  string `json:"title"`
	Detail string `json:"detail"`

	Mistakes []mistake `json:"mistakes"` // of a configuration that was not put in force
}

// Error gives the daemon's own words, made safe for a terminal.
func (e *problemError) Error() string {
	text := e.Detail
	if text == "" {
		text = e.Title
	}
	if text == "" {
		text = http.StatusText(e.Status)
	}
	if e.Code != "" {
		return fmt.Sprintf("%s (%d %s)", visible(text), e.Status, visible(e.Code))
	}
	return fmt.Sprintf("%s (%d)", visible(text), e.Status)
}

// final reports whether sending the same request again would get the same
// answer.
func (e *problemError) final() bool {
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	default:
		return e.Status < 500
	}
}

// call sends one request and decodes the answer into out (nil: it is dropped).
// An answer that is not 2xx is a *problemError.
func (c *client) call(ctx context.Context, method, path string, query url.Values, body, out any) error {
	at := c.base.JoinPath(path)
	at.RawQuery = query.Encode()
	var payload io.Reader
	if body != nil {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false) // what is kept is what was written
		if err := enc.Encode(body); err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
		payload = &b
	}
	req, err := http.NewRequestWithContext(ctx, method, at.String(), payload)
	if err != nil {
		return fmt.Errorf("request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err // it repeats method and address
		}
		return fmt.Errorf("no answer from %s: %w", c.at, err)
	}
	defer resp.Body.Close()
	limited := io.LimitReader(resp.Body, maxAnswerBytes)
	if resp.StatusCode/100 != 2 {
		problem := &problemError{Status: resp.StatusCode}
		if err := json.NewDecoder(limited).Decode(problem); err != nil {
			problem.Title = http.StatusText(resp.StatusCode)
		}
		return problem
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(limited).Decode(out); err != nil {
		return fmt.Errorf("answer of %s: %w", c.at, err)
	}
	return nil
}

// withDaemon does something with a daemon, within a time.
func withDaemon(cmd *cobra.Command, p *process, at *address, limit time.Duration, do func(ctx context.Context, c *client) error) error {
	c, err := connect(p, at)
	if err != nil {
		return err
	}
	defer c.close()
	ctx, cancel := context.WithTimeout(cmd.Context(), limit)
	defer cancel()
	return do(ctx, c)
}

// printAnswer prints what a daemon said: in words, or as it came.
func printAnswer(cmd *cobra.Command, output outputFlag, raw json.RawMessage, describe func(json.RawMessage) (string, error)) error {
	text, err := describe(raw)
	if output == outputJSON {
		text, err = jsonLine(raw)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}

package sink

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
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Connections is how many messages an HTTP sink can deliver at once without
// opening a connection for each.
const Connections = 256

const (
	maxAnswer     = 64 << 10    // bytes of an answer's body that are read, so that its connection serves again
	maxHeader     = 64 << 10    // bytes of an answer's header
	maxBodyTime   = time.Second // in which they are
	maxRetryAfter = time.Hour
)

// HTTP posts messages to a receiver, signed as Standard Webhooks has it: a 2xx
// is taken; 408, 425, 429, a 5xx and what goes wrong on the way are tried again;
// any other answer is final. Redirects are not followed, and no proxy of the
// environment is used. Close it.
type HTTP struct {
	client *http.Client
	url    string
	signer *standardwebhooks.Webhook
	agent  string
}

// NewHTTP returns a sink that posts to a URL and signs with a key, the bytes
// behind whsec_.
func NewHTTP(url string, key []byte, version string) (*HTTP, error) {
	if len(key) == 0 {
		return nil, errors.New("the sink has no secret to sign with")
	}
	signer, err := standardwebhooks.NewWebhookRaw(key)
	if err != nil {
		return nil, errors.New("the sink's secret cannot be used to sign")
	}
	return &HTTP{
		url: url, signer: signer, agent: "attend/" + version,
		client: &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
				TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12},
				TLSHandshakeTimeout: 10 * time.Second,
				ForceAttemptHTTP2:   true, MaxIdleConnsPerHost: Connections, IdleConnTimeout: 90 * time.Second,
				MaxResponseHeaderBytes: maxHeader, DisableCompression: true,
			},
		},
	}, nil
}

// Close lets go of connections.
func (h *HTTP) Close() { h.client.CloseIdleConnections() }

// Deliver implements Sink.
func (h *HTTP) Deliver(ctx context.Context, m *Message) error {
	at := time.Now()
	signature, err := h.signer.Sign(m.ID, at, m.Body)
	if err != nil {
		return &Error{Message: "the message cannot be signed", Never: true}
	}
	whole, cancel := context.WithCancel(ctx)
	defer cancel()
	request, err := http.NewRequestWithContext(whole, http.MethodPost, h.url, bytes.NewReader(m.Body))
	if err != nil {
		return &Error{Message: "the sink's url cannot be used", Never: true}
	}
	request.Header = http.Header{
		"Content-Type":                          {"application/json"},
		"User-Agent":                            {h.agent},
		standardwebhooks.HeaderWebhookID:        {m.ID},
		standardwebhooks.HeaderWebhookTimestamp: {strconv.FormatInt(at.Unix(), 10)},
		standardwebhooks.HeaderWebhookSignature: {signature},
	}
	answer, err := h.client.Do(request)
	if err != nil {
		return unreached(ctx, err)
	}
	// The status has been said; what is behind it has a moment.
	defer time.AfterFunc(maxBodyTime, cancel).Stop()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer))
	_ = answer.Body.Close()
	return said(answer, time.Now())
}

// unreached is what went wrong on the way, without the URL.
func unreached(ctx context.Context, err error) *Error {
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		err = failed.Err
	}
	return &Error{Message: "the receiver was not reached: " + err.Error(), interrupt: ctx.Err()}
}

// said classes an answer by its status; nil is taken.
func said(answer *http.Response, now time.Time) error {
	status := answer.StatusCode
	name := strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
	switch {
	case status >= 200 && status < 300:
		return nil
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests, status >= 500:
		return &Error{Message: "the receiver answered " + name, After: retryAfter(answer.Header.Get("Retry-After"), now)}
	case status >= 300 && status < 400:
		return &Error{Message: fmt.Sprintf("the receiver answered %s, and redirects are not followed: set the url to where it leads", name), Never: true}
	default:
		return &Error{Message: "the receiver answered " + name, Never: true}
	}
}

// retryAfter reads how long the receiver asks to wait: whole seconds or a date,
// an hour at most, 0 for what is neither.
func retryAfter(text string, now time.Time) time.Duration {
	if text != "" && strings.Trim(text, "0123456789") == "" {
		seconds, err := strconv.Atoi(text)
		if err != nil { // more than a number holds
			return maxRetryAfter
		}
		return time.Duration(min(seconds, int(maxRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

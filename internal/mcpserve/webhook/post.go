package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	"attend/internal/guard"
)

// maxBody is the largest body that is posted.
const maxBody = 256 << 10

// maxAnswer is how much of a receiver's answer is read: of a challenge's answer
// that is all that could be right.
const maxAnswer = 4 << 10

// What a receiver may be told of a failure: never text from its own answer.
const (
	failRefused   = "connection_refused"
	failTimeout   = "timeout"
	failTLS       = "tls_error"
	fail4xx       = "http_4xx"
	fail5xx       = "http_5xx"
	failChallenge = "challenge_failed"
)

// Doer sends requests to receivers, as *guard.Client does.
type Doer interface {
	Do(req *http.Request, limit int64) (*guard.Answer, error)
	Check(ctx context.Context, host string) error
}

// outcome is what came of one try.
type outcome struct {
	ok         bool
	final      bool          // no use to try again
	failure    string        // one of the fail constants; "" where it went well
	retryAfter time.Duration // as the receiver asked for; 0 where it did not
	answer     []byte        // of a success
}

// post sends one signed body.
func (s *Service) post(ctx context.Context, url, subscription, id string, keys [][]byte, body []byte) outcome {
	if len(body) > maxBody {
		return outcome{final: true, failure: fail4xx} // what 413 would say
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return outcome{final: true, failure: failRefused}
	}
	now := s.opt.Now()
	signatures, err := sign(keys, id, now, body)
	if err != nil {
		return outcome{final: true, failure: failRefused}
	}
	h := req.Header
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", "attend-webhook")
	h.Set("webhook-id", id)
	h.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
	h.Set("webhook-signature", signatures)
	h.Set("X-MCP-Subscription-Id", subscription)
	answer, err := s.opt.Client.Do(req, maxAnswer)
	if err != nil {
		return outcome{failure: failureOf(err)}
	}
	switch status := answer.Status; {
	case status >= 200 && status < 300:
		return outcome{ok: true, answer: answer.Body}
	case status == http.StatusGone || status == http.StatusRequestEntityTooLarge:
		return outcome{final: true, failure: fail4xx}
	case status >= 500:
		return outcome{failure: fail5xx, retryAfter: retryAfter(answer, status)}
	default: // a redirect too: the callback is not where it was said to be
		return outcome{failure: fail4xx, retryAfter: retryAfter(answer, status)}
	}
}

// maxRetryAfter bounds what a receiver may ask for, so that the tries of an
// occurrence end within a quarter of an hour.
const maxRetryAfter = 2 * time.Minute

func retryAfter(answer *guard.Answer, status int) time.Duration {
	if status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable {
		return 0
	}
	seconds, err := strconv.Atoi(answer.Header.Get("Retry-After"))
	if err != nil || seconds <= 0 {
		return 0
	}
	return min(time.Duration(min(seconds, 3600))*time.Second, maxRetryAfter)
}

// failureOf names what went wrong on the way.
func failureOf(err error) string {
	var (
		timeout     net.Error
		certificate *tls.CertificateVerificationError
		alert       tls.AlertError
		record      tls.RecordHeaderError
		unknown     x509.UnknownAuthorityError
		hostname    x509.HostnameError
	)
	switch {
	case errors.As(err, &certificate), errors.As(err, &alert), errors.As(err, &record), errors.As(err, &unknown), errors.As(err, &hostname):
		return failTLS
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return failTimeout
	default:
		return failRefused
	}
}

// whole writes an occurrence with the watermark.
func whole(occurrence json.RawMessage, cursor string) []byte {
	b := make([]byte, 0, len(occurrence)+len(cursor)+16)
	b = append(b, occurrence[:len(occurrence)-1]...)
	b = append(b, `,"cursor":`...)
	b = strconv.AppendQuote(b, cursor) // it is of URL-safe characters
	return append(b, '}')
}

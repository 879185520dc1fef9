package hooks

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Bounds of a key of Standard Webhooks; the library takes an empty one.
const (
	standardPrefix   = "whsec_"
	minStandardBytes = 24
	maxStandardBytes = 64
)

// ParseSecret reads a secret of Standard Webhooks, whsec_ and base64. The error
// says what is wrong with it, and nothing of what is in it.
func ParseSecret(text string) ([]byte, error) {
	encoded, found := strings.CutPrefix(text, standardPrefix)
	key, err := base64.StdEncoding.Strict().DecodeString(encoded)
	switch {
	case !found || err != nil || strings.ContainsAny(encoded, "\r\n"):
		return nil, errors.New("must be whsec_ and base64, with its padding: echo whsec_$(openssl rand -base64 32) makes one")
	case len(key) < minStandardBytes || len(key) > maxStandardBytes:
		return nil, fmt.Errorf("has %d bytes: must have %d to %d", len(key), minStandardBytes, maxStandardBytes)
	}
	return key, nil
}

// standard checks signatures of Standard Webhooks.
type standard struct {
	verifiers []*standardwebhooks.Webhook
	tolerance time.Duration
}

// newStandard takes the keys as [ParseSecret] returns them.
func newStandard(keys [][]byte, tolerance time.Duration) (*standard, error) {
	s := &standard{tolerance: tolerance}
	for _, key := range keys {
		if len(key) < minStandardBytes || len(key) > maxStandardBytes {
			return nil, fmt.Errorf("a secret has %d bytes: must have %d to %d", len(key), minStandardBytes, maxStandardBytes)
		}
		v, err := standardwebhooks.NewWebhookRaw(key)
		if err != nil {
			return nil, fmt.Errorf("use a secret: %w", err)
		}
		s.verifiers = append(s.verifiers, v)
	}
	return s, nil
}

// verify leaves the signature to the library, and the time to our own clock and
// tolerance.
func (s *standard) verify(h http.Header, body []byte, now time.Time) (id string, err error) {
	err = errWrongSignature
	for _, v := range s.verifiers {
		if v.VerifyIgnoringTimestamp(body, h) == nil {
			err = nil
		}
	}
	switch {
	case err != nil && h.Get(standardwebhooks.HeaderWebhookSignature) == "":
		err = errUnsigned
	case err == nil && !recent(h.Get(standardwebhooks.HeaderWebhookTimestamp), now, s.tolerance):
		err = errStale
	}
	return h.Get(standardwebhooks.HeaderWebhookID), err
}

package hooks

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
)

// Why a request is not believed: for the operator, and never told to the sender.
var (
	errNoCredential    = errors.New("it has no header Authorization, or more than one")
	errScheme          = errors.New("its header Authorization is of another scheme")
	errWrongCredential = errors.New("what it bears is not what the hook knows")
	errUnsigned        = errors.New("it has no signature where the hook looks for one")
	errWrongSignature  = errors.New("its signature is of another secret, or of another body")
	errStale           = errors.New("its timestamp is missing, no number, or too far from now")
)

// bearing knows a sender by a token in the header Authorization.
func bearing(tokens []string) func(http.Header) error { return authorized("Bearer", tokens) }

// basic knows a sender by user and password.
func basic(b *Basic) func(http.Header) error {
	known := make([]string, len(b.Passwords))
	for i, password := range b.Passwords {
		known[i] = base64.StdEncoding.EncodeToString([]byte(b.User + ":" + password))
	}
	return authorized("Basic", known)
}

// authorized compares hashes, and all of them: the time that it takes tells
// neither how much of a guess is right, nor which of the secrets it is.
func authorized(scheme string, known []string) func(http.Header) error {
	sums := make([][sha256.Size]byte, len(known))
	for i, credential := range known {
		sums[i] = sha256.Sum256([]byte(credential))
	}
	return func(h http.Header) error {
		sent, why := "", errNoCredential
		if values := h.Values("Authorization"); len(values) == 1 {
			why = errScheme
			if name, credential, found := strings.Cut(values[0], " "); found && strings.EqualFold(name, scheme) {
				sent, why = strings.TrimSpace(credential), errWrongCredential
			}
		}
		sum, same := sha256.Sum256([]byte(sent)), 0
		for i := range sums {
			same |= subtle.ConstantTimeCompare(sum[:], sums[i][:])
		}
		if same == 1 {
			return nil
		}
		return why
	}
}

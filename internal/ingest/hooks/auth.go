package hooks

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"strings"
)

// bearing knows a sender by a token in the header Authorization.
func bearing(tokens []string) func(http.Header) bool { return authorized("Bearer", tokens) }

// basic knows a sender by user and password.
func basic(b *Basic) func(http.Header) bool {
	known := make([]string, len(b.Passwords))
	for i, password := range b.Passwords {
		known[i] = base64.StdEncoding.EncodeToString([]byte(b.User + ":" + password))
	}
	return authorized("Basic", known)
}

// authorized compares hashes, and all of them: the time that it takes tells
// neither how much of a guess is right, nor which of the secrets it is.
func authorized(scheme string, known []string) func(http.Header) bool {
	sums := make([][sha256.Size]byte, len(known))
	for i, credential := range known {
		sums[i] = sha256.Sum256([]byte(credential))
	}
	return func(h http.Header) bool {
		sent := ""
		if values := h.Values("Authorization"); len(values) == 1 {
			if name, credential, found := strings.Cut(values[0], " "); found && strings.EqualFold(name, scheme) {
				sent = strings.TrimSpace(credential)
			}
		}
		sum, same := sha256.Sum256([]byte(sent)), 0
		for i := range sums {
			same |= subtle.ConstantTimeCompare(sum[:], sums[i][:])
		}
		return same == 1
	}
}

package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// MinToken is the fewest bytes that a token may have.
const MinToken = 16

// Sum is the SHA-256 of a token. It cannot be turned back into one, and is
// printed all the same as nothing but "[redacted]": a weak token could be
// guessed from it.
type Sum [sha256.Size]byte

// SumOf returns the sum of a token.
func SumOf(token string) Sum { return sha256.Sum256([]byte(token)) }

const sumPrefix = "sha256:"

// ParseSum reads what [Sum.Hash] writes. Its error does not quote the text.
func ParseSum(text string) (s Sum, err error) {
	digits, found := strings.CutPrefix(text, sumPrefix)
	if !found {
		return s, errors.New("must begin with sha256:, as attend token hash prints it")
	}
	if hex.DecodedLen(len(digits)) != len(s) || len(digits)%2 != 0 {
		return s, fmt.Errorf("has %d characters after sha256:, must have %d hexadecimal ones", len(digits), hex.EncodedLen(len(s)))
	}
	if _, err := hex.Decode(s[:], []byte(digits)); err != nil {
		return s, errors.New("has, after sha256:, what is no hexadecimal digit")
	}
	return s, nil
}

// Hash writes the sum as the configuration takes it: "sha256:" and 64 digits.
func (s Sum) Hash() string { return sumPrefix + hex.EncodeToString(s[:]) }

// Format hides the sum from every verb of fmt.
func (s Sum) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "[redacted]") }

// MarshalText hides the sum from encoders, those of slog's handlers too.
func (s Sum) MarshalText() ([]byte, error) { return []byte("[redacted]"), nil }

// Token is a bearer token, known by its sum alone, and what it grants.
type Token struct {
	Grant
	Sum Sum
}

// Tokens finds principals by their tokens. It is safe for concurrent use.
type Tokens struct {
	sums   []Sum
	owners []*Principal
	timers []*time.Timer
}

// NewTokens makes a principal of each token, whose rights end when it expires.
// [Tokens.Stop] must be called.
func NewTokens(all []Token) *Tokens {
	t := new(Tokens)
	for i := range all {
		p := NewPrincipal(all[i].Grant)
		if !p.Expires.IsZero() {
			t.timers = append(t.timers, time.AfterFunc(time.Until(p.Expires), p.revoke))
		}
		t.sums, t.owners = append(t.sums, all[i].Sum), append(t.owners, p)
	}
	return t
}

// Empty tells that there are no tokens.
func (t *Tokens) Empty() bool { return len(t.sums) == 0 }

// Find returns whom a token stands for, nil for nobody. A principal whose rights
// have ended comes with [ErrRevoked]. Every sum is compared, whichever fits, so
// that the time it takes tells neither a token nor how many there are before it.
func (t *Tokens) Find(token string) (*Principal, error) {
	sum := SumOf(token)
	found := -1
	for i := range t.sums {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], t.sums[i][:]), i, found)
	}
	if found < 0 {
		return nil, nil
	}
	if p := t.owners[found]; p.over() {
		return p, ErrRevoked
	}
	return t.owners[found], nil
}

// Revoke ends the rights of a principal, and with them its streams and waits.
func (t *Tokens) Revoke(name string) {
	for _, p := range t.owners {
		if p.Name == name {
			p.revoke()
		}
	}
}

// Stop ends the timers. Rights stay as they are.
func (t *Tokens) Stop() {
	for _, timer := range t.timers {
		timer.Stop()
	}
}

// Named finds a principal by its name, for what goes on while nobody calls; nil
// when there is none, or its rights have ended.
func (t *Tokens) Named(name string) *Principal {
	for _, p := range t.owners {
		if p.Name == name && !p.over() {
			return p
		}
	}
	return nil
}

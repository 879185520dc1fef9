package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
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
	mu      sync.RWMutex
	known   []known
	stopped bool
}

// known is a token and whom it stands for.
type known struct {
	Token
	owner *Principal
	timer *time.Timer // nil: it does not expire
}

// NewTokens makes a principal of each token, whose rights end when it expires.
// [Tokens.Stop] must be called.
func NewTokens(all []Token) *Tokens {
	t := new(Tokens)
	t.Replace(all)
	return t
}

// Replace puts other tokens in force. A principal whose token and grant are the
// same goes on, with its streams; the rights of all others have ended when it
// returns.
func (t *Tokens) Replace(all []Token) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.known
	t.known = make([]known, len(all))
	for i := range all {
		if at := slices.IndexFunc(before, func(k known) bool { return k.owner != nil && k.same(&all[i]) }); at >= 0 {
			t.known[i] = before[at]
			before[at] = known{}
			continue
		}
		k := known{Token: all[i], owner: NewPrincipal(all[i].Grant)}
		if !k.Expires.IsZero() && !t.stopped {
			k.timer = time.AfterFunc(time.Until(k.Expires), k.owner.revoke)
		}
		t.known[i] = k
	}
	for i := range before {
		if before[i].owner != nil {
			before[i].end()
		}
	}
}

// same tells whether a token stands for the same, and may do the same.
func (k *known) same(other *Token) bool {
	a, b := &k.Grant, &other.Grant
	return k.Sum == other.Sum && a.Name == b.Name && a.Expires.Equal(b.Expires) && slices.Equal(a.Rights, b.Rights) &&
		slices.Equal(a.Scopes, b.Scopes) && slices.Equal(a.Fields, b.Fields) && slices.Equal(a.Agents, b.Agents)
}

// end ends the rights, and with them streams and waits.
func (k *known) end() {
	if k.timer != nil {
		k.timer.Stop()
	}
	k.owner.revoke()
}

// Empty tells that there are no tokens.
func (t *Tokens) Empty() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.known) == 0
}

// Find returns whom a token stands for, nil for nobody. A principal whose rights
// have ended comes with [ErrRevoked]. Every sum is compared, whichever fits, so
// that the time it takes tells neither a token nor how many there are before it.
func (t *Tokens) Find(token string) (*Principal, error) {
	sum := SumOf(token)
	t.mu.RLock()
	defer t.mu.RUnlock()
	found := -1
	for i := range t.known {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], t.known[i].Sum[:]), i, found)
	}
	if found < 0 {
		return nil, nil
	}
	if p := t.known[found].owner; p.over() {
		return p, ErrRevoked
	}
	return t.known[found].owner, nil
}

// Revoke ends the rights of a principal, and with them its streams and waits.
func (t *Tokens) Revoke(name string) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for i := range t.known {
		if t.known[i].Name == name {
			t.known[i].owner.revoke()
		}
	}
}

// Stop ends the timers. Rights stay as they are.
func (t *Tokens) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	for i := range t.known {
		if t.known[i].timer != nil {
			t.known[i].timer.Stop()
		}
	}
}

// Named finds a principal by its name, for what goes on while nobody calls; nil
// when there is none, or its rights have ended.
func (t *Tokens) Named(name string) *Principal {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for i := range t.known {
		if p := t.known[i].owner; p.Name == name && !p.over() {
			return p
		}
	}
	return nil
}

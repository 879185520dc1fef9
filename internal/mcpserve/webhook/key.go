package webhook

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
)

// Key says which subscription is meant: whoever subscribes with the same key
// again refreshes it (events contract, 6).
type Key struct {
	Principal string
	URL       string // as it was given
	Name      string // of the event type
	Arguments json.RawMessage
}

// ID derives the subscription's id. It is the same across refreshes and
// restarts, and gives no rights.
//
// Errors: the arguments are no JSON.
func (k *Key) ID() (string, error) {
	args, err := canonical(k.Arguments)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, part := range [][]byte{[]byte(k.Principal), []byte(k.URL), []byte(k.Name), args} {
		_ = binary.Write(h, binary.BigEndian, uint64(len(part))) // a hash takes everything
		h.Write(part)
	}
	return "sub_" + base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:18]), nil
}

// canonical writes arguments so that equal ones are known to be: keys sorted,
// no space, numbers in one spelling where a float64 holds them exactly enough,
// and nothing at all as {}.
func canonical(args json.RawMessage) ([]byte, error) {
	if len(args) == 0 || string(args) == "null" {
		return []byte("{}"), nil
	}
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(numbers(v)); err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// numbers replaces the numbers in a value by float64s, but for those so large
// that digits would be lost.
func numbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v { //arch:sorted each by itself
			v[name] = numbers(member)
		}
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case json.Number:
		if f, err := v.Float64(); err == nil && math.Abs(f) <= 1<<53 {
			return f
		}
	}
	return v
}

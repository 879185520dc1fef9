package config

import (
	"fmt"
	"io"
)

const redacted = "[redacted]"

// Secret is text that must not reach logs, errors, metrics or answers. Every
// way of printing or encoding it gives "[redacted]"; "" stays "". [Secret.Reveal]
// is the one way to the text.
type Secret string

// Reveal returns the text.
func (s Secret) Reveal() string { return string(s) }

// String hides the text.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// Format hides the text from every verb of fmt, %x and %#v too.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText hides the text from encoders, those of slog's handlers too.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

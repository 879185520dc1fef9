package feed

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestFieldCursor_RoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := FieldCursor{
			Epoch:    rapid.StringN(0, 60, 255).Draw(t, "epoch"),
			Number:   rapid.Int64Min(0).Draw(t, "number"),
			Identity: [8]byte(rapid.SliceOfN(rapid.Byte(), 8, 8).Draw(t, "identity")),
		}
		got, err := DecodeFieldCursor(c.Encode())
		if err != nil || got != c {
			t.Fatalf("got %+v, %v; want %+v", got, err, c)
		}
	})
}

// Whoever sends a token of one kind where another is wanted is told which it is.
func TestTokens_AreNotTakenForOneAnother(t *testing.T) {
	tokens := map[byte]string{
		whatCursor: Cursor{Epoch: "K4ZQ", Position: 7}.Encode(),
		whatAck:    token{what: whatAck, epoch: "K4ZQ", position: 7, mark: 1}.encode(),
		whatField:  FieldCursor{Epoch: "K4ZQ", Number: 7, Identity: [8]byte{1}}.Encode(),
	}
	for _, c := range []struct {
		given, wanted byte
		reason        string
	}{
		{whatCursor, whatField, "it is a cursor of the log, and a cursor of a Field is wanted here"},
		{whatAck, whatField, "it is an ack, and a cursor of a Field is wanted here"},
		{whatField, whatCursor, "it is a cursor of a Field, and a cursor of the log is wanted here"},
		{whatAck, whatCursor, "it is an ack, and a cursor of the log is wanted here"},
		{whatCursor, whatAck, "it is a cursor of the log, and an ack is wanted here"},
		{whatField, whatAck, "it is a cursor of a Field, and an ack is wanted here"},
	} {
		if _, err := decodeToken(tokens[c.given], c.wanted); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("got %v, want: %s", err, c.reason)
		}
	}
	for what, s := range tokens { //arch:sorted each by itself
		if got, err := decodeToken(s, what); err != nil || got.what != what || got.position != 7 {
			t.Errorf("%s: %+v, %v", whatName(what), got, err)
		}
	}
}

// FuzzFieldCursor: what is taken has exactly the spelling that it is given out in.
func FuzzFieldCursor(f *testing.F) {
	f.Add("")
	f.Add(Cursor{Epoch: "e", Position: 1}.Encode())
	f.Add(FieldCursor{Epoch: "e", Number: 1, Identity: [8]byte{1, 2, 3}}.Encode())
	f.Add(FieldCursor{Epoch: strings.Repeat("x", 255), Number: 1<<63 - 1}.Encode())
	f.Fuzz(func(t *testing.T, s string) {
		c, err := DecodeFieldCursor(s)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("error of another kind: %v", err)
			}
			return
		}
		if again := c.Encode(); again != s {
			t.Fatalf("%q was read as %+v, which is written %q", s, c, again)
		}
	})
}

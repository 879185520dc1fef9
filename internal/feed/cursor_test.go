package feed

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"attend/internal/engine"
	"attend/internal/store"
)

func TestCursor_RoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Cursor{
			Epoch:    rapid.StringN(0, 60, 255).Draw(t, "epoch"),
			Position: engine.Position(rapid.Int64Min(0).Draw(t, "position")),
		}
		s := c.Encode()
		if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
			t.Fatalf("%q has characters that are not URL-safe", s)
		}
		got, err := DecodeCursor(s)
		if err != nil {
			t.Fatalf("decode %q: %v", s, err)
		}
		if got != c {
			t.Fatalf("got %+v, want %+v", got, c)
		}
	})
}

// Any one character changed, taken out or added is noticed.
func TestCursor_Damage(t *testing.T) {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	s := Cursor{Epoch: "K4ZQ", Position: 4711}.Encode()
	damaged := map[string]bool{s + "A": true, s + "=": true, s + "\n": true, " " + s: true}
	for i := range len(s) {
		damaged[s[:i]+s[i+1:]] = true
		for _, c := range letters {
			damaged[s[:i]+string(c)+s[i+1:]] = true
		}
	}
	delete(damaged, s)
	for d := range damaged { //arch:sorted each by itself
		if c, err := DecodeCursor(d); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q was read as %+v, %v", d, c, err)
		}
	}
}

func TestCursor_Malformed(t *testing.T) {
	ack := token{what: whatAck, epoch: "e", position: 1}.encode()
	newer := []byte(Cursor{Epoch: "e"}.Encode())
	for name, s := range map[string]string{
		"empty":      "",
		"a number":   "42",
		"words":      "from the beginning",
		"an ack":     ack,
		"very long":  strings.Repeat("A", 1<<20),
		"not base64": string(newer[:len(newer)-1]) + "!",
	} {
		if _, err := DecodeCursor(s); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: got %v, want ErrMalformed", name, err)
		}
	}
}

func TestCursor_From(t *testing.T) {
	head := store.Head{Epoch: "now", Position: 10}
	for _, c := range []struct {
		name   string
		cursor Cursor
		after  engine.Position
		stale  bool
	}{
		{"behind", Cursor{"now", 3}, 3, false},
		{"at the head", Cursor{"now", 10}, 10, false},
		{"at the beginning", Cursor{"now", 0}, 0, false},
		{"ahead of the head", Cursor{"now", 11}, 10, true},
		{"of another epoch", Cursor{"then", 3}, 10, true},
	} {
		if after, stale := c.cursor.From(head); after != c.after || stale != c.stale {
			t.Errorf("%s: got %d, %t; want %d, %t", c.name, after, stale, c.after, c.stale)
		}
	}
}

// FuzzCursor: whatever is sent, decoding does not panic, and what is taken has
// exactly the spelling that it is given out in.
func FuzzCursor(f *testing.F) {
	f.Add("")
	f.Add("AQEBZQ")
	f.Add(Cursor{Epoch: "e", Position: 1}.Encode())
	f.Add(Cursor{}.Encode())
	f.Add(Cursor{Epoch: strings.Repeat("x", 255), Position: 1<<63 - 1}.Encode())
	f.Add(token{what: whatAck, epoch: "e", position: 1, mark: 7}.encode())
	f.Add(Cursor{Epoch: "e", Position: 1}.Encode() + "\n")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := DecodeCursor(s)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("error of another kind: %v", err)
			}
			return
		}
		if c.Position < 0 {
			t.Fatalf("negative position %d", c.Position)
		}
		if again := c.Encode(); again != s {
			t.Fatalf("%q was read as %+v, which is written %q", s, c, again)
		}
	})
}

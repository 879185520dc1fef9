package feed

import (
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func TestScopeCursor_RoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scope := rapid.StringN(1, 100, 512).Draw(t, "scope")
		got, err := DecodeScopeCursor(EncodeScopeCursor(scope))
		if err != nil || got != scope {
			t.Errorf("%q came back as %q (%v)", scope, got, err)
		}
	})
}

func TestScopeCursor_Malformed(t *testing.T) {
	for _, s := range []string{"", "s1.", "b", "s1.AA!", "s1._w", "s1.\nYQ", "s2.YQ", "YQ", EncodeScopeCursor("a") + "=", Cursor{Epoch: "e"}.Encode()} {
		if got, err := DecodeScopeCursor(s); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q was read as %q (%v)", s, got, err)
		}
	}
}

package wire

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestHide(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "",
		"no key":                           "no key",
		"a/b&c\"d":                         "[key]",
		"<a/b&c\"da/b&c\"d>":               "<[key][key]>",
		`{"x":"a\/b&c\"d."}`:               `{"x":"[key]."}`,
		`{"x":"a/b\u0026c\"d"}`:            `{"x":"[key]"}`,
		`{"x":"\u0061\/b&c\u0022\u0064"}`:  `{"x":"[key]"}`,
		`{"x":"a/b\u0026C\"d"}`:            `{"x":"a/b\u0026C\"d"}`,
		`"{\"x\":\"a\\/b\\u0026c\\\"d\"}"`: `"{\"x\":\"[key]\"}"`,
		`\a/b&c"d`:                         `\[key]`,
		"short 7":                          "short [key]",
		"é":                                "é",
	} {
		if got := Hide(text, `a/b&c"d`, "", "7"); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", text, got, want)
		}
	}
	if got := Hide(`a\\b a\b a\u005cb`, `a\b`); got != "[key] [key] [key]" {
		t.Errorf("a backslash: %s", got)
	}
	if got := Hide("anything"); got != "anything" {
		t.Errorf("no secrets: %s", got)
	}
}

// However JSON writes a key, and JSON within JSON, it is found.
func TestHide_Nested(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringMatching(`[!-~]{1,16}`).Draw(t, "key")
		text := "<" + key + ">"
		for range rapid.IntRange(0, 3).Draw(t, "depth") {
			b, err := json.Marshal(text)
			if err != nil {
				t.Fatal(err)
			}
			text = string(b)
		}
		if got := Hide(text, key); !strings.Contains(got, Hidden) && !strings.Contains(Hidden, key) {
			t.Fatalf("the key %q is still in %s", key, got)
		}
	})
}

// A host may repeat the key that it was sent, however short, and in the form in
// which JSON writes it.
func TestExchange_HidesTheKey(t *testing.T) {
	for key, echo := range map[string]string{
		"k-1":        `{"error":"no such key: k-1"}`,
		"a/b&c-1234": `{"error":"no such key: a\/b\u0026c-1234"}`,
	} {
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Request-Id", key)
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, echo)
		})
		for name, value := range map[string]string{"Authorization": "Bearer " + key, "X-Api-Key": key, "X-Goog-Api-Key": key} {
			c := New()
			t.Cleanup(c.Close)
			x := exchangeWith(t, c, url, http.Header{name: {value}, "Anthropic-Version": {"no"}})
			if x.Answer != `{"error":"no such key: [key]"}` || x.RequestID != "" {
				t.Errorf("%s: the record has %s, request %q", name, x.Answer, x.RequestID)
			}
		}
	}
}

package exec

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The page that tells the contract is held to it.
func TestDocs_AreWhatIsAskedAndTaken(t *testing.T) {
	page, err := os.ReadFile("../../../docs/judges-programs.md")
	if err != nil {
		t.Fatal(err)
	}
	in := input()
	in.Predicates = in.Predicates[:1]
	in.Window.Events[0].Text = "@agent hello"
	seen := make(map[string]int)
	for _, m := range regexp.MustCompile("(?s)```json ([a-z]+)\n(.*?)```").FindAllSubmatch(page, -1) {
		what, text := string(m[1]), m[2]
		seen[what]++
		var err error
		switch what {
		case "question":
			same(t, text, ask(in).whole)
		case "scope":
			same(t, text, scopeOf("chat:1"))
		case "answer":
			_, err = parse(text, in)
		case "context":
			_, err = parseContext(text)
		case "capture":
			_, err = parseImages(text)
		default:
			t.Errorf("nobody asks or answers a %s", what)
		}
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if diff := cmp.Diff(map[string]int{"question": 1, "scope": 1, "answer": 2, "context": 1, "capture": 1}, seen); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// same compares JSON by its meaning.
func same(t *testing.T, want, got []byte) {
	t.Helper()
	var a, b any
	for text, into := range map[*[]byte]*any{&want: &a, &got: &b} {
		if err := json.Unmarshal(*text, into); err != nil {
			t.Fatalf("%s: %v", *text, err)
		}
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

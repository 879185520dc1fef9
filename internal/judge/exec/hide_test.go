package exec

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
	"attend/internal/judge"
)

// A hook may repeat its key. What it brings goes into the log and to judges.
func TestContext_HidesTheKey(t *testing.T) {
	const answer = `{"facts": {"asked": "with %s", "%s": [1.0, "\\u003c%s\u003e", "é"], "not": "it"}, "predicates": {"is %s": "%s?"}}`
	const escaped = `\u0073k\u002da-key-that-nobody-may-see`
	echo := fmt.Sprintf(answer, key, escaped, escaped, escaped, key)
	for way, e := range map[string]Endpoint{
		"http":    serve(t, func(w http.ResponseWriter, _ *http.Request, _ string) { _, _ = w.Write([]byte(echo)) }),
		"command": command(t, "say", echo),
	} {
		got, err := Context(e)(t.Context(), "chat:1")
		if err != nil {
			t.Fatal(err)
		}
		mark := map[string]string{"http": "[key]", "command": "[hidden]"}[way]
		want := judge.Context{
			Facts:      []byte(strings.ReplaceAll(`{"asked": "with X", "X": [1.0, "\\u003cX>", "é"], "not": "it"}`, "X", mark)),
			Predicates: []engine.Predicate{{Name: "is " + mark, Question: mark + "?"}},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", way, diff)
		}
	}
}

func TestContext_MistakesHideTheKey(t *testing.T) {
	answer := fmt.Sprintf(`{"%s": 1}`, key)
	for way, e := range map[string]Endpoint{"http": says(t, answer), "command": command(t, "say", answer)} {
		_, err := Context(e)(t.Context(), "chat:1")
		if err == nil || strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", way, err)
		}
	}
}

func TestJudge_HidesTheKey(t *testing.T) {
	answer := fmt.Sprintf(`{"route":"skip","why":"%s \u0073k\u002da-key-that-nobody-may-see"}`, key)
	for way, e := range map[string]Endpoint{"[key]": says(t, answer), "[hidden]": command(t, "say", answer)} {
		reply, err := Judge(e).Judge(t.Context(), input())
		if err != nil {
			t.Fatal(err)
		}
		if got, want := reply.Calls[0].Answer, `{"route":"skip","why":"X X"}`; got != strings.ReplaceAll(want, "X", way) {
			t.Errorf("the record has %s", got)
		}
	}
}

func TestHideIn_LeavesTheRest(t *testing.T) {
	for _, doc := range []string{``, `{}`, `{"a\\":"b\"","c":1e9}`, ` [ "x" , null ] `, `"\ud800"`} {
		if got := hideIn([]byte(doc), func(s string) string { return s }); string(got) != doc {
			t.Errorf("%s became %s", doc, got)
		}
	}
}

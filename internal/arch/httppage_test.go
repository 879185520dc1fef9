package arch

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// anything is what a page writes for what differs from run to run.
const anything = "…"

// nextAnswer stands between the answers of a page's commands.
const nextAnswer = "=== the next ==="

// typeHTTPPage types every command of a page of docs, in one shell, and holds
// each answer against the block that follows the command.
func typeHTTPPage(t *testing.T, q *quickStart, page string) {
	t.Helper()
	blocks := allFences(string(readFile(t, filepath.Join(root(t), "docs", page))))
	var script strings.Builder
	var wants []fence
	for i := 0; i < len(blocks); i += 2 {
		if blocks[i].language != "sh" || i+1 == len(blocks) || blocks[i+1].language == "sh" {
			t.Fatalf("block %d is not a command with its answer behind it:\n%s", i, blocks[i].text)
		}
		script.WriteString(blocks[i].text + "echo\necho '" + nextAnswer + "'\n")
		wants = append(wants, blocks[i+1])
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-u", "-c", strings.ReplaceAll(script.String(), "127.0.0.1:8787", q.address))
	cmd.Dir = q.dir
	cmd.Env = append(os.Environ(), "ATTEND_URL=http://"+q.address) // for the commands, as the port is another
	cmd.Stderr = &testLog{t: t}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	answers := strings.Split(string(out), nextAnswer+"\n")
	if len(answers) != len(wants)+1 {
		t.Fatalf("%d answers to %d commands", len(answers)-1, len(wants))
	}
	for i, want := range wants {
		if why := differs(want, answers[i]); why != "" {
			t.Errorf("%s\n%s\nanswers: %s\nand the page shows: %s", why, blocks[2*i].text, answers[i], want.text)
		}
	}
}

// allFences returns every fenced block of a document.
func allFences(doc string) []fence {
	var all []fence
	for _, m := range regexp.MustCompile("(?s)```([a-z]*)\n(.*?)```").FindAllStringSubmatch(doc, -1) {
		all = append(all, fence{m[1], m[2]})
	}
	return all
}

// differs says where an answer is not what a page shows, "" if it is.
func differs(want fence, got string) string {
	if want.language != "json" {
		if !matches(strings.TrimSpace(want.text), strings.TrimSpace(got)) {
			return "another text"
		}
		return ""
	}
	var w, g any
	if err := json.Unmarshal([]byte(want.text), &w); err != nil {
		return fmt.Sprintf("the page's JSON: %v", err)
	}
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		return fmt.Sprintf("the answer's JSON: %v", err)
	}
	return differsAt("the answer", w, g)
}

func differsAt(at string, want, got any) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return at + " is no object"
		}
		return objectDiffers(at, w, g)
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return fmt.Sprintf("%s is no list of %d", at, len(w))
		}
		for i := range w {
			if why := differsAt(fmt.Sprintf("%s[%d]", at, i), w[i], g[i]); why != "" {
				return why
			}
		}
		return ""
	case string:
		if g, ok := got.(string); w != anything && (!ok || !matches(w, g)) {
			return fmt.Sprintf("%s is %v", at, got)
		}
		return ""
	case float64:
		// A time is shown by any other.
		const year2001 = 1e12
		if g, ok := got.(float64); !ok || g != w && !(w > year2001 && g > year2001) {
			return fmt.Sprintf("%s is %v", at, got)
		}
		return ""
	default:
		if want != got {
			return fmt.Sprintf("%s is %v", at, got)
		}
		return ""
	}
}

// objectDiffers compares members. "…" as a name stands for all others.
func objectDiffers(at string, want, got map[string]any) string {
	_, more := want[anything]
	for name := range got {
		if _, shown := want[name]; !shown && !more {
			return fmt.Sprintf("%s has %s, which the page does not show", at, name)
		}
	}
	for name, w := range want {
		if name == anything {
			continue
		}
		g, ok := got[name]
		if !ok {
			return fmt.Sprintf("%s has no %s", at, name)
		}
		if why := differsAt(at+"."+name, w, g); why != "" {
			return why
		}
	}
	return ""
}

// matches compares text in which "…" stands for anything.
func matches(want, got string) bool {
	parts := strings.Split(want, anything)
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile(`(?s)^` + strings.Join(parts, ".*") + `$`).MatchString(got)
}

func TestHTTPPage_RuleFails(t *testing.T) {
	text := func(s string) fence { return fence{"text", s} }
	shown := func(s string) fence { return fence{"json", s} }
	for _, c := range []struct {
		want fence
		got  string
		same bool
	}{
		{text("id: …\ndata: {…}\n"), "id: 7\ndata: {\"a\": 1}\n\n", true},
		{text("id: …\n"), "it: 7\n", false},
		{shown(`{"a": "…", "b": [1, null, true], "at": 1790000000000}`), `{"a":"x","b":[1,null,true],"at":1796000000000}`, true},
		{shown(`{"a": "…"}`), `{"a":7}`, true},
		{shown(`{"a": 1, "…": "…"}`), `{"a":1,"b":2}`, true},
		{shown(`{"a": 1}`), `{"a":1,"b":2}`, false},
		{shown(`{"a": 1, "b": 2}`), `{"a":1}`, false},
		{shown(`{"a": 1}`), `{"a":2}`, false},
		{shown(`{"a": "x…"}`), `{"a":"y"}`, false},
		{shown(`{"a": null}`), `{"a":1}`, false},
		{shown(`[1]`), `[1,2]`, false},
		{shown(`{"a": {}}`), `{"a":[]}`, false},
		{shown(`{"a": 1`), `{"a":1}`, false},
		{shown(`{"a": 1}`), `oh`, false},
	} {
		if got := differs(c.want, c.got); (got == "") != c.same {
			t.Errorf("%q and %q: %q", c.want.text, c.got, got)
		}
	}
	if got := allFences("```sh\na\n```\ntext\n```json\n{}\n```\n"); !slices.Equal(got, []fence{{"sh", "a\n"}, {"json", "{}\n"}}) {
		t.Errorf("fences %q", got)
	}
}

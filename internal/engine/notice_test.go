package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"attend/internal/engine"
)

// lines makes lines of a kind and a length each: "f:2000" is a flush of 2000
// bytes, "c:10*50" fifty consequences of ten. Each begins with its number.
func lines(t testing.TB, spec string) []engine.Line {
	t.Helper()
	kinds := map[string]engine.Kind{"f": engine.Flush, "a": engine.Closing, "c": engine.Consequence, "x": engine.Context}
	var out []engine.Line
	for _, word := range strings.Fields(spec) {
		kind, rest, _ := strings.Cut(word, ":")
		length, times := 0, 1
		if _, err := fmt.Sscanf(rest, "%d*%d", &length, &times); err != nil {
			if _, err := fmt.Sscanf(rest, "%d", &length); err != nil {
				t.Fatalf("%s: %v", word, err)
			}
		}
		for range times {
			text := fmt.Sprintf("%s%d ", kind, len(out))
			text += strings.Repeat("z", max(0, length-len(text)))
			out = append(out, engine.Line{Kind: kinds[kind], Name: "name", Text: text})
		}
	}
	return out
}

// heads lists what a notice kept: the head of each line, with its length where
// it was shortened.
func heads(notice string) string {
	var b []string
	for line := range strings.SplitSeq(notice, "\n") {
		head, _, _ := strings.Cut(line, " ")
		switch {
		case strings.HasPrefix(line, "and "):
			head = line
		case strings.HasSuffix(line, "…"):
			head = fmt.Sprintf("%s:%d", head, len(line))
		}
		b = append(b, head)
	}
	return strings.Join(b, " ")
}

// How a notice of more than 8 KiB is cut (design, section 5 "Notice").
func TestNotice_Cut(t *testing.T) {
	for _, c := range []struct{ name, lines, want string }{
		{"what fits is not cut", "c:1000 a:1000 f:1000", "c0 a1 f2"},
		{"exactly 8 KiB fits", "a:8192", "a0"},
		{"exactly 8 KiB in two lines fits", "a:4000 a:4191", "a0 a1"},
		{"consequences and context go first, oldest first", "c:3000 a:2000 x:2000 c:2000 a:1000", "a1 x2 c3 a4 and 1 more"},
		{"both kinds together by age", "x:3000 c:3000 a:1000 x:1000 a:3000", "c1 a2 x3 a4 and 1 more"},
		{"then acts from the middle", "a:1000 a:2000 a:2000 a:2000 a:1000 a:1000", "a0 a1 a2 a4 a5 and 1 more"},
		{"the first and the last act stay", "a:4000 a:3000 a:4000", "a0 a2 and 1 more"},
		{"every flush stays", "a:1000 f:2000 a:2000 f:2000 a:2000 a:1000", "a0 f1 a2 f3 a5 and 1 more"},
		{"a flush may be the first act", "f:5000 a:2000 a:2000", "f0 a2 and 1 more"},
		{"consequences before acts", "a:2000 a:2000 c:2000 a:2000 a:1000", "a0 a1 a3 a4 and 1 more"},
		{"where these do not fit each line is shortened", "a:9000", "a0:8172"},
		{"as little as need be, and the short ones are left alone", "a:6000 f:100 a:6000", "a0:4035 f1 a2:4035"},
		{"what had to go stays away", "c:9000 a:6000 a:10 a:6000", "a1:4085 a3:4085 and 2 more"},
		{"flushes go from the middle at last", "f:300*60", ""},
		{"a window without an act shows its newest", "c:100 c:9000", "c1:8172 and 1 more"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := engine.Notice(lines(t, c.lines), false)
			if len(got) > engine.NoticeMax {
				t.Errorf("%d bytes", len(got))
			}
			if c.want == "" {
				if !strings.HasPrefix(heads(got), "f0:160 f1:160 ") || !strings.Contains(heads(got), " f59:160 and 10 more") {
					t.Errorf("got %s", heads(got))
				}
				return
			}
			if diff := cmp.Diff(c.want, heads(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// One line an event: its text, else its name; over HTTP and on the command
// line with compact data.
func TestNotice_Line(t *testing.T) {
	data := []byte(`{ "by": "ann",  "n": 1 }`)
	for _, c := range []struct {
		line     engine.Line
		withData bool
		want     string
	}{
		{engine.Line{Name: "build.failed", Text: "the build failed"}, true, "the build failed"},
		{engine.Line{Name: "build.failed", Data: data}, false, "build.failed"},
		{engine.Line{Name: "build.failed", Data: data}, true, `build.failed {"by":"ann","n":1}`},
		{engine.Line{Name: "build.failed"}, true, "build.failed"},
		{engine.Line{Name: "a\nb"}, false, `a\nb`},
	} {
		if got := engine.Notice([]engine.Line{c.line}, c.withData); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.line, got, c.want)
		}
	}
	if got := engine.Notice(nil, false); got != "" {
		t.Errorf("a notice of nothing is %q", got)
	}
}

// An event cannot forge a line, move a terminal's cursor or turn the order of
// what is read.
func TestEscapeLine(t *testing.T) {
	for in, want := range map[string]string{
		"plain, ünïcode, 日本": "plain, ünïcode, 日本",
		"a\nb\r\tc":          `a\nb\r\tc`,
		"\x1b[2J":            `\u001b[2J`,
		"a\x00b\x7fc\u0085d": `a\u0000b\u007fc\u0085d`,
		"x\u202ey\u2066z":    `x\u202ey\u2066z`,
		"x\u200fy\u061cz":    `x\u200fy\u061cz`,
		"l\u2028p\u2029":     `l\u2028p\u2029`,
		"bad\xffbyte":        `bad\ufffdbyte`,
	} {
		if got := engine.EscapeLine(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestShorten(t *testing.T) {
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{
		{"short", 5, "short"}, {"longer", 5, "lo…"}, {"日本語日本語", 10, "日本…"}, {"ab", 1, "…"}, {"", 0, ""},
	} {
		if got := engine.Shorten(c.in, c.limit); got != c.want {
			t.Errorf("Shorten(%q, %d) = %q, want %q", c.in, c.limit, got, c.want)
		}
	}
}

// A notice is one line an event and at most 8 KiB; the first act, the last act
// and the count of what is missing are always there.
func TestLaw_Notice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "lines")
		in := make([]engine.Line, n)
		first, last := -1, -1
		for i := range in {
			length := rapid.IntRange(0, 600).Draw(t, "length")
			if rapid.IntRange(0, 9).Draw(t, "long") == 0 {
				length *= 20
			}
			in[i] = engine.Line{
				Kind: oneOf(t, "kind", engine.Kinds()...),
				Text: fmt.Sprintf("%d %s", i, strings.Repeat(oneOf(t, "character", "z", "é", "\n", "日"), length)),
			}
			if in[i].Kind.Act() {
				if first < 0 {
					first = i
				}
				last = i
			}
		}
		notice := engine.Notice(in, false)
		if len(notice) > engine.NoticeMax || !utf8.ValidString(notice) {
			t.Fatalf("%d bytes", len(notice))
		}
		kept := strings.Split(notice, "\n")
		missing := 0
		if _, err := fmt.Sscanf(kept[len(kept)-1], "and %d more", &missing); err == nil {
			kept = kept[:len(kept)-1]
		}
		if len(kept) == 0 || len(kept)+missing != n {
			t.Fatalf("%d lines and %d more, of %d", len(kept), missing, n)
		}
		numbers := make([]int, len(kept))
		for i, line := range kept {
			if _, err := fmt.Sscanf(line, "%d ", &numbers[i]); err != nil {
				t.Fatalf("line %q", line)
			}
			if i > 0 && numbers[i] <= numbers[i-1] {
				t.Fatalf("lines out of order: %v", numbers)
			}
		}
		if first >= 0 && (!contains(numbers, first) || !contains(numbers, last)) {
			t.Fatalf("the first act %d or the last %d is missing: %v", first, last, numbers)
		}
	})
}

func contains(all []int, one int) bool {
	for _, n := range all {
		if n == one {
			return true
		}
	}
	return false
}

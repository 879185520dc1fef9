package field_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"attend/internal/field"
)

// levelled is an object of so many levels.
func levelled(levels int, open, shut string) string {
	return `{"a":` + strings.Repeat(open, levels-1) + "1" + strings.Repeat(shut, levels-1) + `}`
}

// keyed is an object of so many keys.
func keyed(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":%d`, i, i)
	}
	return "{" + strings.TrimPrefix(b.String(), ",") + "}"
}

// What JSON allows, and no Field keeps or compares.
func TestRefusals_OfContent(t *testing.T) {
	for _, c := range []struct{ content, says string }{ // "" is taken
		{levelled(32, "[", "]"), ""},
		{levelled(33, "[", "]"), "a[0][0]"},
		{levelled(32, `{"b":`, "}"), ""},
		{levelled(33, `{"b":`, "}"), "at level 33"},
		{levelled(9996, "[", "]"), "at most 32"},
		{keyed(256), ""},
		{keyed(257), "257 keys"},
		{`{"a":` + keyed(255) + `}`, ""},
		{`{"a":` + keyed(256) + `}`, "257 keys"},
		{`{"a":[` + keyed(200) + `,` + keyed(200) + `]}`, ""}, // nobody compares what is within lists
		{`{"a":1e308,"b":-1e-400}`, ""},
		{`{"a":1e400}`, "a of %s is 1e400"},
		{`{"size":{"a.b":[0,{"depth":-1e999}]}}`, `size.a\.b[1].depth of %s is -1e999`},
		{`{"a":"\ud83d\ude00","b":"\\ud800","\ud83d\ude00":1}`, ""},
		{`{"a":"\ud800"}`, "a of %s holds half"},
		{`{"a":["x\uDE00\ud83d"]}`, "a[0] of %s holds half"},
		{`{"a":"\ud83d\ud83d\ude00"}`, "a of %s holds half"},
		{`{"a":{"\uDFFF":1}}`, "a of %s has a key that holds half"},
	} {
		for op, params := range map[field.Op]string{ //arch:sorted each by itself
			field.OpWrite:     `{"agent":"kelp","entry":%s,"intent":"0123456789"}`,
			field.OpSupersede: `{"superseding_id":"e1","agent":"kelp","entry":%s,"intent":"0123456789"}`,
			field.OpRead:      `{"query":%s}`,
		} {
			w := newWorld(t, gradedMode)
			w.write("kelp", `{}`, intent20)
			code, of := field.InvalidEntry, "entry"
			if op == field.OpRead {
				code, of = field.InvalidQuery, "query"
			}
			says := strings.Replace(c.says, "%s", of, 1)
			_, err := w.try(op, fmt.Sprintf(params, c.content))
			var e *field.Error
			switch {
			case c.says == "" && err != nil:
				t.Errorf("%s %.60s: %v", op, c.content, err)
			case c.says == "":
			case !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Message, says) || !strings.Contains(e.Message, of):
				t.Errorf("%s %.60s: %v, want %s with %q", op, c.content, err, code, says)
			case len(e.Message) > 500:
				t.Errorf("%s %.60s: the message has %d bytes", op, c.content, len(e.Message))
			}
		}
	}
}

// Half of a surrogate pair is no character: two names that differ in it alone
// would be one.
func TestRefusals_OfHalves(t *testing.T) {
	for _, c := range []struct {
		op           field.Op
		params, code string
	}{
		{field.OpRegister, `{"id":"k\ud800","role":"pilot"}`, field.AgentRequired},
		{field.OpRegister, `{"id":"k","role":"pilot\udc00"}`, field.AgentRequired},
		{field.OpRegister, `{"id":"k","role":"pilot","capabilities":["\ud800"]}`, field.InvalidEntry},
		{field.OpDeregister, `{"id":"\ud800"}`, field.AgentRequired},
		{field.OpWrite, `{"entry":{},"intent":"0123456789","agent":"\ud800"}`, field.AgentRequired},
		{field.OpWrite, `{"entry":{},"intent":"0123456789\ud800"}`, field.IntentRequired},
		{field.OpDraft, `{"entry":{},"intent":"0123456789\ud800"}`, field.IntentRequired},
		{field.OpWrite, `{"entry":{},"intent":"0123456789","\ud800":1}`, field.InvalidEntry},
		{field.OpCommit, `{"draft_id":"\ud800"}`, field.DraftNotFound},
		{field.OpDiscard, `{"draft_id":"e2","intent":"\ud8000123456789"}`, field.IntentRequired},
		{field.OpRetract, `{"id":"\ud800","agent":"kelp","intent":"0123456789"}`, field.EntryNotFound},
		{field.OpRetract, `{"id":"e1","agent":"\ud800","intent":"0123456789"}`, field.AgentRequired},
		{field.OpRetract, `{"id":"e1","agent":"kelp","intent":"0123456789\ud800"}`, field.IntentTooShort},
		{field.OpSupersede, `{"superseding_id":"\ud800","agent":"kelp","entry":{},"intent":"0123456789"}`, field.EntryNotFound},
		{field.OpAttune, `{"agent":"\ud800"}`, field.AgentRequired},
		{field.OpAttune, `{"agent":"mara","topic":"\ud800"}`, field.InvalidQuery},
		{field.OpAttune, `{"agent":"mara","topic":1e400}`, field.InvalidQuery},
		{field.OpReckon, `{"agent":"mara","role":"\ud800"}`, field.InvalidQuery},
		{field.OpRead, `{"caller":"\ud800"}`, field.InvalidQuery},
		{field.OpRead, `{"after":"\ud800"}`, field.InvalidQuery},
	} {
		w := newWorld(t, gradedMode)
		w.write("kelp", `{}`, intent20)
		w.draft("kelp", `{}`)
		equal(t, string(c.op)+" "+c.params, w.code(c.op, c.params), c.code)
	}
}

// What is long is not said again.
func TestRefusals_AreShort(t *testing.T) {
	long := strings.Repeat("ü", 60000)
	for _, c := range []struct {
		op     field.Op
		params string
	}{
		{field.OpCommit, `{"draft_id":"%s"}`},
		{field.OpRetract, `{"id":"%s","agent":"kelp","intent":"0123456789"}`},
		{field.OpRetract, `{"id":"e1","agent":"gull","intent":"0123456789","%s":1}`},
		{field.OpSupersede, `{"superseding_id":"%s","agent":"kelp","entry":{},"intent":"0123456789"}`},
		{field.OpRead, `{"after":"%s"}`},
		{field.OpRead, `{"%s":1}`},
		{field.OpRead, `{"query":{"%s":1e400}}`},
		{field.OpRead, `{"query":{"a":1%.0s` + strings.Repeat("0", 60000) + `}}`},
		{field.OpAttune, `{"agent":"%s"}`},
		{field.OpWrite, `{"entry":{},"intent":"0123456789","agent":"%s"}`},
	} {
		w := newWorld(t, gradedMode)
		w.write("kelp", `{}`, intent20)
		_, err := w.try(c.op, fmt.Sprintf(c.params, long))
		var e *field.Error
		if !errors.As(err, &e) || len(e.Message) > 500 {
			t.Errorf("%s %.40s: %.600v", c.op, c.params, err)
		}
	}
}

package field_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"attend/internal/field"
)

// The form in which changes are kept. It may only ever be added to.
func TestChange_Form(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gradedMode)
	for _, c := range []struct {
		op           field.Op
		params, want string
	}{
		{
			field.OpRegister, `{"id":"kelp","role":"pilot","capabilities":["sail"]}`,
			`{"kind":"registered","at":1001,"agent":"kelp","role":"pilot","capabilities":["sail"]}`,
		},
		{
			field.OpWrite, `{"entry": {"topic":"<reef>", "n":1.0, "n":2},"intent":" 0123456789","agent":"kelp"}`,
			`{"kind":"written","at":1002,"id":"e1","agent":"kelp","intent":" 0123456789","entry":{"topic":"<reef>","n":1.0,"n":2}}`,
		},
		{
			field.OpDraft, `{"entry":{},"intent":"0123456789"}`,
			`{"kind":"drafted","at":1003,"epoch":1,"id":"e2","intent":"0123456789","entry":{}}`,
		},
		{field.OpCommit, `{"draft_id":"e2"}`, `{"kind":"committed","at":1004,"epoch":2,"id":"e2"}`},
		{field.OpDraft, `{"entry":{},"intent":"0123456789"}`, `{"kind":"drafted","at":1005,"epoch":3,"id":"e3","intent":"0123456789","entry":{}}`},
		{field.OpDiscard, `{"draft_id":"e3","intent":"9876543210"}`, `{"kind":"discarded","at":1006,"id":"e3","intent":"9876543210"}`},
		{
			field.OpSupersede, `{"superseding_id":"e2","entry":{},"agent":"gull","intent":"0123456789"}`,
			`{"kind":"superseded","at":1007,"epoch":4,"id":"e4","old":"e2","agent":"gull","intent":"0123456789","entry":{}}`,
		},
		{
			field.OpRetract, `{"id":"e1","agent":"kelp","intent":"0123456789"}`,
			`{"kind":"retracted","at":1008,"epoch":5,"id":"e1","agent":"kelp","intent":"0123456789"}`,
		},
		{field.OpDeregister, `{"id":"kelp"}`, `{"kind":"deregistered","at":1009,"agent":"kelp"}`},
	} {
		w.do(c.op, "%s", c.params)
		body, err := w.log[len(w.log)-1].Encode()
		if err != nil {
			t.Fatal(err)
		}
		equal(t, string(c.op), string(body), c.want)
	}
}

func TestDecodeChange_Refuses(t *testing.T) {
	t.Parallel()
	const good = `{"kind":"written","id":"e1","entry":{}}`
	if _, err := field.DecodeChange(field.Format, []byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		format     int
		body, want string
	}{
		{2, good, "format 2"},
		{0, good, "format 0"},
		{1, ``, "decode change"},
		{1, `[]`, "decode change"},
		{1, good + good, "decode change"},
		{1, `{"kind":"written","id":"\xff","entry":{}}`, "decode change"},
		{1, "{\"kind\":\"written\",\"id\":\"\xff\",\"entry\":{}}", "UTF-8"},
		{1, `{}`, `kind ""`},
		{1, `{"kind":"merged","id":"e1"}`, `kind "merged"`},
		{1, `{"kind":"written","entry":{}}`, "lacks"},
		{1, `{"kind":"written","id":"e1"}`, "lacks"},
		{1, `{"kind":"written","id":"e1","entry":[]}`, "lacks"},
		{1, `{"kind":"drafted","id":"e1","entry":"x"}`, "lacks"},
		{1, `{"kind":"registered","agent":"kelp"}`, "lacks"},
		{1, `{"kind":"registered","role":"pilot"}`, "lacks"},
		{1, `{"kind":"deregistered"}`, "lacks"},
		{1, `{"kind":"committed"}`, "lacks"},
		{1, `{"kind":"superseded","id":"e1","entry":{}}`, "lacks"},
		{1, `{"kind":"written","id":"` + strings.Repeat("x", 257) + `","entry":{}}`, "larger"},
		{1, `{"kind":"written","id":"e1","entry":{},"intent":"` + strings.Repeat("x", 8193) + `"}`, "larger"},
		{1, `{"kind":"written","id":"e1","entry":{"x":"` + strings.Repeat("x", 64<<10) + `"}}`, "larger"},
	} {
		_, err := field.DecodeChange(c.format, []byte(c.body))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("format %d, %.80s: %v, want %q", c.format, c.body, err, c.want)
		}
	}
}

// A change that does not follow from those before it leaves all as it was.
func TestApply_Refuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gradedMode)
	w.write("kelp", `{"topic":"reef"}`, intent20)
	w.draft("mara", `{"topic":"reef"}`)
	w.write("kelp", `{"topic":"reef"}`, intent20)
	w.do(field.OpRetract, `{"id":"e3","agent":"kelp","intent":"it was wrong"}`)
	payload := json.RawMessage(`{"topic":"reef"}`)
	look := func() string {
		return fmt.Sprint(listed(w.read(`{"caller":"mara"}`)), ids(w.attune(`{"agent":"mara","topic":"reef"}`)), w.state.Number(), w.state.Epoch(), w.state.Len())
	}
	before := look()
	for _, c := range []struct {
		change field.Change
		want   string
	}{
		{field.Change{Kind: field.KindWritten, Epoch: 3, ID: "e4", Entry: payload}, "epoch 3 is taken"},
		{field.Change{Kind: field.KindWritten, Epoch: 4, ID: "e1", Entry: payload}, "id e1 is taken"},
		{field.Change{Kind: field.KindDrafted, Epoch: 4, ID: "e2", Entry: payload}, "id e2 is taken"},
		{field.Change{Kind: field.KindWritten, Epoch: 4, ID: "e4"}, "lacks"},
		{field.Change{Kind: field.KindCommitted, Epoch: 4, ID: "e1"}, "no draft e1"},
		{field.Change{Kind: field.KindDiscarded, ID: "e1"}, "no draft e1"},
		{field.Change{Kind: field.KindRetracted, Epoch: 4, ID: "e9"}, "no entry e9"},
		{field.Change{Kind: field.KindRetracted, Epoch: 4, ID: "e2"}, "no entry e2"},
		{field.Change{Kind: field.KindRetracted, Epoch: 4, ID: "e3"}, "entry e3 is retracted"},
		{field.Change{Kind: field.KindSuperseded, Epoch: 4, ID: "e4", Old: "e3", Entry: payload}, "entry e3 is retracted"},
		{field.Change{Kind: field.KindSuperseded, Epoch: 4, ID: "e2", Old: "e1", Entry: payload}, "id e2 is taken"},
		{field.Change{Kind: field.KindSuperseded, Epoch: 4, ID: "e1", Old: "e1", Entry: payload}, "id e1 is taken"},
		{field.Change{Kind: "merged"}, `kind "merged"`},
	} {
		err := w.state.Apply(&c.change)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "change 5") {
			t.Errorf("%+v: %v, want %q", c.change, err, c.want)
		}
		equal(t, c.want, look(), before)
	}
}

func TestOps(t *testing.T) {
	t.Parallel()
	var changes, independent []string
	for _, op := range field.Ops() {
		if op.Changes() {
			changes = append(changes, string(op))
		}
		if op.Independent() {
			independent = append(independent, string(op))
		}
	}
	equal(t, "what changes", strings.Join(changes, " "), "register deregister write draft commit discard retract supersede")
	equal(t, "what is independent", strings.Join(independent, " "), "write draft")
	if field.Op("forget").Changes() {
		t.Error("an unknown operation changes")
	}
}

package hooks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A payload over the limit becomes as much of it as there is room for, and says
// so; nothing else of the event changes.
func TestFit_ALargePayload(t *testing.T) {
	w := newWorld(t, gitHubHook())
	w.limit = 8 << 10
	files := make([]string, 3000)
	for i := range files {
		files[i] = fmt.Sprintf(`{"filename":"file-%d","patch":"%s"}`, i, strings.Repeat("+", 50))
	}
	body := `{"repository":{"full_name":"octo/shop"},"sender":{"login":"kelp"},"issue":{"number":7,"title":"t","body":"` + strings.Repeat("é", 50_000) +
		`"},"action":"opened","files":[` + strings.Join(files, ",") + `]}`
	w.deliver("issues", "1", body).want(t, 200, "")
	e := w.taken[0]
	var data struct {
		Attend     note `json:"_attend"`
		Repository struct {
			FullName string `json:"full_name"`
		} `json:"repository"`
		Issue struct{ Body string }
		Files []any
	}
	if err := json.Unmarshal(e.Data, &data); err != nil {
		t.Fatal(err)
	}
	if data.Attend != (note{true, len(body)}) || data.Repository.FullName != "octo/shop" || !strings.HasSuffix(data.Issue.Body, "é…") || len(data.Files) < 4 {
		t.Errorf("data %s", e.Data)
	}
	if e.Scope != "repo:octo/shop" || e.Name != "github.issues.opened" || e.Text != "kelp opened issue #7 in octo/shop: t" {
		t.Errorf("%s %s %s", e.Scope, e.Name, e.Text)
	}
}

// Whatever comes, what is kept fits and is JSON that says that it was cut; what
// fits is left as it is.
func TestFit_Property(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		data, err := json.Marshal(value(rt, 4))
		if err != nil {
			rt.Fatal(err)
		}
		w := &Service{limit: func(string) int64 { return 400 }}
		e := Event{Scope: "scope", Name: "name", Data: data, Text: strings.Repeat("x", rapid.IntRange(0, 100).Draw(rt, "text"))}
		before := e
		w.fit(&e)
		size := len(e.Scope) + len(e.Name) + len(e.Data) + len(e.Text)
		if size > 400 || !json.Valid(e.Data) {
			rt.Fatalf("%d bytes: %s", size, e.Data)
		}
		whole := len(before.Data)+len(before.Text)+9 <= 400
		if cut := strings.Contains(string(e.Data), `"_attend":{"cut":true`); cut == whole || whole && string(e.Data) != string(before.Data) {
			rt.Fatalf("of %s: %s", before.Data, e.Data)
		}
	})
}

// value draws a JSON value.
func value(rt *rapid.T, depth int) any {
	kinds := 5
	if depth == 0 {
		kinds = 3
	}
	switch rapid.IntRange(0, kinds-1).Draw(rt, "kind") {
	case 0:
		return rapid.StringN(0, 200, -1).Draw(rt, "string")
	case 1:
		return rapid.Float64().Draw(rt, "number")
	case 2:
		return nil
	case 3:
		list := make([]any, rapid.IntRange(0, 6).Draw(rt, "length"))
		for i := range list {
			list[i] = value(rt, depth-1)
		}
		return list
	default:
		object := make(map[string]any)
		for range rapid.IntRange(0, 6).Draw(rt, "size") {
			object[rapid.StringN(0, 20, -1).Draw(rt, "key")] = value(rt, depth-1)
		}
		return object
	}
}

func TestFit_TextIsCutOnlyWhereTheEventIsTooLarge(t *testing.T) {
	w := newWorld(t, mapped(Mapping{Scope: `"s"`, Name: `"n"`, Text: "body.text", Data: "null"}))
	body := `{"text":"` + strings.Repeat("é", 5000) + `"}`
	w.post("any", body, asJSON(bearer()...)...).want(t, 200, "")
	w.limit = 9000
	w.post("any", body, asJSON(bearer()...)...).want(t, 200, "")
	if len(w.taken[0].Text) != 10_000 || len(w.taken[1].Text) != maxText+len("…") || string(w.taken[1].Data) != "null" {
		t.Errorf("%d and %d bytes", len(w.taken[0].Text), len(w.taken[1].Text))
	}
}

// What ingest would refuse for a character that is none is mended, and what is
// nested too deeply is told as far as it goes.
func TestFit_WhatIsNoCharacter(t *testing.T) {
	for data, want := range map[string]string{
		`{"a":"\ud83d\ude00"}`:        `{"a":"\ud83d\ude00"}`,
		`{"a":"\ud83d"}`:              `{"a":"\ufffd"}`,
		`{"a":"\uDE00\ud83d\ude00"}`:  `{"a":"\ufffd\ud83d\ude00"}`,
		`{"a":"\ud83d\ud83d\ude00x"}`: `{"a":"\ufffd\ud83d\ude00x"}`,
		`{"a":"\\ud83d"}`:             `{"a":"\\ud83d"}`,
		`{"a":"\\\ud83d\n"}`:          `{"a":"\\\ufffd\n"}`,
		`{"a":"\ud83d\u0041"}`:        `{"a":"\ufffd\u0041"}`,
		"{\"a\":\"\xff\xfeb\"}":       "{\"a\":\"\ufffdb\"}",
	} {
		w := newWorld(t, gitHubHook())
		w.deliver("fork", "1", data).want(t, 200, "")
		if got := string(w.taken[0].Data); got != want {
			t.Errorf("%s became %s, want %s", data, got, want)
		}
	}
}

func TestFit_WhatIsTooDeep(t *testing.T) {
	w := newWorld(t, gitHubHook())
	nested := func(depth int) string {
		return `{"a":"[[\"{","repository":{"full_name":"octo/shop"},"b":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + `}`
	}
	w.deliver("fork", "1", nested(maxDepth)).want(t, 200, "")
	w.deliver("fork", "2", nested(maxDepth+1)).want(t, 200, "")
	if string(w.taken[0].Data) != nested(maxDepth) {
		t.Errorf("data %s", w.taken[0].Data)
	}
	if got := string(w.taken[1].Data); !strings.Contains(got, `"full_name":"octo/shop"`) || !strings.Contains(got, `"_attend":{"cut":true`) || strings.Count(got, "[") > 30 {
		t.Errorf("data %s", got)
	}
}

// A pruner keeps of any JSON what decoding all of it, and cutting, would keep.
func TestPruner_Property(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		data, err := json.MarshalIndent(value(rt, 4), "", rapid.SampledFrom([]string{"", " "}).Draw(rt, "indent"))
		if err != nil {
			rt.Fatal(err)
		}
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		var whole any
		if err := d.Decode(&whole); err != nil {
			rt.Fatal(err)
		}
		keep := detail{rapid.IntRange(20, 300).Draw(rt, "text"), 6, rapid.IntRange(0, 5).Draw(rt, "depth")}
		p := &pruner{b: data}
		if diff := cmp.Diff(keep.of(whole), p.value(keep)); diff != "" || p.i != len(data) {
			rt.Fatalf("of %s, %d of %d bytes (-want +got):\n%s", data, p.i, len(data), diff)
		}
	})
}

// Of a list that is too long the first are kept; the rest is not built.
func TestPruner_BuildsNoMoreThanItKeeps(t *testing.T) {
	data := []byte(`{"a":[` + strings.Repeat(`0,"]}\"",[{"b":[]}],`, 200_000) + `0],"z":true}`)
	allocated := testing.AllocsPerRun(1, func() {
		if got := encode((&pruner{b: data}).value(detail{10, 2, 3})); string(got) != `{"a":[0,"]}\""],"z":true}` {
			t.Errorf("kept %s", got)
		}
	})
	if allocated > 100 {
		t.Errorf("%v allocations", allocated)
	}
}

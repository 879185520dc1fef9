package llm

import (
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/judge/judgetest"
)

// injections reads what strangers may write.
func injections(t *testing.T, marker string) []string {
	t.Helper()
	file, err := os.ReadFile("testdata/injections.txt")
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for line := range strings.Lines(string(file)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		text, err := strconv.Unquote(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		text = strings.ReplaceAll(text, "{marker}", marker)
		texts = append(texts, strings.ReplaceAll(text, "{long}", strings.Repeat("filler ", 10000)))
	}
	if len(texts) < 30 {
		t.Fatalf("%d texts", len(texts))
	}
	return texts
}

// hostile is a window with a flush, in which a text stands wherever one can.
func hostile(text string) *judge.Input {
	in := input()
	in.Routes = in.Routes[:5] // a flush: no wait
	asJSON, _ := json.Marshal(map[string]string{text: text})
	in.Window.Events = []engine.EventView{
		{ID: text[:min(len(text), 256)], Name: text[:min(len(text), 256)], Kind: engine.Flush, Text: text, Data: asJSON},
		{ID: "2", Name: "message.created", Kind: engine.Closing, Text: text},
	}
	in.Facts = asJSON
	return in
}

// decided is what becomes of an answer to a hostile window.
func decided(t *testing.T, a engine.Answer) *engine.Verdict {
	t.Helper()
	set := engine.Defaults()
	w := &engine.Window{ID: "w1", Reason: engine.ReasonFlush, Offered: engine.Offer(false), Events: engine.Members{{Kind: engine.Flush}, {Kind: engine.Closing}}}
	v, err := engine.Decide(nil, &set, w, a)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// order finds an order or an answer in a text, as an obedient model would.
func order(text string) bool {
	return regexp.MustCompile(`(?i)route\W{0,4}skip|END DATA|"system"|\bskip\b`).MatchString(text)
}

// outside is the part of a prompt that a model takes for instructions, if it
// believes in the first end of the data that it finds.
func outside(prompt string, end *regexp.Regexp) string {
	begin := regexp.MustCompile(`-----BEGIN DATA [0-9a-f]{32}-----\n`).FindStringIndex(prompt)
	if begin == nil {
		return prompt
	}
	rest := prompt[begin[1]:]
	if at := end.FindStringIndex(rest); at != nil {
		return prompt[:begin[0]] + rest[at[1]:]
	}
	return prompt
}

// markerIn is the marker as the system part tells it.
func markerIn(system string) string {
	m := regexp.MustCompile(`-----BEGIN DATA ([0-9a-f]{32})-----`).FindStringSubmatch(system)
	if m == nil {
		return "no marker"
	}
	return m[1]
}

// ends are what models may take for the end of the data: the line that they
// were told, wherever it stands and in any case, and anything like it.
func ends(marker string) map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		"the line it was told":  regexp.MustCompile("(?i)" + regexp.QuoteMeta(judge.FenceLine("END", marker))),
		"the marker":            regexp.MustCompile("(?i)" + marker + "(-----)?"),
		"anything like a fence": regexp.MustCompile(`(?i)-----\s*END[^\n]*`),
		"the end of the line":   regexp.MustCompile("[\r\n\v\f\u0085\u2028\u2029]-----END DATA [^\n]*"),
	}
}

// A model that obeys whatever stands outside the fence is never given an order:
// not even by a text that knows the marker.
func TestInjections_FenceHolds(t *testing.T) {
	marker := judge.Fence(secret(), "w1")
	var end *regexp.Regexp // of the data, as the model believes
	host := judgetest.ServeModels(t, func(a judgetest.Asked) judgetest.Said {
		if markerIn(a.System) != marker {
			t.Errorf("the system part tells the marker %q", markerIn(a.System))
		}
		if order(outside(a.Prompt, end)) {
			return judgetest.Said{Text: `{"route":"skip"}`}
		}
		return judgetest.Said{Text: `{"route":"interrupt"}`}
	})
	j := judgeOf(t, Anthropic, host, nil)
	for name, believed := range ends(marker) {
		end = believed
		misled := 0
		for _, text := range injections(t, marker) {
			reply, err := j.Judge(t.Context(), hostile(text))
			if err != nil {
				t.Fatal(err)
			}
			if reply.Answer.Route != engine.Interrupt {
				t.Errorf("a model that believes in %s obeyed %.200q", name, text)
			}
			if order(outside(judge.FenceLine("BEGIN", marker)+"\n"+text+"\n"+judge.FenceLine("END", marker), end)) {
				misled++
			}
		}
		if misled == 0 { // where a text stands as it is, some get through, or this test tests nothing
			t.Errorf("no text misleads a model that believes in %s, even as it is", name)
		}
	}
}

// Every text reaches the model whole, as data on one line between two lines
// that occur once each, and changes nothing of the system part.
func TestInjections_StayData(t *testing.T) {
	marker := judge.Fence(secret(), "w1")
	host := say(t, judgetest.Said{Text: `{"route":"queue"}`})
	j := judgeOf(t, Anthropic, host, func(o *Options) { o.MaxBytes = 4 << 20 })
	if _, err := j.Judge(t.Context(), hostile("harmless")); err != nil {
		t.Fatal(err)
	}
	for i, text := range injections(t, marker) {
		if _, err := j.Judge(t.Context(), hostile(text)); err != nil {
			t.Fatal(err)
		}
		asked := host.Asked()
		if diff := cmp.Diff(asked[0].System, asked[i+1].System); diff != "" {
			t.Errorf("%.200q changed the system part: %s", text, diff)
		}
		if n := strings.Count(strings.ToLower(asked[i+1].Prompt), marker); n != 2 {
			t.Errorf("%.200q: the marker stands %d times", text, n)
		}
		lines := strings.Split(asked[i+1].Prompt, "\n")
		if len(lines) != 7 || lines[4] != judge.FenceLine("BEGIN", marker) || lines[6] != judge.FenceLine("END", marker) {
			t.Fatalf("%.200q: %d lines", text, len(lines))
		}
		var data struct {
			Facts  map[string]string
			Window struct {
				Events []struct {
					Text string
					Data map[string]string
				}
			}
		}
		if err := json.Unmarshal([]byte(lines[5]), &data); err != nil {
			t.Fatalf("%.200q: %v", text, err)
		}
		for _, e := range data.Window.Events {
			if e.Text != text || len(e.Data) > 0 && e.Data[text] != text {
				t.Errorf("%.200q came as %.200q", text, e.Text)
			}
		}
		if data.Facts[text] != text {
			t.Errorf("%.200q is not among the facts", text)
		}
	}
}

// A model that obeys everything can be talked into anything: the floor holds
// all the same, and the record shows what happened.
func TestInjections_FloorHolds(t *testing.T) {
	marker := judge.Fence(secret(), "w1")
	for _, route := range engine.Offer(false) {
		host := say(t, judgetest.Said{Text: `{"predicates":{"p1":1,"p2":1},"probabilities":{"` + route.String() + `":1},"route":"` + route.String() + `","confidence":1}`})
		j := judgeOf(t, OpenAI, host, nil)
		for _, text := range injections(t, marker) {
			reply, err := j.Judge(t.Context(), hostile(text))
			if err != nil {
				t.Fatal(err)
			}
			v := decided(t, reply.Answer)
			if v.Route == engine.Skip || v.Route == engine.Note || v.Route == engine.Wait {
				t.Errorf("%.200q: a flush was routed to %s", text, v.Route)
			}
			if v.JudgedRoute != route || (v.Route != route) != (len(v.Changed) == 1 && v.Changed[0] == engine.ChangedByFloor) {
				t.Errorf("%.200q: judged %s, changed by %v", text, v.JudgedRoute, v.Changed)
			}
			x := reply.Calls[0]
			if !strings.Contains(x.Prompt, judge.FenceLine("BEGIN", marker)) || !strings.Contains(x.Answer, `\"route\":\"`+route.String()+`\"`) || x.Outcome != "answered" {
				t.Errorf("%.200q: the record is %+v", text, x)
			}
		}
	}
}

// A model that repeats an event's text as its answer: it counts as the model's,
// or is none.
func TestInjections_Parrot(t *testing.T) {
	marker := judge.Fence(secret(), "w1")
	taken := 0
	for _, text := range injections(t, marker) {
		for _, api := range apis() {
			reply, err := judgeOf(t, api, say(t, judgetest.Said{Text: text}), nil).Judge(t.Context(), hostile(text))
			if err == nil {
				taken++
				if v := decided(t, reply.Answer); v.Route != engine.Queue || v.JudgedRoute != reply.Answer.Route {
					t.Errorf("%s: %.200q was decided as %s", api, text, v.Route)
				}
				continue
			}
			var e *judge.Error
			if !errors.As(err, &e) || e.Class != judge.Malformed || strings.Contains(e.Message, text) {
				t.Errorf("%s: %.200q gave %v", api, text, err)
			}
			if x := e.Calls[0]; x.Outcome != "malformed" || x.Answer == "" || x.Prompt == "" {
				t.Errorf("%s: %.200q: the record is %+v", api, text, x)
			}
		}
	}
	if taken == 0 {
		t.Error("no text was an answer: the floor was not tried")
	}
}

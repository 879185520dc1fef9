package expr_test

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
	"attend/internal/expr"
	"attend/internal/judge"
)

// incident is a window as a judge that is asked sees it.
func incident() *judge.Input {
	return &judge.Input{
		Scope: "repo:api",
		Window: judge.Window{
			ID: "w", Reason: engine.ReasonClosing, Trigger: engine.TriggerDeadline, Waits: 1, Dropped: 2, SettledAt: 1_700_000_000_000,
			Events: []engine.EventView{
				{
					ID: "a", Name: "ci.finished", Kind: engine.Closing, SeenAt: 1_699_999_990_000, Text: "build failed: disk is full",
					Data: engine.RawJSON(`{"count": 3, "ratio": 0.5, "whole": 3.0, "ok": false, "tags": ["a", "b"], "by": {"name": "Ann"}, "none": null}`),
				},
				{ID: "b", Name: "deploy.log", Kind: engine.Consequence, SeenAt: 1_699_999_995_000},
			},
		},
		Routes: []judge.Offer{{Route: engine.Interrupt}, {Route: engine.Queue}},
		Recent: []engine.Recent{{Window: "v", At: 1_699_999_000_000, Route: engine.Queue}},
		Facts:  json.RawMessage(`{"owner": "ann", "open": 7}`),
		Now:    1_700_000_000_000,
	}
}

func TestCompile_Conditions(t *testing.T) {
	for source, want := range map[string]bool{
		`scope.startsWith("repo:") && reason == "closing" && trigger == "deadline"`:           true,
		`waits == 1 && dropped > 1 && !gap`:                                                   true,
		`"ci.finished" in names && "flush" in kinds`:                                          false,
		`counts.closing == 1 && counts.flush == 0`:                                            true,
		`size(events) == 2 && events[0].id == "a" && events[1].kind != "closing"`:             true,
		`events.exists(e, e.text.matches("(?i)DISK.*full"))`:                                  true,
		`events[0].data.count > 3`:                                                            false,
		`events[0].data.count == 3 && events[0].data.count == 3.0`:                            true,
		`events[0].data.whole == 3 && events[0].data.whole > 2.5`:                             true,
		`events[0].data.ratio < 1 && events[0].data.ratio == 0.5`:                             true,
		`events[0].data.tags.exists(t, t == "b") && "a" in events[0].data.tags`:               true,
		`events[0].data.by.name.lowerAscii() == "ann"`:                                        true,
		`events[0].data.none == null && !events[0].data.ok`:                                   true,
		`has(events[0].data.by) && !has(events[1].data.by)`:                                   true,
		`has(events[0].data) && !has(events[1].data) && !has(events[1].text)`:                 true,
		`events[1].data.?by.?name.orValue("nobody") == "nobody"`:                              true,
		`now - events[0].seenAt == duration("10s") && now.getHours() == 22`:                   true,
		`now.getHours("+02:00") == 0`:                                                         true,
		`recent[0].route == "queue" && !has(recent[0].judgedRoute)`:                           true,
		`!("wait" in offered) && "queue" in offered`:                                          true,
		`facts.owner == "ann" && facts.open >= 5`:                                             true,
		`events[0].data.map(k, k) == ["by", "count", "none", "ok", "ratio", "tags", "whole"]`: true,
		`events.filter(e, e.kind == "closing").map(e, e.name).join() == "ci.finished"`:        true,
		`sets.contains(names, ["deploy.log"]) && math.greatest(waits, dropped) == 2`:          true,
	} { //arch:sorted each is a case of its own
		p, err := expr.Compile(expr.Window, source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if got, err := p.Met(expr.OfInput(incident())); got != want || err != nil {
			t.Errorf("%s = %v, %v, want %v", source, got, err, want)
		}
	}
}

func TestCompile_VerdictConditions(t *testing.T) {
	confidence := 0.4
	p := engine.Probabilities{0: 0.25, 4: 0.75}
	w := &engine.Window{Scope: "s", Events: engine.Members{{Kind: engine.Flush, Name: "stop"}}, Reason: engine.ReasonFlush}
	v := &engine.Verdict{Route: engine.Skip, Probabilities: &p, Predicates: map[string]float64{"asked": 0.9}, Confidence: &confidence}
	for source, want := range map[string]bool{
		`route == "skip" && predicates.asked >= 0.7`:                   true,
		`probabilities.interrupt == 0.25 && probabilities.wait == 0.0`: true,
		`confidence != null && confidence < 0.5`:                       true,
		`has(predicates.other)`:                                        false,
		`"flush" in kinds && events[0].name == "stop"`:                 true,
	} { //arch:sorted each is a case of its own
		p, err := expr.Compile(expr.Verdict, source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if got, err := p.Met(expr.OfVerdict(w, v)); got != want || err != nil {
			t.Errorf("%s = %v, %v, want %v", source, got, err, want)
		}
	}
	unsure, err := expr.Compile(expr.Verdict, `confidence == null`)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := unsure.Met(expr.OfVerdict(w, &engine.Verdict{Route: engine.Skip})); !got || err != nil {
		t.Errorf("without a confidence: %v, %v, want null", got, err)
	}
}

func TestCompile_Mistakes(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{"", "1:1: the expression is empty"},
		{"scope ==", `1:9: ends in the middle`},
		{"events[0", "1:9: ends in the middle: ] is missing"},
		{"size(events > 1", "1:16: ends in the middle: ) is missing"},
		{"scope == 'a", `1:10: a text begins here and does not end: its quote is missing`},
		{"scop == \"a\"", `1:1: there is no "scop" here: there are scope, reason,`},
		{"waits == 1 &&\n  events[0].txt == \"a\"", `2:12: there is no field "txt": an event has id, name, kind, text, data and seenAt`},
		{"waits == \"1\"", `1:7: "==" cannot be applied to a whole number and a string`},
		{"waits == 1.5", `1:7: "==" cannot be applied to a whole number and a number: write whole numbers as 1.0`},
		{"names == events", `1:7: "==" cannot be applied to a list and a list`},
		{"scope.contains(waits)", `1:15: "contains" cannot be applied to a string and a whole number`},
		{"waits + 1", "1:1: is a whole number, and must be true or false"},
		{"waits.x == 1", "1:6: has no fields: it is a whole number"},
		{"events.exists(e, e.text.matches('('))", "1:33: is no pattern: missing closing ): `(`"},
		{`scope.matches("(?P<a")`, "1:15: is no pattern: invalid named capture: `(?P<a`"},
		{`reason = "flush"`, "1:8: to compare write =="},
		{`reason === "flush"`, "1:10: to compare write =="},
		{`reason <> "flush"`, "1:9: to compare write !="},
		{"gap and waits > 1", "1:5: for and write &&"},
		{`scope == "a" OR gap`, "1:14: for or write ||"},
		{"gap & gap", "1:5: for and write &&"},
		{"gap | gap", "1:5: for or write ||"},
		{"not gap", "1:5: for not write !"},
		{`scope like "a"`, `1:7: "like" is not expected here`},
		{`scope.startswith("a")`, `1:17: there is no function "startswith"; did you mean startsWith?`},
		{`events.any(e, e.text == "a")`, `1:11: there is no function "any"; did you mean exists?`},
		{"len(events) > 1", `1:4: there is no function "len"; did you mean size?`},
		{"nosuch(1)", `1:7: there is no function "nosuch"`},
		{"events.length > 1", "1:7: has no fields: it is a list; for how many there are write size()"},
		{"counts.flushes > 0", `1:7: "flushes" is never a kind: it is closing, flush, `},
		{`counts["flushes"] > 0`, `1:8: "flushes" is never a kind`},
		{"has(counts.flushs)", `"flushs" is never a kind`},
		{`"flushs" in counts`, `1:1: "flushs" is never a kind`},
		{"counts.?flushs.orValue(0) > 0", `"flushs" is never a kind`},
		{"events.all(a, events.all(b, events.all(c, true)))", "1:39: more than 2 of exists, all, filter and map"},
		{`{"a": 1}.exists(k, k == "a")`, "1:1: an expression cannot build maps"},
		{`reason == "clossing"`, `1:11: "clossing" is never the reason: it is flush, closing,`},
		{`"passiv" in kinds || recent[0].route in ["skip"]`, `1:1: "passiv" is never a kind`},
		{`events.exists(e, e.kind in ["closing", "Flush"])`, `1:40: "Flush" is never a kind`},
		{`route == "skip"`, `1:1: there is no "route" here`},
		{`now.getHours("Europe/Vena") > 8`, `1:14: there is no time zone "Europe/Vena"`},
		{`"é" == scop`, `1:8: there is no "scop"`},
		{strings.Repeat("(", 300) + "true" + strings.Repeat(")", 300), "nested"},
		{strings.Repeat("true && ", 4000) + "true", "size"},
	} {
		_, err := expr.Compile(expr.Window, c.source)
		var e *expr.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60s:\n got %.300v\nwant %s", c.source, err, c.want)
		}
	}
}

// One slip is one mistake: what follows from it is not said.
func TestCompile_OneSlipIsOneMistake(t *testing.T) {
	for _, source := range []string{
		`events.any(e, e.text == "a" || e.name == "b")`, `events.any(e => e.text == "a")`, "reason = 'flush'", "scope == 'a", "counts.flushs > 0",
	} {
		_, err := expr.Compile(expr.Window, source)
		if e, ok := errors.AsType[*expr.Error](err); !ok || len(e.Mistakes) != 1 {
			t.Errorf("%s: got %v, want one mistake", source, err)
		}
	}
	if _, err := expr.Compile(expr.Verdict, "probabilities.intrrupt > 0.5"); err == nil || !strings.Contains(err.Error(), `"intrrupt" is never a route`) {
		t.Errorf("probabilities of no route: got %v", err)
	}
}

func TestProgram_Keys(t *testing.T) {
	p, err := expr.Compile(expr.Verdict, `predicates.b > 0.5 && has(predicates.a) && predicates["c d"] > 0.1 && predicates.?e.orValue(0.0) > 0.1 && predicates[scope] > 0.5 && counts.flush > 0`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b", "c d", "e"}, p.Keys("predicates")); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

func TestCompile_AllMistakesInOrder(t *testing.T) {
	_, err := expr.Compile(expr.Window, "scop == reson &&\nwats > 1")
	var e *expr.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v", err)
	}
	var places [][2]int
	for _, m := range e.Mistakes {
		places = append(places, [2]int{m.Line, m.Column})
	}
	if diff := cmp.Diff([][2]int{{1, 1}, {1, 9}, {2, 1}}, places); diff != "" {
		t.Error(diff)
	}
}

// A condition that fails is not met, and says why.
func TestMet_Failures(t *testing.T) {
	many := incident()
	for range 400 {
		many.Window.Events = append(many.Window.Events, engine.EventView{Name: "n", Text: strings.Repeat("x", 4000)})
	}
	for _, c := range []struct {
		source string
		in     *judge.Input
		want   string
	}{
		{`events[0].data.missing == 1`, incident(), "no such key: missing"},
		{`events[7].name == "a"`, incident(), "index out of bounds"},
		{`events[0].data.count`, incident(), "is a whole number, and must be true or false"},
		{`events[0].data.by > 3`, incident(), "the types do not go together"},
		{`1 / waits == 1 && 1 / (waits - 1) == 1`, incident(), "division by zero"},
		{`events.exists(a, events.exists(b, a.text.contains(b.text + "y")))`, many, "costs more than"},
		{`events.exists(e, e.text.matches("(x+x+)+y"))`, many, "costs more than"},
		{`lists.range(events[0].data.count * 1000000).size() > 1`, incident(), "exceeds maximum allowed"},
	} {
		p, err := expr.Compile(expr.Window, c.source)
		if err != nil {
			t.Errorf("%s: %v", c.source, err)
			continue
		}
		if met, err := p.Met(expr.OfInput(c.in)); met || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v, want %q", c.source, met, err, c.want)
		}
	}
}

// What the expressions on a window may cost together is bounded too.
func TestMet_TotalLimit(t *testing.T) {
	in := incident()
	for range 400 {
		in.Window.Events = append(in.Window.Events, engine.EventView{Name: "n", Text: strings.Repeat("x", 4000)})
	}
	p, err := expr.Compile(expr.Window, `events.map(a, events.map(b, a.text + b.text)).size() == 0`)
	if err != nil {
		t.Fatal(err)
	}
	cheap, err := expr.Compile(expr.Window, `waits == 1`)
	if err != nil {
		t.Fatal(err)
	}
	vars := expr.OfInput(in)
	if met, err := cheap.Met(vars); !met || err != nil {
		t.Fatalf("before: %v, %v", met, err)
	}
	for range expr.TotalLimit / expr.CostLimit {
		if _, err := p.Met(vars); err == nil || !strings.Contains(err.Error(), "costs more than") {
			t.Fatalf("the dear one: %v", err)
		}
	}
	if met, err := cheap.Met(vars); met || err == nil || !strings.Contains(err.Error(), "was not looked at") {
		t.Errorf("after: %v, %v, want that it was not looked at", met, err)
	}
	if met, err := cheap.Met(expr.OfInput(in)); !met || err != nil {
		t.Errorf("the next window: %v, %v", met, err)
	}
}

// Programs may be asked from several goroutines at once.
func TestMet_Concurrent(t *testing.T) {
	p, err := expr.Compile(expr.Window, `events.exists(e, e.data.?count.orValue(0) == 3 && e.text.matches("disk"))`)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if met, err := p.Met(expr.OfInput(incident())); !met || err != nil {
					t.Errorf("%v, %v", met, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestUses(t *testing.T) {
	for _, c := range []struct {
		source string
		uses   string
	}{
		{`scope == "a" && waits > 1`, "scope waits"},
		{`events.exists(e, e.name == "a" && e.kind == "closing")`, "events"},
		{`events.exists(e, e.text != "")`, "events bodies"},
		{`events.all(e, has(e.data.x))`, "events bodies"},
		{`events[0].id == "a"`, "events bodies"},
		{`events.all(e, dyn(e).text == "")`, "events bodies"},
		{`events.map(e, dyn(e))[0]["te" + "xt"] == ""`, "events bodies"},
		{`facts.text == "a" && facts.list[0].text == "b"`, "facts"},
		{`size(recent) > 0 && now.getHours() > 8`, "recent now"},
		{`now.getHours("+02:00") > 8`, "now"},
		{`now.getHours("Europe/Berlin") > 8`, "now zone"},
		{`now.getHours(scope) > 8`, "scope now zone"},
	} {
		p, err := expr.Compile(expr.Window, c.source)
		if err != nil {
			t.Errorf("%s: %v", c.source, err)
			continue
		}
		var uses []string
		for _, name := range []string{"scope", "waits", "events", "recent", "facts", "now", expr.Bodies, expr.Zone} {
			if p.Uses(name) {
				uses = append(uses, name)
			}
		}
		if got := strings.Join(uses, " "); got != c.uses {
			t.Errorf("%s uses %q, want %q", c.source, got, c.uses)
		}
	}
}

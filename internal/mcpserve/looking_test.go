package mcpserve

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"attend/internal/engine"
)

const (
	viewOpen    = `"open":{"events":3,"acts":1,"bytes":99,"since":1764547200000,"dropped":0,"gap":false,"deadlines":[{"reason":"age","at":1764547230000,"event":"e1"},{"reason":"closing","at":1764547202000,"event":"e1"}]},"held":null,"judging":null,"lanes":null,"silences":[],"policy":1`
	viewJudging = `"open":null,"held":null,"judging":{"id":"w1","attempt":2,"since":null,"retryAt":1764547205000},"lanes":null,"silences":[],"policy":1`
	viewQuiet   = `"open":{"events":2,"acts":0,"bytes":99,"since":1764547200000,"dropped":0,"gap":false,"deadlines":[]},"held":null,"judging":null,"lanes":null,"silences":[],"policy":1`
	viewHeld    = `"open":null,"held":{"id":"w2","until":1764547260000,"waits":1},"judging":null,"lanes":null,"silences":[],"policy":1`
)

func TestScopes_TextAndContent(t *testing.T) {
	d := newDaemon(t, settings{})
	d.scopes.names = []string{"a", "b", "c", "d", "e"}
	d.scopes.views = map[string]string{"a": viewOpen, "b": viewJudging, "c": viewHeld, "e": viewQuiet}
	for _, era := range []string{legacy, modern} {
		text, out := d.use(era, "attend_scopes", `{}`)
		d.fits("attend_scopes.output", out)
		want := `5 scopes, by name.
"a": 3 events open since 2025-12-01T00:00:00.000Z, 1 of which may call for you; to be judged at 2025-12-01T00:00:02.000Z (closing) unless more comes.
"b": w1 is being judged, attempt 2 starts at 2025-12-01T00:00:05.000Z.
"c": w2 is held until 2025-12-01T00:01:00.000Z, time 1, since more is expected.
"d": nothing is going on.
"e": 2 events open since 2025-12-01T00:00:00.000Z, none of which calls for anybody.
`
		if diff := cmp.Diff(want, text.Content[0].Text); diff != "" {
			t.Error(diff)
		}
		if out["cursor"] != nil || out["scopes"].([]any)[0].(map[string]any)["open"].(map[string]any)["events"] != 3.0 {
			t.Errorf("content: %v", out)
		}
	}
	if text, out := d.use(modern, "attend_scopes", `{"scope":"x*"}`); len(out["scopes"].([]any)) != 0 || !strings.HasPrefix(text.Content[0].Text, "No scope") {
		t.Errorf("none: %v", out)
	}
	if text, out := d.use(modern, "attend_scopes", `{"scope":"never heard of"}`); len(out["scopes"].([]any)) != 1 || !strings.Contains(text.Content[0].Text, "nothing is going on") {
		t.Errorf("by its name: %v", out)
	}
}

// listed calls attend_scopes until there are no more.
func (d *daemon) listed(args string) (names []string, calls int) {
	d.t.Helper()
	cursor := ""
	for {
		text, out := d.use(modern, "attend_scopes", "{"+args+cursor+"}")
		calls++
		for _, s := range out["scopes"].([]any) {
			names = append(names, s.(map[string]any)["scope"].(string))
		}
		next, more := out["cursor"].(string)
		if more != strings.Contains(text.Content[0].Text, "call attend_scopes with cursor") {
			d.t.Errorf("the text tells of more: %s", text.Content[0].Text)
		}
		if !more {
			return names, calls
		}
		cursor = fmt.Sprintf(`,"cursor":%q`, next)
	}
}

func TestScopes_Pages(t *testing.T) {
	d := newDaemon(t, settings{})
	for i := range 250 {
		d.scopes.names = append(d.scopes.names, fmt.Sprintf("s%03d", i))
	}
	all, calls := d.listed(`"limit":100`)
	if !slices.Equal(all, d.scopes.names) || calls != 3 {
		t.Errorf("%d scopes in %d calls", len(all), calls)
	}
	if first, calls := d.listed(`"scope":"s00?","limit":10`); len(first) != 10 || calls != 1 {
		t.Errorf("just as many as fit: %v in %d calls", first, calls)
	}
	d.scopes.asked = 0
	if found, _ := d.listed(`"scope":"s10*","limit":10`); !slices.Equal(found, d.scopes.names[100:110]) {
		t.Errorf("by their beginning: %v", found)
	}
	if d.scopes.asked > 120 {
		t.Errorf("for 10 scopes of 250 it looked at %d", d.scopes.asked)
	}
	if _, out := d.use(modern, "attend_scopes", `{}`); len(out["scopes"].([]any)) != defaultScopes {
		t.Errorf("without a limit: %d", len(out["scopes"].([]any)))
	}
}

// A call looks at so many scopes; the next goes on from there. Scopes that the
// caller may not see are passed over without a word.
func TestScopes_LookAtSoManyAtATime(t *testing.T) {
	from := &scopes{}
	for i := range maxLookedAt + 500 {
		from.names = append(from.names, fmt.Sprintf("s%05d", i))
	}
	from.names = append(from.names, "wanted")
	q := &scopeQuery{globs: []string{"*wanted"}, limit: 10}
	found, more, err := q.find(t.Context(), from)
	if err != nil || len(found) != 0 || more != from.names[maxLookedAt-1] {
		t.Errorf("%d found, more after %q (%v)", len(found), more, err)
	}
	q.after = more
	if found, more, err = q.find(t.Context(), from); err != nil || len(found) != 1 || more != "" {
		t.Errorf("then %d found, more after %q (%v)", len(found), more, err)
	}
	q = &scopeQuery{limit: 10, may: func(scope string) bool { return scope == "wanted" }}
	if found, more, err = q.find(t.Context(), from); err != nil || len(found) != 1 || more != "" {
		t.Errorf("of those it may see %d found, more after %q (%v)", len(found), more, err)
	}
}

// Whatever the names, the globs and the rights: all that match and may be seen,
// once, and no cursor that names another.
func TestScopes_AllThatMatch(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.StringOfN(rapid.SampledFrom([]rune("ab/é")), 1, 4, -1)
		names := rapid.SliceOfNDistinct(name, 0, 30, rapid.ID[string]).Draw(rt, "names")
		slices.Sort(names)
		glob := rapid.StringOfN(rapid.SampledFrom([]rune("ab/é*?")), 1, 4, -1)
		globs := rapid.SliceOfN(glob, 0, 2).Draw(rt, "globs")
		hidden := rapid.SliceOf(rapid.SampledFrom(append(names, "b"))).Draw(rt, "hidden")
		limit := rapid.IntRange(1, 5).Draw(rt, "limit")
		may := func(scope string) bool { return !slices.Contains(hidden, scope) }
		var want, got []string
		for _, n := range names {
			if may(n) && (len(globs) == 0 || slices.ContainsFunc(globs, func(g string) bool { return engine.Glob(g, n) })) {
				want = append(want, n)
			}
		}
		if len(globs) == 1 && !strings.ContainsAny(globs[0], "*?") {
			want = globs // shown whether or not anything is known of it
		}
		q := &scopeQuery{globs: globs, may: may, limit: limit}
		for {
			views, more, err := q.find(t.Context(), &scopes{names: names})
			if err != nil || len(views) > limit {
				rt.Fatalf("%d views, %v", len(views), err)
			}
			for _, v := range views {
				got = append(got, v.Scope)
			}
			if more == "" {
				break
			}
			if !may(more) || more <= q.after {
				rt.Fatalf("the cursor after %q is %q", q.after, more)
			}
			q.after = more
		}
		if diff := cmp.Diff(want, got, cmp.Comparer(slices.Equal[[]string])); diff != "" {
			rt.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// settle appends events and the settle of a window of them.
func (d *daemon) settle(scope, window string, events ...engine.Position) {
	d.t.Helper()
	d.write(scope, engine.Step{Kind: engine.StepSettled, Window: window, Settled: &engine.Settled{
		Window: window, Reason: engine.ReasonClosing, Trigger: engine.TriggerDeadline, Events: events,
	}})
}

func TestDecision_TheWholeStory(t *testing.T) {
	d := newDaemon(t, settings{})
	d.settle("a", "d1", 1, 2)
	d.write("a", engine.Step{Kind: engine.StepCall, Window: "d1", Call: &engine.Call{Attempt: 1, Judge: "llm"}})
	d.write("a", engine.Step{Kind: engine.StepFailed, Window: "d1", Failed: &engine.Failed{Attempt: 1, Why: "timeout", Message: "no answer\nat all", RetryAt: 1764547205000}})
	d.decide("a", engine.Queue, func(d *engine.Decision) { d.Cut = 2 })
	for _, era := range []string{legacy, modern} {
		c, out := d.use(era, "attend_decision", `{"id":"d1"}`)
		d.fits("attend_decision.output", out)
		text := c.Content[0].Text
		for _, want := range []string{
			"queue: scope \"a\", 2025-12-01T00:00:00.123Z, id d1\n> the build failed\n(2 events more are not shown here)\n\nHow it came about:\n",
			" 2 events went to the judge: the act was finished\n",
			" the judge \"llm\" was asked, attempt 1\n",
			" attempt 1 failed: timeout \"no answer\\nat all\"; tried again at 2025-12-01T00:00:05.000Z\n",
			" decision\n",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the text lacks %q:\n%s", want, text)
			}
		}
		if strings.Contains(text, "sauce") || out["state"] != "decided" || len(out["history"].([]any)) != 4 || out["left"] != 0.0 {
			t.Errorf("content: %v", out)
		}
	}
}

func TestDecision_OfAWindowThatIsHeld(t *testing.T) {
	d := newDaemon(t, settings{})
	d.settle("a", "w1")
	d.write("a", engine.Step{Kind: engine.StepWait, Window: "w1", Verdict: &engine.Verdict{Window: "w1", Route: engine.Wait, HeldUntil: 1764547260000}})
	c, out := d.use(modern, "attend_decision", `{"id":"w1"}`)
	d.fits("attend_decision.output", out)
	for _, want := range []string{"not decided yet: it is held", "the judge chose to wait for more, until 2025-12-01T00:01:00.000Z"} {
		if !strings.Contains(c.Content[0].Text, want) {
			t.Errorf("the text lacks %q:\n%s", want, c.Content[0].Text)
		}
	}
	if out["state"] != "held" || out["decision"].(map[string]any)["kind"] != "window" {
		t.Errorf("content: %v", out)
	}
}

func TestDecision_LongStoriesAreCut(t *testing.T) {
	d := newDaemon(t, settings{})
	d.settle("a", "w1")
	for i := range 150 {
		d.write("a", engine.Step{Kind: engine.StepCall, Window: "w1", Call: &engine.Call{Attempt: i + 1, Judge: "llm"}})
	}
	c, out := d.use(modern, "attend_decision", `{"id":"w1"}`)
	d.fits("attend_decision.output", out)
	text := c.Content[0].Text
	if len(out["history"].([]any)) != maxHistory || out["left"] != 51.0 || !strings.Contains(text, "attempt 49\n(51 steps left out)\n") || !strings.HasSuffix(text, "attempt 150\n") {
		t.Errorf("%d steps, %v left out:\n%s", len(out["history"].([]any)), out["left"], text)
	}
}

func TestDecision_NoneOrNotYours(t *testing.T) {
	d := newDaemon(t, settings{options: onlyScopes(RightRead, "mine")})
	d.decide("theirs", engine.Queue, nil)
	d.decide("mine", engine.Queue, nil)
	none, _ := d.use(modern, "attend_decision", `{"id":"nothing"}`)
	theirs, _ := d.use(modern, "attend_decision", `{"id":"d1"}`)
	if !none.IsError || !cmp.Equal(none, theirs) || !strings.Contains(none.Content[0].Text, "/id") {
		t.Errorf("none: %+v\ntheirs: %+v", none, theirs)
	}
	if c, _ := d.use(modern, "attend_decision", `{"id":"d2"}`); c.IsError {
		t.Errorf("mine: %+v", c)
	}
}

func TestLooking_Refuses(t *testing.T) {
	d := newDaemon(t, settings{options: onlyScopes(RightRead, "mine")})
	for args, path := range map[string]string{
		`{"limit":0}`:       "/limit",
		`{"limit":101}`:     "/limit",
		`{"cursor":"x"}`:    "/cursor",
		`{"cursor":"s1."}`:  "/cursor",
		`{"scope":[]}`:      "/scope",
		`{"colour":"blue"}`: "/colour",
	} {
		if c, _ := d.use(modern, "attend_scopes", args); !c.IsError || !strings.HasPrefix(c.Content[0].Text, path) {
			t.Errorf("%s: %+v", args, c)
		}
	}
	for _, args := range []string{`{}`, `{"id":""}`, `{"id":7}`} {
		if c, _ := d.use(modern, "attend_decision", args); !c.IsError || !strings.HasPrefix(c.Content[0].Text, "/id") {
			t.Errorf("%s: %+v", args, c)
		}
	}
	if r := d.tool(modern, "attend_scopes", `{"scope":"theirs"}`); r.msg.Error == nil || r.msg.Error.Code != -32024 {
		t.Errorf("another's scope by name: %s", r.body)
	}
	writer := newDaemon(t, settings{options: onlyScopes(RightIngest, "mine")})
	for tool, args := range map[string]string{"attend_scopes": `{}`, "attend_decision": `{"id":"d1"}`} {
		if r := writer.tool(modern, tool, args); r.msg.Error == nil || r.msg.Error.Code != -32024 {
			t.Errorf("%s without the right: %s", tool, r.body)
		}
	}
}

package engine_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"attend/internal/engine"
)

// window makes the members and bodies of a window from lines.
func window(events []engine.Line) (engine.Members, []engine.Record) {
	members := make(engine.Members, len(events))
	bodies := make([]engine.Record, len(events))
	for i, e := range events {
		p := engine.Position(i + 1)
		id := fmt.Sprintf("id-%d", i)
		members[i] = engine.Member{Position: p, SeenAt: engine.Time(1000 + i), Kind: e.Kind, Name: e.Name, Digest: engine.DigestOf(id)}
		bodies[i] = engine.Record{Position: p, Stamp: members[i].SeenAt, Event: &engine.Event{ID: id, Name: e.Name, Kind: e.Kind, Text: e.Text, Data: e.Data}}
	}
	return members, bodies
}

func TestComposeDecision(t *testing.T) {
	members, bodies := window([]engine.Line{
		{Kind: engine.Consequence, Name: "log.line", Data: []byte(`{"n":1}`)},
		{Kind: engine.Closing, Name: "build.failed", Text: "the build failed"},
	})
	confidence := 0.5
	st := &engine.Settled{
		Window: "w", Reason: engine.ReasonClosing, Trigger: engine.TriggerDeadline, Due: 2000, SettledAt: 2003,
		Events: []engine.Position{1, 2}, Waits: 1, Dropped: 3, Gap: true,
	}
	v := &engine.Verdict{
		Window: "w", Attempt: 2, Route: engine.Queue, JudgedRoute: engine.Skip, Changed: []engine.Change{engine.ChangedByFloor},
		Probabilities: &engine.Probabilities{0, 0.25, 0, 0, 0.75, 0}, Predicates: map[string]float64{"asked": 0.9},
		Confidence: &confidence, At: 2500, Judge: &engine.JudgeName{Name: "jev", Model: "m1"}, Policy: 1,
	}
	got, err := json.Marshal(engine.ComposeDecision("repo:x", st, members, v, bodies))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"id":"w","kind":"decision","scope":"repo:x","route":"queue","judgedRoute":"skip","changed":["floor"],` +
		`"reason":"closing","trigger":"deadline","probabilities":{"ask":0,"interrupt":0,"note":0,"queue":0.25,"skip":0.75,"wait":0},` +
		`"predicates":{"asked":0.9},"confidence":0.5,"waits":1,"dropped":3,"gap":true,"at":2500,"due":2000,"settledAt":2003,` +
		`"notice":"log.line\nthe build failed","events":[{"id":"id-0","name":"log.line","kind":"consequence","seenAt":1000},` +
		`{"id":"id-1","name":"build.failed","kind":"closing","seenAt":1001,"text":"the build failed"}],"cut":0,"judge":{"name":"jev","model":"m1"}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Where no judge was asked, judgedRoute and judge are null; lists and maps are
// never null.
// Whoever may read the data of events has it in the notice, where there is no
// text; the recorded notice is for everyone.
func TestNoticeWithData(t *testing.T) {
	members, bodies := window([]engine.Line{
		{Kind: engine.Consequence, Name: "log.line", Data: []byte(`{"n": 1}`)},
		{Kind: engine.Closing, Name: "build.failed", Text: "the build failed", Data: []byte(`{"n": 2}`)},
	})
	st := &engine.Settled{Window: "w", Events: []engine.Position{1, 2}}
	d := engine.ComposeDecision("s", st, members, new(engine.Verdict), bodies)
	for what, c := range map[string]struct{ got, want string }{
		"recorded":             {d.Notice, "log.line\nthe build failed"},
		"with data":            {engine.NoticeWithData(d, st, bodies), "log.line {\"n\":1}\nthe build failed"},
		"some are gone":        {engine.NoticeWithData(d, st, bodies[:1]), d.Notice},
		"nobody knows of them": {engine.NoticeWithData(d, nil, nil), d.Notice},
		"nothing to add":       {engine.NoticeWithData(&engine.Decision{Notice: "as it was"}, &engine.Settled{Events: st.Events[1:]}, bodies[1:]), "as it was"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q", what, c.got)
		}
	}
}

func TestComposeDecision_NoJudge(t *testing.T) {
	members, _ := window([]engine.Line{{Kind: engine.Closing, Name: "a"}})
	st := &engine.Settled{Window: "w", Reason: engine.ReasonClosing, Trigger: engine.TriggerDeadline, Silence: "s"}
	v := &engine.Verdict{Window: "w", Route: engine.Skip, Changed: []engine.Change{engine.ChangedBySilence}}
	got, err := json.Marshal(engine.ComposeDecision("s", st, members, v, nil)) // bodies are gone
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"judgedRoute":null`, `"judge":null`, `"confidence":null`, `"changed":["silence"]`, `"predicates":{}`,
		`"probabilities":{"ask":0,"interrupt":0,"note":0,"queue":0,"skip":1,"wait":0}`,
		`"events":[{"id":"","name":"a","kind":"closing","seenAt":1000}]`,
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%s is missing in %s", want, got)
		}
	}
}

// Events are cut to 200 and 128 KiB, one text to 4 KiB, by the notice's rule.
func TestComposeDecision_Cut(t *testing.T) {
	for _, c := range []struct {
		name, lines string
		kept, cut   int
		longest     int
	}{
		{"what fits", "a:4096 c:10", 2, 0, 4096},
		{"one text", "a:4097", 1, 0, 4096},
		{"200 events", "a:10 c:10*198 a:10", 200, 0, 10},
		{"consequences go first", "c:10*300 a:10", 200, 101, 10},
		{"acts from the middle", "a:10*300", 200, 100, 10},
		{"flushes from the middle, by number", "f:10*300", 200, 100, 10},
		{"bytes", "a:10 c:4000*100 a:10", 33, 69, 4000},
		{"flushes are shortened, and all stay", "f:4000*100", 100, 0, 1205},
	} {
		t.Run(c.name, func(t *testing.T) {
			members, bodies := window(lines(t, c.lines))
			d := engine.ComposeDecision("s", &engine.Settled{}, members, &engine.Verdict{Route: engine.Queue}, bodies)
			longest := 0
			for _, e := range d.Events {
				longest = max(longest, len(e.Text))
			}
			if len(d.Events) != c.kept || d.Cut != c.cut || longest > c.longest || longest < c.longest*9/10 {
				t.Errorf("kept %d, cut %d, longest %d; want %d, %d, %d", len(d.Events), d.Cut, longest, c.kept, c.cut, c.longest)
			}
			if d.Events[len(d.Events)-1].Position != members[len(members)-1].Position {
				t.Error("the newest event is missing")
			}
		})
	}
}

// However hostile the text, the events of a decision stay within their bounds
// as JSON, in order, and what is missing is counted.
func TestLaw_ComposedEventsAreBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := make([]engine.Line, rapid.IntRange(1, 250).Draw(t, "events"))
		length := rapid.IntRange(0, 1000).Draw(t, "length")
		kinds := rapid.SliceOfN(rapid.SampledFrom(engine.Kinds()), 1, 7).Draw(t, "kinds")
		characters := rapid.SliceOfN(rapid.SampledFrom([]string{"z", "\x00", "\"", "<", "é", "\u2028"}), 1, 3).Draw(t, "characters")
		for i := range in {
			in[i] = engine.Line{
				Kind: kinds[i%len(kinds)], Name: strings.Repeat("n", 1+i%256),
				Text: strings.Repeat(characters[i%len(characters)], length),
			}
		}
		members, bodies := window(in)
		d := engine.ComposeDecision("s", &engine.Settled{}, members, &engine.Verdict{Route: engine.Queue}, bodies)
		b, err := json.Marshal(d.Events)
		if err != nil {
			t.Fatalf("%v", err)
		}
		if len(b) > engine.ViewBytes || len(d.Events) > engine.ViewEvents || len(d.Events)+d.Cut != len(in) || len(d.Events) == 0 {
			t.Fatalf("%d bytes, %d events and %d cut, of %d", len(b), len(d.Events), d.Cut, len(in))
		}
		for i := 1; i < len(d.Events); i++ {
			if d.Events[i].Position <= d.Events[i-1].Position {
				t.Fatalf("events out of order")
			}
		}
	})
}

func TestComposeDeadLetter(t *testing.T) {
	members, bodies := window(lines(t, "c:10*300 a:10"))
	d := &engine.DeadLetter{ID: "d", Kind: "deadLetter", Stage: engine.StageJudge, Members: members}
	engine.ComposeDeadLetter(d, bodies)
	if len(d.Events) != 200 || d.Cut != 101 || d.Events[199].ID != "id-300" {
		t.Errorf("%d events, %d cut", len(d.Events), d.Cut)
	}
}

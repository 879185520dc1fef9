package field_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"attend/internal/field"
)

var (
	names   = []string{"kelp", "gull", "mara", "tern", ""}
	roles   = []string{"pilot", "senior pilot", "Pilot", "market pilot analyst", "cook"}
	someone = []string{"kelp", "gull", "mara", "tern"}
	topics  = []any{"reef", "bay", 5.0, true, nil, "absent"}
)

// life draws what agents do, and keeps what a plain reader of the log knows.
type life struct {
	*world
	drafts []string
	all    []string
	roles  map[string]string
}

func liveOn(t *rapid.T, set field.Settings, most int) *life {
	l := &life{world: newWorld(nil, set), roles: make(map[string]string)}
	for range rapid.IntRange(0, most).Draw(t, "ops") {
		l.step(t)
	}
	return l
}

func drawPayload(t *rapid.T) string {
	var parts []string
	switch topic := rapid.SampledFrom(topics).Draw(t, "topic"); topic {
	case "absent":
	default:
		parts = append(parts, `"topic":`+encoded(topic))
	}
	for _, key := range []string{"a", "b"} {
		if v := rapid.SampledFrom([]string{"", "", "1", "2", "null", `"1"`, "{}", `{"x":1}`, "[1]"}).Draw(t, "value"); v != "" {
			parts = append(parts, `"`+key+`":`+v)
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func encoded(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// step draws one operation that changes, and runs it.
func (l *life) step(t *rapid.T) {
	intent := strings.Repeat("i", rapid.SampledFrom([]int{10, 20, 49, 50, 90}).Draw(t, "intent"))
	agent := rapid.SampledFrom(names).Draw(t, "agent")
	op := rapid.SampledFrom([]field.Op{
		field.OpWrite, field.OpWrite, field.OpWrite, field.OpWrite, field.OpWrite, field.OpDraft, field.OpCommit,
		field.OpDiscard, field.OpRetract, field.OpSupersede, field.OpRegister, field.OpDeregister,
	}).Draw(t, "op")
	var params map[string]any
	switch op {
	case field.OpWrite, field.OpDraft:
		params = map[string]any{"entry": json.RawMessage(drawPayload(t)), "intent": intent, "agent": agent}
	case field.OpCommit:
		params = map[string]any{"draft_id": pick(t, l.drafts)}
	case field.OpDiscard:
		params = map[string]any{"draft_id": pick(t, l.drafts), "intent": intent}
	case field.OpRetract:
		params = map[string]any{"id": pick(t, l.all), "intent": intent, "agent": agent}
	case field.OpSupersede:
		params = map[string]any{"superseding_id": pick(t, l.all), "entry": json.RawMessage(drawPayload(t)), "intent": intent, "agent": agent}
	case field.OpRegister:
		params = map[string]any{"id": agent, "role": rapid.SampledFrom(roles).Draw(t, "role")}
	default:
		params = map[string]any{"id": agent}
	}
	l.run(t, op, encoded(params))
}

// run is try, under rapid. The clock may go back, or stand.
func (l *life) run(t *rapid.T, op field.Op, params string) {
	l.now += rapid.Int64Range(-2, 3).Draw(t, "clock")
	d, err := l.state.Decide(op, json.RawMessage(params), l.set, field.Draw{Now: l.now, ID: fmt.Sprint("e", l.made)})
	var refused *field.Error
	switch {
	case errors.As(err, &refused):
		return
	case err != nil:
		t.Fatalf("%s %s: %v", op, params, err)
	case d.Change == nil:
		return
	}
	if err := l.state.Apply(d.Change); err != nil {
		t.Fatalf("%s %s: %v", op, params, err)
	}
	c := d.Change
	l.log = append(l.log, c)
	switch c.Kind {
	case field.KindDrafted:
		l.drafts = append(l.drafts, c.ID)
		l.made++
	case field.KindWritten, field.KindSuperseded:
		l.all = append(l.all, c.ID)
		l.made++
	case field.KindCommitted:
		l.all = append(l.all, c.ID)
	case field.KindRegistered:
		l.roles[c.Agent] = c.Role
	case field.KindDeregistered:
		delete(l.roles, c.Agent)
	default:
	}
}

func pick(t *rapid.T, from []string) string {
	if len(from) == 0 {
		return "none"
	}
	return rapid.SampledFrom(from).Draw(t, "which")
}

// naive is the same Field for the plain way.
func (l *life) naive(t *rapid.T) *naive {
	n := &naive{
		roles: l.roles, mode: l.set.Mode, entries: everything(t, l.state, ""),
		decoded: make(map[string]map[string]any),
	}
	for _, id := range l.drafts {
		if e, ok := l.state.Draft(id); ok {
			n.entries = append(n.entries, e)
		}
	}
	return n
}

func everything(t *rapid.T, s *field.State, caller string) []field.Entry {
	q, err := field.ParseQuery(field.OpRead, json.RawMessage(fmt.Sprintf(`{"limit":10000,"caller":%q}`, caller)), gradedMode)
	if err != nil {
		t.Fatal(err)
	}
	page, err := s.Read(q)
	if err != nil {
		t.Fatal(err)
	}
	return page.Entries
}

func drawAsk(t *rapid.T) ask {
	q := ask{
		Agent:     rapid.SampledFrom(append(someone, "stranger")).Draw(t, "asker"),
		Topic:     rapid.SampledFrom([]any{nil, nil, "reef", "bay", 5.0, true, "nowhere"}).Draw(t, "topic"),
		MaxUnits:  rapid.SampledFrom([]int{0, 1, 2, 5, 20, 100}).Draw(t, "units"),
		OnlyTopic: rapid.Bool().Draw(t, "only"),
	}
	if rapid.Bool().Draw(t, "with role") {
		role := rapid.SampledFrom(append(roles, "")).Draw(t, "role")
		q.Role = &role
	}
	return q
}

func drawSettings(t *rapid.T) field.Settings {
	return rapid.SampledFrom([]field.Settings{gradedMode, referenceMode}).Draw(t, "settings")
}

// What is found by blocks and bounds is what a full sort gives, and so are the
// conflicts in it.
func TestLaw_AttuneIsTheFullSort(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := liveOn(t, drawSettings(t), 120)
		plain := l.naive(t)
		for range 4 {
			q := drawAsk(t)
			same(t, l, plain, q)
		}
	})
}

// The same in a Field of many blocks, where bounds have something to pass over.
func TestLaw_AttuneIsTheFullSortOfMany(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		set := drawSettings(t)
		l := &life{world: newWorld(nil, set), roles: make(map[string]string)}
		seed := rapid.Uint64().Draw(t, "seed")
		next := func(n int) int { // a plain generator: rapid draws too slowly for this many
			seed = seed*6364136223846793005 + 1442695040888963407
			return int(seed>>33) % n
		}
		rare := rapid.IntRange(1, 400).Draw(t, "rare")
		for i := range 700 {
			agent, intent := "kelp", 20+next(rapid.SampledFrom([]int{1, 1, 40}).Draw(t, "intents"))
			if next(rare) == 0 {
				agent = names[1+next(4)]
			}
			topic := []string{"reef", "bay", "cove"}[min(next(6), 2)]
			c := &field.Change{
				Kind: field.KindWritten, At: int64(i), Epoch: int64(i), ID: fmt.Sprint("e", i), Agent: agent,
				Intent: strings.Repeat("i", intent), Entry: json.RawMessage(fmt.Sprintf(`{"topic":%q,"a":%d}`, topic, next(3))),
			}
			if err := l.state.Apply(c); err != nil {
				t.Fatal(err)
			}
			l.all = append(l.all, c.ID)
		}
		l.made = 700
		for range rapid.IntRange(0, 40).Draw(t, "ops") {
			l.step(t)
		}
		plain := l.naive(t)
		for range 3 {
			same(t, l, plain, drawAsk(t))
		}
	})
}

func same(t *rapid.T, l *life, plain *naive, q ask) {
	parsed, err := field.ParseQuery(field.OpReckon, json.RawMessage(encoded(q)), l.set)
	if err != nil {
		t.Fatal(err)
	}
	got, conflicts, more := l.state.Reckon(parsed, l.set)
	if diff := cmp.Diff(got, l.state.Attune(parsed, l.set)); diff != "" {
		t.Fatalf("%s: attune is not what reckon gives:\n%s", encoded(q), diff)
	}
	for i := range got {
		check(t, l.set, q, &got[i])
		got[i].Reason.Summary = ""
	}
	want := plain.attune(q)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s %s (-full sort +got):\n%s", l.set.Mode, encoded(q), diff)
	}
	pairs := make([]conflict, len(conflicts))
	for i, c := range conflicts {
		pairs[i] = conflict{c.A.ID, c.B.ID, c.Keys}
	}
	if diff := cmp.Diff(plain.conflicts(want), pairs); diff != "" || more {
		t.Fatalf("%s: conflicts (-plain +got):\n%s", encoded(q), diff)
	}
}

// check holds one entry of a result against what may be in it at all.
func check(t *rapid.T, set field.Settings, q ask, e *field.Scored) {
	c := e.Reason.Components
	switch {
	case e.Status == field.StatusDraft && e.Agent != q.Agent:
		t.Fatalf("%s is given a draft of %s", q.Agent, e.Agent)
	case e.Status == field.StatusCommitted && e.Agent == q.Agent:
		t.Fatalf("%s is given its own entry", q.Agent)
	case e.Status == field.StatusRetracted || e.Status == field.StatusSuperseded:
		t.Fatalf("%s is given what is %s", q.Agent, e.Status)
	case e.Score < 0 || e.Score > 1 || e.Score != min(((c.Topic+c.Role)+c.Recency)+c.Intent, 1):
		t.Fatalf("score %v of %+v", e.Score, c)
	case c.Topic != 0 && c.Topic != 0.6, c.Role < 0, c.Role > 0.2, c.Recency < 0, c.Recency > 0.15, c.Intent < 0, c.Intent > 0.05:
		t.Fatalf("components %+v", c)
	case e.Reason.Summary == "" || set.Mode == field.Reference != strings.Contains(e.Reason.Summary, "(") && !strings.HasPrefix(e.Reason.Summary, "no "):
		t.Fatalf("%s: summary %q", set.Mode, e.Reason.Summary)
	}
}

// Folding the encoded changes, from the start or from any place, gives the
// state that deciding gave.
func TestLaw_FoldIsTheState(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := liveOn(t, drawSettings(t), 60)
		folded := field.NewState()
		prefix := rapid.IntRange(0, len(l.log)).Draw(t, "prefix")
		for i, c := range l.log {
			if i >= prefix {
				body, err := c.Encode()
				if err != nil {
					t.Fatal(err)
				}
				if c, err = field.DecodeChange(field.Format, body); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(l.log[i], c); diff != "" {
					t.Fatalf("change %d (-decided +decoded):\n%s", i+1, diff)
				}
			}
			if err := folded.Apply(c); err != nil {
				t.Fatal(err)
			}
		}
		if a, b := portrait(t, l.state), portrait(t, folded); a != b {
			t.Fatalf("states differ:\n%s\n%s", a, b)
		}
		if folded.Number() != int64(len(l.log)) {
			t.Fatalf("%d changes, number %d", len(l.log), folded.Number())
		}
	})
}

// portrait shows everything about a state that can be seen.
func portrait(t *rapid.T, s *field.State) string {
	out := fmt.Sprintln(s.Number(), s.Epoch(), s.Len())
	for _, agent := range someone {
		out += encoded(everything(t, s, agent)) + "\n"
		for _, set := range []field.Settings{gradedMode, referenceMode} {
			for _, params := range []string{`{"agent":%q}`, `{"agent":%q,"topic":"reef","role":"pilot"}`} {
				q, err := field.ParseQuery(field.OpReckon, json.RawMessage(fmt.Sprintf(params, agent)), set)
				if err != nil {
					t.Fatal(err)
				}
				result, err := s.Answer(q, set)
				if err != nil {
					t.Fatal(err)
				}
				out += encoded(result) + "\n"
			}
		}
	}
	return out
}

// Epochs rise along the list, but for drafts that were discarded; timestamps
// never fall from change to change; links hold at both ends.
func TestLaw_OrderOfTheList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := liveOn(t, drawSettings(t), 60)
		last := int64(-1)
		for _, e := range everything(t, l.state, "") {
			linked(t, l.state, &e)
			if e.Status == field.StatusRetracted && e.RetractIntent == "" {
				continue
			}
			if e.Epoch <= last {
				t.Fatalf("epoch %d after %d", e.Epoch, last)
			}
			last = e.Epoch
		}
		at := int64(0)
		for _, c := range l.log {
			if c.At < at {
				t.Fatalf("a change at %d after one at %d", c.At, at)
			}
			at = c.At
		}
	})
}

// linked checks that what is superseded, and nothing else, names a successor,
// which names it.
func linked(t *rapid.T, s *field.State, e *field.Entry) {
	next, ok := s.Entry(e.SupersededBy)
	if ok != (e.Status == field.StatusSuperseded) || ok && next.Supersedes != e.ID {
		t.Fatalf("%s is %s, its successor is %q, which supersedes %q", e.ID, e.Status, e.SupersededBy, next.Supersedes)
	}
	if e.Supersedes == "" {
		return
	}
	if before, _ := s.Entry(e.Supersedes); before.SupersededBy != e.ID {
		t.Fatalf("%s supersedes %s, which %q does", e.ID, e.Supersedes, before.SupersededBy)
	}
}

// Who writes first changes which of the two is a, and nothing else.
func TestLaw_ReckonIsSymmetric(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		set := drawSettings(t)
		one, two := drawPayload(t), drawPayload(t)
		reckon := func(first, second string) []field.Conflict {
			s := field.NewState()
			for i, payload := range []string{first, second} {
				if err := s.Apply(&field.Change{Kind: field.KindWritten, Epoch: int64(i), ID: fmt.Sprint(i), Intent: intent20, Entry: json.RawMessage(payload)}); err != nil {
					t.Fatal(err)
				}
			}
			q, err := field.ParseQuery(field.OpReckon, json.RawMessage(`{"agent":"mara","deep":true}`), set)
			if err != nil {
				t.Fatal(err)
			}
			_, conflicts, _ := s.Reckon(q, set)
			return conflicts
		}
		a, b := reckon(one, two), reckon(two, one)
		if len(a) != len(b) || len(a) > 1 {
			t.Fatalf("%s and %s: %d and %d conflicts", one, two, len(a), len(b))
		}
		for i := range a {
			if diff := cmp.Diff(append(a[i].Keys, a[i].Paths...), append(b[i].Keys, b[i].Paths...)); diff != "" {
				t.Fatalf("%s and %s:\n%s", one, two, diff)
			}
			if a[i].A.ID != "1" || b[i].A.ID != "1" {
				t.Fatalf("a is %s and %s: want the later", a[i].A.ID, b[i].A.ID)
			}
		}
	})
}

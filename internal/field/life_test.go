package field_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

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

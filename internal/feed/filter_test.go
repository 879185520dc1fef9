package feed

import (
	"testing"

	"attend/internal/engine"
)

func TestFilter_Match(t *testing.T) {
	number := func(f float64) *float64 { return &f }
	decision := func(scope string, route engine.Route, confidence *float64, changed ...engine.Change) Item {
		return Item{Scope: scope, Decision: &engine.Decision{Scope: scope, Route: route, Confidence: confidence, Changed: changed}}
	}
	letter := Item{Scope: "chat/1", DeadLetter: &engine.DeadLetter{Scope: "chat/1"}}
	agent := Filter{Routes: DefaultRoutes()}
	both := Filter{Kinds: []Kind{KindDecision, KindDeadLetter}}
	sure := Filter{MinConfidence: number(0.8)}

	for _, c := range []struct {
		name   string
		filter Filter
		item   Item
		want   bool
	}{
		{"zero: interrupt", Filter{}, decision("a", engine.Interrupt, nil), true},
		{"zero: skip", Filter{}, decision("a", engine.Skip, nil), true},
		{"zero: never wait", Filter{}, decision("a", engine.Wait, nil), false},
		{"zero: no dead letter", Filter{}, letter, false},
		{"agent: queue", agent, decision("a", engine.Queue, nil), true},
		{"agent: note", agent, decision("a", engine.Note, nil), true},
		{"agent: ask", agent, decision("a", engine.Ask, nil), true},
		{"agent: no skip", agent, decision("a", engine.Skip, nil), false},
		{"skip asked for", Filter{Routes: []engine.Route{engine.Skip}}, decision("a", engine.Skip, nil), true},
		{"skip asked for: nothing else", Filter{Routes: []engine.Route{engine.Skip}}, decision("a", engine.Queue, nil), false},
		{"wait asked for: still never", Filter{Routes: []engine.Route{engine.Wait}}, decision("a", engine.Wait, nil), false},

		{"scope: exact", Filter{Scopes: []string{"chat/1"}}, decision("chat/1", engine.Queue, nil), true},
		{"scope: other", Filter{Scopes: []string{"chat/1"}}, decision("chat/10", engine.Queue, nil), false},
		{"scope: glob crosses slashes", Filter{Scopes: []string{"chat*"}}, decision("chat/a/b", engine.Queue, nil), true},
		{"scope: one of several", Filter{Scopes: []string{"x", "chat/?"}}, decision("chat/1", engine.Queue, nil), true},
		{"scope: escaped star", Filter{Scopes: []string{`a\*`}}, decision("ab", engine.Queue, nil), false},
		{"scope: not visible", Filter{Visible: func(s string) bool { return s != "a" }}, decision("a", engine.Queue, nil), false},
		{"scope: visible", Filter{Visible: func(s string) bool { return s == "a" }}, decision("a", engine.Queue, nil), true},

		{"both kinds: decision", both, decision("a", engine.Queue, nil), true},
		{"both kinds: dead letter", both, letter, true},
		{"dead letters alone", Filter{Kinds: []Kind{KindDeadLetter}}, decision("a", engine.Queue, nil), false},
		{"dead letter: routes do not concern it", Filter{Kinds: []Kind{KindDeadLetter}, Routes: DefaultRoutes()}, letter, true},
		{"dead letter: confidence does not concern it", Filter{Kinds: []Kind{KindDeadLetter}, MinConfidence: number(1)}, letter, true},
		{"dead letter: scope does", Filter{Kinds: []Kind{KindDeadLetter}, Scopes: []string{"b"}}, letter, false},

		{"confidence: equal", sure, decision("a", engine.Queue, number(0.8)), true},
		{"confidence: lower", sure, decision("a", engine.Queue, number(0.79)), false},
		{"confidence: unknown", sure, decision("a", engine.Queue, nil), false},
		{"confidence: unknown, asked for none", Filter{MinConfidence: number(0)}, decision("a", engine.Queue, nil), false},
		{"confidence: raised by the floor", sure, decision("a", engine.Queue, number(0.1), engine.ChangedByFloor), true},
		{"confidence: raised, unknown", sure, decision("a", engine.Queue, nil, engine.ChangedByThreshold, engine.ChangedByFloor), true},
		{"confidence: changed otherwise", sure, decision("a", engine.Queue, number(0.1), engine.ChangedByOverride), false},
		{"raised, but another route", Filter{MinConfidence: number(0.8), Routes: []engine.Route{engine.Interrupt}}, decision("a", engine.Queue, nil, engine.ChangedByFloor), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.filter.Match(&c.item); got != c.want {
				t.Errorf("got %t, want %t", got, c.want)
			}
		})
	}
}

func TestFilter_Check(t *testing.T) {
	number := func(f float64) *float64 { return &f }
	for name, c := range map[string]struct {
		filter Filter
		ok     bool
	}{
		"zero":           {Filter{}, true},
		"whole":          {Filter{Scopes: []string{"*"}, Routes: []engine.Route{engine.Skip}, MinConfidence: number(1)}, true},
		"empty pattern":  {Filter{Scopes: []string{""}}, false},
		"long pattern":   {Filter{Scopes: []string{string(make([]byte, 513))}}, false},
		"wait":           {Filter{Routes: []engine.Route{engine.Queue, engine.Wait}}, false},
		"too confident":  {Filter{MinConfidence: number(1.01)}, false},
		"less than none": {Filter{MinConfidence: number(-0.01)}, false},
	} {
		if err := c.filter.Check(); (err == nil) != c.ok {
			t.Errorf("%s: got %v, want ok %t", name, err, c.ok)
		}
	}
}

func TestParseKind(t *testing.T) {
	for s, ok := range map[string]bool{"decision": true, "deadLetter": true, "Decision": false, "": false, "dead": false} {
		if _, err := ParseKind(s); (err == nil) != ok {
			t.Errorf("%q: got %v, want ok %t", s, err, ok)
		}
	}
}

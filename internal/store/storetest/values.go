package storetest

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"attend/internal/engine"
	"attend/internal/store"
)

// strange are strings that some store might not give back as they were.
func strange() []string {
	return []string{
		"żółw", "日本語", "🦀👩‍👩‍👧", "e\u0301", "\u00e9", // both forms of é
		"a b", " a", "a ", "A", "a", "a'b", `a"b`, "a%b", "a_b", "a\\b", "a\nb", "\u202e",
		"a\x00b", "a\x00c", "\x00", "a\x00", "\xff", "a\xffb", "\xed\xa0\x80",
		"NULL", "0", "01", "1e3", "x'00'", strings.Repeat("é", 256),
	}
}

func valueCases() []testCase {
	return []testCase{
		{"EveryFieldOfAnEventIsKept", func(e *env) {
			zero, past, far := engine.Time(0), engine.Time(-1), engine.Time(math.MaxInt64)
			in := []store.NewEvent{
				event("a", "1"),
				{Scope: "a", Event: engine.Event{ID: "2", Name: "n", Kind: engine.Flush}},
				{Scope: "a", Event: engine.Event{ID: "3", Name: "n", Kind: engine.Context, Policy: math.MaxUint32, At: &zero}},
				{Scope: "a", Event: engine.Event{ID: "4", Name: "n", Kind: engine.Closing, At: &past, Data: []byte("null")}},
				{Scope: "a", Event: engine.Event{ID: "5", Name: "n", Kind: engine.Consequence, At: &far, Data: []byte(` { "n" : 12345678901234567890123, "n":1e400 } `)}},
			}
			e.write(store.Entry{Events: in})
			for i, r := range e.log(0, 10) {
				e.same(fmt.Sprintf("event %d", i), *r.Event, in[i].Event)
			}
		}},
		{"EveryKindOfStepIsKept", func(e *env) {
			in := stepsOfEveryKind()
			e.write(store.Entry{Steps: in, Scope: "a", Fence: e.own()})
			for i, r := range e.log(0, 100) {
				e.same("step "+string(in[i].Kind), *r.Step, in[i])
				if r.Event != nil || r.Scope != "a" {
					e.Errorf("step %s: %+v", in[i].Kind, r)
				}
			}
		}},
		{"StringsAreKeptByteForByte", stringsAreKeptByteForByte},
		{"BigEventsAreKept", func(e *env) {
			big := event("a", "big")
			big.Data = append(append([]byte{'"'}, bytes.Repeat([]byte("x"), 4<<20)...), '"')
			big.Text = strings.Repeat("é", 1<<20)
			e.write(entry("a"), store.Entry{Events: []store.NewEvent{big}}, entry("a"))
			r := e.log(1, 1)[0]
			if !bytes.Equal(r.Event.Data, big.Data) || r.Event.Text != big.Text {
				e.Errorf("4 MiB of data came back as %d bytes, 2 MiB of text as %d", len(r.Event.Data), len(r.Event.Text))
			}
			e.same("head", e.head().Position, engine.Position(3))
		}},
		{"ManyEventsMakeOneEntry", func(e *env) {
			in := store.Entry{Events: events("a", 5000), Steps: []engine.Step{flush(), flush()}, Scope: "a"}
			r := e.write(in, entry("b"))
			if r[0].First != 1 || r[0].Last != 5002 || r[1].First != 5003 {
				e.Errorf("receipts %+v", r)
			}
			log := e.log(0, 1500)
			for i := range log {
				if log[i].Position != engine.Position(i+1) || (i < 5000 && log[i].Event.ID != in.Events[i].ID) {
					e.Fatalf("record %d is %+v", i, log[i])
				}
			}
			e.same("records", len(log), 5003)
		}},
	}
}

// stringsAreKeptByteForByte also sees that no two of them are taken for one.
func stringsAreKeptByteForByte(e *env) {
	fence := e.own()
	for i, s := range strange() {
		ev := event(s, s)
		ev.Name, ev.Text, ev.Data = s, s, []byte(s)
		r := e.write(
			store.Entry{Events: []store.NewEvent{ev}, Puts: []store.Put{{Space: s, Key: s, Value: []byte(s)}}},
			store.Entry{Steps: []engine.Step{flush()}, Scope: s},
		)
		got := e.log(r[0].First-1, 1)[0]
		e.same(fmt.Sprintf("event %q", s), got, engine.Record{Position: r[0].First, Stamp: start, Scope: s, Event: &ev.Event})
		e.same(fmt.Sprintf("steps of scope %q", s), positions(e.steps(store.StepQuery{Scope: s})), []engine.Position{r[1].First})
		row, err := e.s.Row(e.Context(), s, s)
		if err != nil || string(row) != s {
			e.Errorf("row %q: %q, %v", s, row, err)
		}
		if err := e.s.SaveStates(e.Context(), fence, []store.StateRow{{Scope: s, Position: engine.Position(i), Format: engine.Format, Body: []byte(s)}}, 0); err != nil {
			e.Fatalf("save state of %q: %v", s, err)
		}
		st, err := e.s.LoadState(e.Context(), s)
		if err != nil || st.Scope != s || string(st.Body) != s || st.Position != engine.Position(i) {
			e.Errorf("state of %q: %+v, %v", s, st, err)
		}
	}
	names, err := e.s.ScopeNames(e.Context(), "", 1000)
	if err != nil || len(names) != len(strange()) {
		e.Errorf("%d names of scopes, %v; want %d", len(names), err, len(strange()))
	}
}

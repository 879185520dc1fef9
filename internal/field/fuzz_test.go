package field_test

import (
	"encoding/json"
	"errors"
	"testing"

	"attend/internal/field"
)

// seeded is a Field with an entry of each status.
func seeded(t testing.TB) *field.State {
	w := newWorld(t, gradedMode)
	w.register("kelp", "pilot")
	w.write("kelp", `{"topic":"reef","depth":1,"m":{"a":1}}`, intent20)
	w.write("gull", `{"topic":"reef","depth":2,"m":{"a":2}}`, intent60)
	w.draft("mara", `{"topic":"reef","depth":3}`)
	w.write("gull", `{}`, intent20)
	w.do(field.OpRetract, `{"id":"e4","agent":"gull","intent":"it was wrong"}`)
	w.do(field.OpSupersede, `{"superseding_id":"e1","entry":{"topic":"reef","depth":4},"agent":"kelp","intent":"it is better known"}`)
	return w.state
}

// Whatever the parameters, an operation is refused with one of the codes, or
// what it decided can be kept, read and applied.
func FuzzDecide(f *testing.F) {
	for i, params := range []string{
		`{"id":"kelp","role":"pilot","capabilities":["a"]}`, `{"id":"kelp"}`, `{"entry":{"topic":1},"intent":"0123456789","agent":"kelp"}`,
		`{"query":{"topic":"reef","m":{"a":1}},"caller":"mara"}`, `{"agent":"mara","topic":"reef","role":"pilot","max_units":2}`,
		`{"agent":"mara","deep":true,"conflictsOnly":false}`, `{"entry":{},"intent":"0123456789"}`, `{"draft_id":"e3"}`,
		`{"draft_id":"e3","intent":"0123456789"}`, `{"id":"e2","agent":"gull","intent":"0123456789"}`,
		`{"superseding_id":"e1","entry":{},"agent":"kelp","intent":"0123456789"}`,
		`{"id":"\ud800","role":"pilot"}`, `{"id":"\udc00\ud800"}`, `{"entry":{"a":[{"\ud800":1e400}]},"intent":"0123456789"}`, `{"query":{"a":"\ud83d\ude00\ud83d"}}`,
	} {
		f.Add(uint8(i), []byte(params), true)
		f.Add(uint8(i), []byte(params), false)
	}
	f.Fuzz(func(t *testing.T, n uint8, params []byte, graded bool) {
		op := field.Ops()[int(n)%len(field.Ops())]
		set := referenceMode
		if graded {
			set = gradedMode
		}
		s := seeded(t)
		d, err := s.Decide(op, params, set, field.Draw{Now: 5, ID: "new"})
		if err != nil {
			var e *field.Error
			if !errors.As(err, &e) || e.Message == "" {
				t.Fatalf("%s %q: %v", op, params, err)
			}
			return
		}
		if _, err := json.Marshal(d.Result); err != nil {
			t.Fatalf("%s %q: %v", op, params, err)
		}
		if d.Change == nil {
			return
		}
		if !op.Changes() {
			t.Fatalf("%s %q changes", op, params)
		}
		body, err := d.Change.Encode()
		if err != nil {
			t.Fatal(err)
		}
		read, err := field.DecodeChange(field.Format, body)
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		s.ConflictsWith(read, 0)
		if err := s.Apply(read); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		reckonOnce(t, s, `{"agent":"mara","deep":true}`)
	})
}

// A damaged log is an error, never more.
func FuzzDecodeChange(f *testing.F) {
	for _, body := range []string{
		`{"kind":"registered","agent":"kelp","role":"pilot"}`, `{"kind":"deregistered","agent":"kelp"}`,
		`{"kind":"written","epoch":9,"id":"e9","agent":"kelp","intent":"x","entry":{"topic":1e999}}`, `{"kind":"drafted","epoch":9,"id":"e9","entry":{}}`,
		`{"kind":"committed","epoch":9,"id":"e3"}`, `{"kind":"discarded","id":"e3","intent":"x"}`,
		`{"kind":"retracted","epoch":9,"id":"e2","intent":"x"}`, `{"kind":"superseded","epoch":9,"id":"e9","old":"e2","entry":{"m":{"a":3}}}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := field.DecodeChange(field.Format, body)
		if err != nil {
			return
		}
		for _, s := range []*field.State{field.NewState(), seeded(t)} {
			before := s.Number()
			if err := s.Apply(c); err != nil && s.Number() != before {
				t.Fatalf("%s: refused, and counted", body)
			}
			if id := c.Commits(); id != "" {
				s.ConflictsOf(id, 0)
			}
			reckonOnce(t, s, `{"agent":"mara","deep":true}`)
		}
	})
}

func FuzzParseQuery(f *testing.F) {
	for _, params := range []string{
		`{"agent":"mara","topic":"reef","role":"pilot","max_units":2,"only_topic":true}`, `{"agent":"mara","topic":-0,"deep":true}`,
		`{"query":{"m":{"a":1},"topic":"reef"},"limit":2,"after":"e1","caller":"mara"}`, `{"agent":"\ud800"}`, `{"max_units":1e400}`,
	} {
		f.Add([]byte(params))
	}
	s := seeded(f)
	f.Fuzz(func(t *testing.T, params []byte) {
		for _, op := range []field.Op{field.OpAttune, field.OpReckon, field.OpRead} {
			for _, set := range []field.Settings{gradedMode, referenceMode} {
				q, err := field.ParseQuery(op, params, set)
				var e *field.Error
				if err == nil {
					_, err = s.Answer(q, set)
				}
				if err != nil && !errors.As(err, &e) {
					t.Fatalf("%s %q: %v", op, params, err)
				}
			}
		}
	})
}

func reckonOnce(t testing.TB, s *field.State, params string) {
	t.Helper()
	q, err := field.ParseQuery(field.OpReckon, json.RawMessage(params), gradedMode)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Answer(q, gradedMode); err != nil {
		t.Fatal(err)
	}
}

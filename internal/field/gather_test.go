package field_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"attend/internal/field"
)

func gathered(t testing.TB, s *field.State, op field.Op, params string) *field.Gathered {
	t.Helper()
	q, err := field.ParseQuery(op, json.RawMessage(params), gradedMode)
	if err != nil {
		t.Fatal(err)
	}
	return s.Gather(q, gradedMode)
}

func never() bool { return false }

// An answer has at most so many bytes, whatever stands in it, and says how much
// is left out.
func TestAnswers_AreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gradedMode)
	odd := strings.Repeat("\x01\u2028", 1000) // six bytes each in JSON
	for i := range 200 {
		w.write("kelp", fmt.Sprintf(`{"topic":"reef","depth":%d,"text":"%s"}`, i, strings.Repeat("x", 64000)), odd)
	}
	bytes := func(what string, result any) int {
		b, err := json.Marshal(result)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > field.MaxAnswer || len(b) < field.MaxAnswer*3/4 {
			t.Errorf("%s has %d bytes, want up to %d", what, len(b), field.MaxAnswer)
		}
		return len(b)
	}
	a := w.do(field.OpAttune, `{"agent":"mara","max_units":200}`).(field.Attuned)
	bytes("attune", a)
	if len(a.Entries)+a.Cut != 200 || a.More {
		t.Errorf("attune gives %d, cut %d, more is %t", len(a.Entries), a.Cut, a.More)
	}
	r := w.reckon(`{"agent":"mara","max_units":100}`)
	bytes("reckon", r)
	if n := len(r.Entries) + len(r.Conflicts); n+r.Cut != 100+100*99/2 || len(r.Entries) < 30 || len(r.Conflicts) < 15 {
		t.Errorf("reckon gives %d entries and %d conflicts, cut %d", len(r.Entries), len(r.Conflicts), r.Cut)
	}
	read, after := 0, ""
	for {
		p := w.read(`{"limit":10000,"after":%q}`, after)
		read += len(p.Entries)
		if !p.More {
			break
		}
		bytes("read", p)
		after = p.Entries[len(p.Entries)-1].ID
	}
	equal(t, "read page by page", fmt.Sprint(read), "200")
}

// What was gathered is of one moment, whatever becomes of the Field.
func TestGather_StandsStill(t *testing.T) {
	w := newWorld(t, gradedMode)
	w.write("kelp", `{"topic":"reef","depth":1}`, intent20)
	w.write("gull", `{"topic":"reef","depth":2}`, intent20)
	want, err := json.Marshal(w.reckon(`{"agent":"mara"}`))
	if err != nil {
		t.Fatal(err)
	}
	g := gathered(t, w.state, field.OpReckon, `{"agent":"mara"}`)
	w.do(field.OpRetract, `{"id":"e1","agent":"kelp","intent":"it was wrong"}`)
	w.write("kelp", `{"topic":"reef","depth":3}`, intent20)
	g.Compare(never)
	g.Fit(field.MaxAnswer)
	got, err := json.Marshal(g.Result())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "the result", string(got), string(want))
}

func TestGather_Stops(t *testing.T) {
	w := newWorld(t, gradedMode)
	for i := range 20 {
		w.write("kelp", fmt.Sprintf(`{"topic":"reef","depth":%d}`, i), intent20)
	}
	for _, after := range []int{0, 10, 20, 30, 209} { // entries are read, then 190 pairs compared
		asked := 0
		stopped := !gathered(t, w.state, field.OpReckon, `{"agent":"mara"}`).Compare(func() bool { asked++; return asked > after })
		if !stopped || asked != after+1 {
			t.Errorf("to stop after %d: stopped is %t after it asked %d times", after, stopped, asked)
		}
	}
	if !gathered(t, w.state, field.OpAttune, `{"agent":"mara"}`).Compare(func() bool { return true }) {
		t.Error("an attune has nothing to stop")
	}
}

// A read may rest between its steps, and gives the same.
func TestReading_InSteps(t *testing.T) {
	w := newWorld(t, gradedMode)
	for i := range 100 {
		w.write("kelp", fmt.Sprintf(`{"topic":"reef","depth":%d,"text":"%s"}`, i%10, strings.Repeat("x", 60000)), intent20)
	}
	w.draft("mara", `{"topic":"reef","depth":7}`)
	w.draft("mara", `{"topic":"reef","depth":7,"second":true}`)
	q, err := field.ParseQuery(field.OpRead, json.RawMessage(`{"query":{"depth":7},"caller":"mara"}`), gradedMode)
	if err != nil {
		t.Fatal(err)
	}
	want, err := w.state.Read(q)
	if err != nil || len(want.Entries) != 12 {
		t.Fatalf("%d entries, %v", len(want.Entries), err)
	}
	r, steps := field.NewReading(q), 0
	for done := false; !done; steps++ {
		if done, err = r.Step(w.state); err != nil {
			t.Fatal(err)
		}
	}
	got, _ := json.Marshal(r.Page())
	whole, _ := json.Marshal(want)
	equal(t, "in steps", string(got), string(whole))
	if steps < 3 {
		t.Errorf("6 MB are read in %d steps", steps)
	}
}

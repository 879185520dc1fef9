package engine_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"attend/internal/engine"
)

type odds = map[engine.Route]float64

// decide runs one answer through everything that may change its route.
func decide(t tester, set engine.Settings, override engine.Override, kind engine.Kind, a engine.Answer, mayWait bool) *engine.Verdict {
	t.Helper()
	w := &engine.Window{ID: "w", Events: engine.Members{{Kind: kind}}, Offered: engine.Offer(mayWait)}
	v, err := engine.Decide(override, &set, w, a)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return v
}

// The act threshold (design, section 5): an act route is taken exactly when
// p(act) / (p(act) + p(skip)) >= T, then the likeliest offered one, ties to the
// judged route, else interrupt, queue, note, ask; else skip.
func TestDecide_Threshold(t *testing.T) {
	const I, Q, N, A, S, W = engine.Interrupt, engine.Queue, engine.Note, engine.Ask, engine.Skip, engine.Wait
	for _, c := range []struct {
		t      float64
		judged engine.Route
		p      odds
		want   engine.Route
	}{
		{0, S, odds{S: 0.1, Q: 0.9}, S}, // off when unset
		{0.4, S, odds{S: 0.6, Q: 0.4}, Q},
		{0.4, Q, odds{S: 0.61, Q: 0.39}, S},
		{0.4, S, odds{S: 0.6, I: 0.1, Q: 0.1, N: 0.1, A: 0.1}, I}, // a tie of all: the fixed order
		{0.4, S, odds{S: 0.6, Q: 0.1, N: 0.15, A: 0.15}, N},
		{0.4, A, odds{S: 0.6, Q: 0.1, N: 0.15, A: 0.15}, A}, // a tie: the judged route
		{0.4, Q, odds{S: 0.6, Q: 0.1, N: 0.15, A: 0.15}, N}, // it is not among the likeliest
		{1, Q, odds{S: 0, Q: 1}, Q},
		{1, Q, odds{S: 0.001, Q: 0.999}, S},
		{0.5, W, odds{W: 0.2, S: 0.8}, W},          // wait, when offered and chosen, stays
		{0.5, S, odds{W: 0.8, S: 0.1, Q: 0.1}, Q},  // wait does not count
		{0.5, Q, odds{W: 1}, Q},                    // nothing on either side
		{0.5, S, odds{W: 1}, S},                    //
		{0.5, S, nil, S},                           // without probabilities the judged route stays
		{0.5, Q, nil, Q},                           //
		{0.5, N, odds{N: 0, S: 0}, N},              // which these are not
		{0.5, N, odds{N: 7, S: -1}, N},             // nor these
		{0.8, Q, odds{I: 0.1, Q: 0.7, S: 0.2}, Q},  // exact in tenths, not in floats
		{0.3, Q, odds{I: 0.1, Q: 0.2, S: 0.7}, Q},  //
		{0.6, Q, odds{I: 0.2, Q: 0.4, S: 0.4}, Q},  //
		{0.7, Q, odds{I: 0.4, Q: 0.3, S: 0.3}, I},  //
		{0.9, N, odds{N: 0.3, Q: 0.6, S: 0.1}, Q},  //
		{0.1, N, odds{N: 0.1, W: 0.0, S: 0.9}, N},  //
		{0.35, N, odds{N: 0.07, Q: 0, S: 0.13}, N}, // not summing to 1
	} {
		set := engine.Defaults()
		set.ActThreshold = c.t
		v := decide(t, set, nil, engine.Closing, engine.Answer{Route: c.judged, Probabilities: c.p}, true)
		changed := v.Route != c.judged
		if v.Route != c.want || v.JudgedRoute != c.judged || changed != (len(v.Changed) == 1) {
			t.Errorf("T %g, judged %s, %v: got %s, changed by %v; want %s", c.t, c.judged, c.p, v.Route, v.Changed, c.want)
		}
	}
}

// Every share of hundredths that reaches the threshold by exact arithmetic is
// taken, and no other.
func TestDecide_ThresholdIsExact(t *testing.T) {
	for T := 1; T <= 100; T++ {
		set := engine.Defaults()
		set.ActThreshold = float64(T) / 100
		for act := 0; act <= 100; act++ {
			for _, first := range []int{0, act / 3} {
				p := odds{engine.Interrupt: float64(first) / 100, engine.Queue: float64(act-first) / 100, engine.Skip: float64(100-act) / 100}
				v := decide(t, set, nil, engine.Closing, engine.Answer{Route: engine.Skip, Probabilities: p}, true)
				if v.Route.Act() != (act >= T) {
					t.Fatalf("T %d %%, acts %d %% (%d and %d): got %s", T, act, first, act-first, v.Route)
				}
			}
		}
	}
}

// What changes a judged route, in this order: override rules, act threshold,
// floor. Each is on the record.
func TestDecide_Order(t *testing.T) {
	to := func(r engine.Route) engine.Override {
		return func(*engine.Window, *engine.Verdict) (engine.Route, bool) { return r, true }
	}
	threshold := engine.Defaults()
	threshold.ActThreshold = 0.5
	for _, c := range []struct {
		name     string
		set      engine.Settings
		override engine.Override
		kind     engine.Kind
		a        engine.Answer
		mayWait  bool
		want     engine.Route
		changed  []engine.Change
	}{
		{"nothing", engine.Defaults(), nil, engine.Closing, engine.Answer{Route: engine.Skip}, true, engine.Skip, nil},
		{"override", engine.Defaults(), to(engine.Ask), engine.Closing, engine.Answer{Route: engine.Skip}, true, engine.Ask, []engine.Change{"override"}},
		{"override to the same", engine.Defaults(), to(engine.Skip), engine.Closing, engine.Answer{Route: engine.Skip}, true, engine.Skip, nil},
		{"override to what was not offered", engine.Defaults(), to(engine.Wait), engine.Closing, engine.Answer{Route: engine.Skip}, false, engine.Skip, nil},
		{"override to wait", engine.Defaults(), to(engine.Wait), engine.Closing, engine.Answer{Route: engine.Skip}, true, engine.Wait, []engine.Change{"override"}},
		{"floor", engine.Defaults(), nil, engine.Flush, engine.Answer{Route: engine.Note}, false, engine.Queue, []engine.Change{"floor"}},
		{"floor passes wait", engine.Defaults(), nil, engine.Flush, engine.Answer{Route: engine.Wait}, true, engine.Wait, nil},
		{"threshold after override", threshold, to(engine.Interrupt), engine.Closing, engine.Answer{Route: engine.Note, Probabilities: odds{engine.Note: 0.2, engine.Skip: 0.8}}, true, engine.Skip, []engine.Change{"override", "threshold"}},
		{"all three", threshold, to(engine.Interrupt), engine.Flush, engine.Answer{Route: engine.Note, Probabilities: odds{engine.Note: 0.2, engine.Skip: 0.8}}, false, engine.Queue, []engine.Change{"override", "threshold", "floor"}},
	} {
		v := decide(t, c.set, c.override, c.kind, c.a, c.mayWait)
		if v.Route != c.want || v.JudgedRoute != c.a.Route || !cmp.Equal(v.Changed, c.changed) {
			t.Errorf("%s: got %s (judged %s) changed by %v; want %s by %v", c.name, v.Route, v.JudgedRoute, v.Changed, c.want, c.changed)
		}
	}
}

// The record names the override that changed the route, and no other.
func TestDecide_NamesTheOverride(t *testing.T) {
	override := func(_ *engine.Window, v *engine.Verdict) (engine.Route, bool) {
		v.Override = "quiet"
		return engine.Note, true
	}
	for judged, want := range map[engine.Route]string{engine.Skip: "quiet", engine.Note: ""} { //arch:sorted each by itself
		if v := decide(t, engine.Defaults(), override, engine.Closing, engine.Answer{Route: judged}, true); v.Override != want {
			t.Errorf("judged %s, the override is %q, want %q", judged, v.Override, want)
		}
	}
}

// The floor's table: skip < note < queue = ask < interrupt; the highest floor
// of the kinds in the window counts.
func TestDecide_Floor(t *testing.T) {
	routes := []engine.Route{engine.Skip, engine.Note, engine.Queue, engine.Ask, engine.Interrupt}
	rank := map[engine.Route]int{engine.Skip: 0, engine.Note: 1, engine.Queue: 2, engine.Ask: 2, engine.Interrupt: 3}
	for _, floor := range routes {
		for _, judged := range routes {
			set := engine.Defaults()
			set.Floor = engine.Floor{engine.Passive: floor, engine.Context: engine.Skip}
			w := &engine.Window{Events: engine.Members{{Kind: engine.Context}, {Kind: engine.Passive}}, Offered: engine.Offer(true)}
			v, err := engine.Decide(nil, &set, w, engine.Answer{Route: judged})
			want := judged
			if rank[judged] < rank[floor] {
				want = floor
			}
			if err != nil || v.Route != want {
				t.Errorf("floor %s, judged %s: got %s, %v; want %s", floor, judged, v.Route, err, want)
			}
		}
	}
}

// Numbers of an answer (design, section 5, 12).
func TestDecide_Numbers(t *testing.T) {
	half, two, nan := 0.5, 2.0, math.NaN()
	for _, c := range []struct {
		name       string
		a          engine.Answer
		mayWait    bool
		p          engine.Probabilities // interrupt, queue, note, ask, skip, wait
		predicates map[string]float64
		confidence *float64
	}{
		{"none", engine.Answer{Route: engine.Note}, true, engine.Probabilities{2: 1}, nil, nil},
		{"as they are", engine.Answer{Route: engine.Note, Probabilities: odds{engine.Note: 0.75, engine.Wait: 0.25}}, true, engine.Probabilities{2: 0.75, 5: 0.25}, nil, nil},
		{"not offered", engine.Answer{Route: engine.Note, Probabilities: odds{engine.Note: 0.25, engine.Queue: 0.25, engine.Wait: 0.5}}, false, engine.Probabilities{1: 0.5, 2: 0.5}, nil, nil},
		{"not summing to 1", engine.Answer{Route: engine.Note, Probabilities: odds{engine.Note: 1, engine.Skip: 1}}, true, engine.Probabilities{2: 0.5, 4: 0.5}, nil, nil},
		{"out of range", engine.Answer{Route: engine.Note, Probabilities: odds{engine.Note: 1.5, engine.Skip: 0.5, engine.Ask: -1, engine.Queue: nan}}, true, engine.Probabilities{4: 1}, nil, nil},
		{"sum 0", engine.Answer{Route: engine.Ask, Probabilities: odds{engine.Note: 0, engine.Wait: 1}}, false, engine.Probabilities{3: 1}, nil, nil},
		{"predicates", engine.Answer{Route: engine.Ask, Predicates: map[string]float64{"a": 0, "b": 1, "c": 1.01, "d": -0.1, "e": nan, "f": math.Inf(1)}}, true, engine.Probabilities{3: 1}, map[string]float64{"a": 0, "b": 1}, nil},
		{"confidence", engine.Answer{Route: engine.Ask, Confidence: &half}, true, engine.Probabilities{3: 1}, nil, &half},
		{"confidence out of range", engine.Answer{Route: engine.Ask, Confidence: &two}, true, engine.Probabilities{3: 1}, nil, nil},
		{"confidence no number", engine.Answer{Route: engine.Ask, Confidence: &nan}, true, engine.Probabilities{3: 1}, nil, nil},
	} {
		v := decide(t, engine.Defaults(), nil, engine.Closing, c.a, c.mayWait)
		if v.Route != c.a.Route || *v.Probabilities != c.p || !cmp.Equal(v.Predicates, c.predicates) || !cmp.Equal(v.Confidence, c.confidence) {
			t.Errorf("%s: got %+v %v", c.name, v, *v.Probabilities)
		}
	}
}

// Only the route can fail an answer.
func TestDecide_RouteNotOffered(t *testing.T) {
	set := engine.Defaults()
	w := &engine.Window{Events: engine.Members{{Kind: engine.Closing}}, Offered: engine.Offer(false)}
	for _, route := range []engine.Route{0, engine.Wait, 7, 255} {
		if v, err := engine.Decide(nil, &set, w, engine.Answer{Route: route}); err == nil {
			t.Errorf("%v is taken: %+v", route, v)
		}
	}
}

// Whatever a judge says, the probabilities sum to 1 over the offered routes.
func TestLaw_ProbabilitiesSumToOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := engine.Answer{Route: oneOf(t, "route", engine.Routes()[:5]...), Probabilities: make(odds)}
		for _, r := range engine.Routes() {
			if rapid.Bool().Draw(t, "given") {
				a.Probabilities[r] = rapid.Float64().Draw(t, fmt.Sprint(r))
			}
		}
		mayWait := rapid.Bool().Draw(t, "mayWait")
		set := engine.Defaults()
		set.ActThreshold = oneOf(t, "threshold", 0, 0.3, 1)
		v := decide(t, set, nil, engine.Closing, a, mayWait)
		sum := 0.0
		for _, p := range v.Probabilities {
			if !(p >= 0 && p <= 1) {
				t.Fatalf("%v of %v", p, a)
			}
			sum += p
		}
		if math.Abs(sum-1) > 1e-9 || !mayWait && v.Probabilities.Of(engine.Wait) != 0 {
			t.Fatalf("%v of %v", v.Probabilities, a)
		}
	})
}

// The rule judge (design, section 5, 17).
func TestRuleJudge(t *testing.T) {
	for _, reason := range engine.Reasons() {
		want := engine.Queue
		if reason == engine.ReasonFlush {
			want = engine.Interrupt
		}
		if got := engine.RuleJudge(&engine.Window{Reason: reason}).Route; got != want {
			t.Errorf("%s: %s", reason, got)
		}
	}
}

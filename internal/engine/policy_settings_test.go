package engine_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
)

// The defaults, as the design lists them (section 5).
func TestDefaults(t *testing.T) {
	got, err := json.Marshal(engine.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"closingGraceMs":2000,"streamGapMs":1500,"passiveQuietMs":10000,"maxWindowMs":30000,"maxEvents":200,` +
		`"waitHorizonMs":60000,"maxWaits":3,"judgeTimeoutMs":20000,"captureTimeoutMs":500,"contextTimeoutMs":2000,` +
		`"retryBackoffMs":[1000,5000,15000,60000],"retryJitter":0.2,"deliveryTimeoutMs":30000,"recentCount":8,` +
		`"maxOutbox":1000,"maxDeadLetters":1000,"dedupMs":86400000,"dedupIds":65536,"maxEventBytes":1048576,` +
		`"maxWindowBytes":4194304,"floor":{"flush":"queue"}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	set := engine.Defaults()
	if err := set.Check(); err != nil {
		t.Error(err)
	}
}

// 0 is legal for every time but the timeouts (at least 1); maxEvents is at
// least 1; the threshold is in (0, 1].
func TestSettings_Check(t *testing.T) {
	legal := func(name string, change func(*engine.Settings)) {
		t.Helper()
		s := engine.Defaults()
		change(&s)
		if err := s.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	legal("zeros", func(s *engine.Settings) {
		s.ClosingGraceMs, s.StreamGapMs, s.PassiveQuietMs, s.MaxWindowMs, s.WaitHorizonMs, s.MaxWaits = 0, 0, 0, 0, 0, 0
		s.RetryBackoffMs, s.RetryJitter, s.RecentCount, s.DedupMs, s.DedupIDs = []int64{0}, 0, 0, 0, 0
	})
	legal("ones", func(s *engine.Settings) {
		s.JudgeTimeoutMs, s.CaptureTimeoutMs, s.ContextTimeoutMs, s.DeliveryTimeoutMs, s.MaxEvents, s.MaxEventBytes, s.MaxWindowBytes = 1, 1, 1, 1, 1, 1, 1
		s.RetryJitter, s.ActThreshold = 1, 1
	})
	legal("no rungs, no floor", func(s *engine.Settings) { s.RetryBackoffMs, s.Floor = nil, nil })
	legal("ten years", func(s *engine.Settings) { s.MaxWindowMs = 10 * 366 * 24 * 3600 * 1000 })

	for name, change := range map[string]func(*engine.Settings){
		"closingGraceMs":       func(s *engine.Settings) { s.ClosingGraceMs = -1 },
		"streamGapMs":          func(s *engine.Settings) { s.StreamGapMs = -1 },
		"passiveQuietMs":       func(s *engine.Settings) { s.PassiveQuietMs = -1 },
		"maxWindowMs":          func(s *engine.Settings) { s.MaxWindowMs = 1 << 62 }, // added to a stamp it would come out before it
		"maxEvents":            func(s *engine.Settings) { s.MaxEvents = 0 },
		"waitHorizonMs":        func(s *engine.Settings) { s.WaitHorizonMs = -1 },
		"maxWaits":             func(s *engine.Settings) { s.MaxWaits = -1 },
		"judgeTimeoutMs":       func(s *engine.Settings) { s.JudgeTimeoutMs = 0 },
		"captureTimeoutMs":     func(s *engine.Settings) { s.CaptureTimeoutMs = 0 },
		"contextTimeoutMs":     func(s *engine.Settings) { s.ContextTimeoutMs = 0 },
		"deliveryTimeoutMs":    func(s *engine.Settings) { s.DeliveryTimeoutMs = 0 },
		"retryBackoffMs[1]":    func(s *engine.Settings) { s.RetryBackoffMs = []int64{1, -1} },
		"retryJitter is 1.5":   func(s *engine.Settings) { s.RetryJitter = 1.5 },
		"recentCount":          func(s *engine.Settings) { s.RecentCount = -1 },
		"maxOutbox":            func(s *engine.Settings) { s.MaxOutbox = 0 },
		"maxDeadLetters":       func(s *engine.Settings) { s.MaxDeadLetters = 0 },
		"dedupMs":              func(s *engine.Settings) { s.DedupMs = -1 },
		"dedupIds":             func(s *engine.Settings) { s.DedupIDs = -1 },
		"maxEventBytes":        func(s *engine.Settings) { s.MaxEventBytes = 0 },
		"maxWindowBytes":       func(s *engine.Settings) { s.MaxWindowBytes = 0 },
		"actThreshold is 1.1":  func(s *engine.Settings) { s.ActThreshold = 1.1 },
		"actThreshold is -0.1": func(s *engine.Settings) { s.ActThreshold = -0.1 },
		"floor for flush":      func(s *engine.Settings) { s.Floor = engine.Floor{engine.Flush: engine.Wait} },
	} {
		s := engine.Defaults()
		change(&s)
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		p := engine.Policy{Default: engine.Defaults(), Scopes: []engine.ScopeSettings{{Scope: "repo:*", Settings: s}}}
		if err := p.Compile(); err == nil || !strings.Contains(err.Error(), `scope "repo:*"`) {
			t.Errorf("%s for a scope: %v", name, err)
		}
	}
}

// Kinds and routes are read and written by name, exact about case.
func TestNames(t *testing.T) {
	for _, k := range engine.Kinds() {
		if back, err := engine.ParseKind(k.String()); err != nil || back != k {
			t.Errorf("%s: %v, %v", k, back, err)
		}
	}
	for _, r := range engine.Routes() {
		if back, err := engine.ParseRoute(r.String()); err != nil || back != r {
			t.Errorf("%s: %v, %v", r, back, err)
		}
	}
	for _, bad := range []string{"", "Flush", "flush ", "none"} {
		if k, err := engine.ParseKind(bad); err == nil || !strings.Contains(err.Error(), "want closing, flush") {
			t.Errorf("kind %q: %v, %v", bad, k, err)
		}
		if r, err := engine.ParseRoute(bad); err == nil || !strings.Contains(err.Error(), "want interrupt, queue") {
			t.Errorf("route %q: %v, %v", bad, r, err)
		}
	}
	acts := []engine.Kind{engine.Closing, engine.Flush, engine.Continuous, engine.Passive}
	for _, k := range engine.Kinds() {
		is := cmp.Equal(k, engine.Consequence) || cmp.Equal(k, engine.Context)
		if k.Sheddable() != is || k.Act() == is {
			t.Errorf("%s: sheddable %v, act %v; acts are %v", k, k.Sheddable(), k.Act(), acts)
		}
	}
}

// Policies are numbered records. What is due at an instant is under the newest
// with a stamp before it; before the first record the defaults hold.
func TestRules_Policies(t *testing.T) {
	r := engine.NewRules(nil)
	if p := r.Latest(); p.Number != 0 || p.For("s").MaxEvents != 200 {
		t.Errorf("before any record: %+v", p)
	}
	apply := func(stamp engine.Time, number uint32, grace int64) error {
		p := engine.Policy{Number: number, Default: engine.Defaults(), Judge: "rule"}
		p.Default.ClosingGraceMs = grace
		return r.Apply(engine.Record{Stamp: stamp, Step: &engine.Step{Kind: engine.StepPolicy, Policy: &p}})
	}
	for number, stamp := range map[uint32]engine.Time{1: 100} {
		if err := apply(stamp, number, 10); err != nil {
			t.Fatal(err)
		}
	}
	if err := apply(200, 2, 20); err != nil {
		t.Fatal(err)
	}
	if err := apply(300, 2, 30); err != nil { // the same number again: read twice
		t.Fatal(err)
	}
	if err := apply(400, 3, -1); err == nil {
		t.Error("a policy out of range has no error")
	}
	for at, want := range map[engine.Time]uint32{0: 1, 100: 1, 101: 1, 200: 1, 201: 2, 1000: 3} {
		if p := r.At(at); p.Number != want {
			t.Errorf("at %d: policy %d, want %d", at, p.Number, want)
		}
	}
	for number, grace := range map[uint32]int64{0: 10, 1: 10, 2: 20, 7: -1} {
		if s := r.Numbered(number).For("s"); s.ClosingGraceMs != grace {
			t.Errorf("policy %d: %d, want %d", number, s.ClosingGraceMs, grace)
		}
	}
	if n := len(r.Policies()); n != 3 {
		t.Errorf("%d policies", n)
	}
}

// Each policy is compiled once. One that this binary does not understand is in
// force, without a judge of the fold's, and its record is told of once.
func TestRules_CompilesEachPolicyOnce(t *testing.T) {
	compiled := make(map[uint32]int)
	r := engine.NewRules(func(p *engine.Policy) (engine.Compiled, error) {
		compiled[p.Number]++
		if p.Rules == "newer" {
			return engine.Compiled{Judge: engine.RuleJudge}, errors.New("line 1: not understood")
		}
		return engine.Compiled{Judge: engine.RuleJudge}, nil
	})
	var errs []error
	for _, rec := range []engine.Record{
		{Position: 1, Stamp: 100, Step: &engine.Step{Kind: engine.StepPolicy, Policy: &engine.Policy{Number: 1, Default: engine.Defaults()}}},
		{Position: 2, Stamp: 200, Step: &engine.Step{Kind: engine.StepPolicy, Policy: &engine.Policy{Number: 2, Default: engine.Defaults(), Rules: "newer", Judge: "rules"}}},
	} {
		errs = append(errs, r.Apply(rec), r.Apply(rec))
	}
	var broken *engine.PolicyError
	if errs[0] != nil || errs[1] != nil || errs[3] != nil || !errors.As(errs[2], &broken) || broken.Number != 2 {
		t.Errorf("errors %v", errs)
	}
	if !cmp.Equal(compiled, map[uint32]int{0: 1, 1: 1, 2: 1}) {
		t.Errorf("compiled %v", compiled)
	}
	if r.Latest().Number != 2 || r.Latest().PureJudge() != nil || r.At(150).PureJudge() == nil {
		t.Errorf("policy %d is in force, with a judge: %t", r.Latest().Number, r.Latest().PureJudge() != nil)
	}
}

// A silence that is read twice is one; one that is ended keeps its beginning;
// the end of one that is not known is nothing.
func TestRules_Silences(t *testing.T) {
	r := engine.NewRules(nil)
	apply := func(stamp engine.Time, s engine.Silence) {
		t.Helper()
		if err := r.Apply(engine.Record{Stamp: stamp, Step: &engine.Step{Kind: engine.StepSilence, Silence: &s}}); err != nil {
			t.Fatal(err)
		}
	}
	apply(10, engine.Silence{ID: "a", Scope: "*", Until: 100})
	apply(20, engine.Silence{ID: "b", Scope: "*", Until: 100})
	apply(30, engine.Silence{ID: "a", Scope: "*", Until: 500})
	apply(40, engine.Silence{ID: "b", Ended: true})
	apply(50, engine.Silence{ID: "c", Ended: true})
	apply(60, engine.Silence{ID: "b", Ended: true})
	got := r.Silences()
	want := []engine.Silence{{ID: "a", Scope: "*", Since: 10, Until: 100}, {ID: "b", Scope: "*", Since: 20, Until: 41}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, st := range []*engine.Step{nil, {Kind: engine.StepFlush}, {Kind: engine.StepSilence}, {Kind: engine.StepPolicy}} {
		if err := r.Apply(engine.Record{Stamp: 70, Step: st}); err != nil || len(r.Silences()) != 2 || len(r.Policies()) != 0 {
			t.Errorf("%+v: %v", st, err)
		}
	}
}

// An owner that starts reads every policy and silence, and some of them once
// more with the log behind its checkpoint. An end that came before the silence
// of its id must not end it the second time.
func TestRules_ReadTwiceAreTheSame(t *testing.T) {
	policy := engine.Policy{Number: 1, Default: engine.Defaults()}
	log := []engine.Record{
		{Position: 1, Stamp: 5, Step: &engine.Step{Kind: engine.StepPolicy, Policy: &policy}},
		{Position: 2, Stamp: 10, Step: &engine.Step{Kind: engine.StepSilence, Silence: &engine.Silence{ID: "a", Ended: true}}},
		{Position: 4, Stamp: 10, Step: &engine.Step{Kind: engine.StepSilence, Silence: &engine.Silence{ID: "a", Scope: "*", Until: 100}}},
	}
	for from := range log {
		r := engine.NewRules(nil)
		for _, rec := range slices.Concat(log, log[from:]) {
			if err := r.Apply(rec); err != nil {
				t.Fatal(err)
			}
		}
		want := []engine.Silence{{ID: "a", Scope: "*", Since: 10, Until: 100}}
		if diff := cmp.Diff(want, r.Silences()); diff != "" || len(r.Policies()) != 1 {
			t.Errorf("read again from record %d: %d policies, silences -want +got:\n%s", from+1, len(r.Policies()), diff)
		}
	}
}

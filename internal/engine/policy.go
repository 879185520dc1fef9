package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Settings are the rules' numbers for one scope. Durations are milliseconds.
// 0 is legal for every time but the timeouts (at least 1); MaxEvents is at
// least 1 (design, section 5, 1 and "Defaults").
type Settings struct {
	ClosingGraceMs    int64            `json:"closingGraceMs"`
	StreamGapMs       int64            `json:"streamGapMs"`
	PassiveQuietMs    int64            `json:"passiveQuietMs"`
	MaxWindowMs       int64            `json:"maxWindowMs"`
	MaxEvents         int              `json:"maxEvents"`
	WaitHorizonMs     int64            `json:"waitHorizonMs"`
	MaxWaits          int              `json:"maxWaits"`
	JudgeTimeoutMs    int64            `json:"judgeTimeoutMs"`
	CaptureTimeoutMs  int64            `json:"captureTimeoutMs"`
	ContextTimeoutMs  int64            `json:"contextTimeoutMs"`
	RetryBackoffMs    []int64          `json:"retryBackoffMs"` // attempts = 1 + rungs
	RetryJitter       float64          `json:"retryJitter"`    // in [0, 1]: a rung is lengthened by up to this share
	DeliveryTimeoutMs int64            `json:"deliveryTimeoutMs"`
	RecentCount       int              `json:"recentCount"`
	MaxOutbox         int              `json:"maxOutbox"`
	MaxDeadLetters    int              `json:"maxDeadLetters"`
	DedupMs           int64            `json:"dedupMs"`
	DedupIDs          int              `json:"dedupIds"`
	MaxEventBytes     int64            `json:"maxEventBytes"`
	MaxWindowBytes    int64            `json:"maxWindowBytes"`
	Floor             Floor            `json:"floor"`
	ActThreshold      float64          `json:"actThreshold,omitempty"` // in (0, 1]; 0 is off
	Guidance          string           `json:"guidance,omitempty"`
	Criteria          map[Route]string `json:"criteria,omitempty"`
	Predicates        []Predicate      `json:"predicates,omitempty"`
}

// Predicate is a yes-or-no question for the judge.
type Predicate struct {
	Name     string `json:"name"`
	Question string `json:"question"`
}

// Floor is the least a window may be routed to, by the kinds it holds.
type Floor map[Kind]Route

// Defaults returns the design's default settings.
func Defaults() Settings {
	return Settings{
		ClosingGraceMs: 2000, StreamGapMs: 1500, PassiveQuietMs: 10000, MaxWindowMs: 30000, MaxEvents: 200,
		WaitHorizonMs: 60000, MaxWaits: 3,
		JudgeTimeoutMs: 20000, CaptureTimeoutMs: 500, ContextTimeoutMs: 2000,
		RetryBackoffMs: []int64{1000, 5000, 15000, 60000}, RetryJitter: 0.2, DeliveryTimeoutMs: 30000,
		RecentCount: 8, MaxOutbox: 1000, MaxDeadLetters: 1000,
		DedupMs: 86400000, DedupIDs: 65536, MaxEventBytes: 1 << 20, MaxWindowBytes: 4 << 20,
		Floor: Floor{Flush: Queue},
	}
}

// maxMs is a hundred years. A time that is added to a stamp must not come out
// before it.
const maxMs = 100 * 366 * 24 * 3600 * 1000

// Check reports every setting that is out of range, joined in one error.
func (s *Settings) Check() error {
	var bad []string
	least := func(name string, v, low int64) {
		if v < low {
			bad = append(bad, fmt.Sprintf("%s is %d: must be at least %d", name, v, low))
		}
	}
	span := func(name string, ms, low int64) {
		least(name, ms, low)
		if ms > maxMs {
			bad = append(bad, fmt.Sprintf("%s is %d: must be at most %d, a hundred years", name, ms, int64(maxMs)))
		}
	}
	span("closingGraceMs", s.ClosingGraceMs, 0)
	span("streamGapMs", s.StreamGapMs, 0)
	span("passiveQuietMs", s.PassiveQuietMs, 0)
	span("maxWindowMs", s.MaxWindowMs, 0)
	least("maxEvents", int64(s.MaxEvents), 1)
	span("waitHorizonMs", s.WaitHorizonMs, 0)
	least("maxWaits", int64(s.MaxWaits), 0)
	span("judgeTimeoutMs", s.JudgeTimeoutMs, 1)
	span("captureTimeoutMs", s.CaptureTimeoutMs, 1)
	span("contextTimeoutMs", s.ContextTimeoutMs, 1)
	span("deliveryTimeoutMs", s.DeliveryTimeoutMs, 1)
	least("recentCount", int64(s.RecentCount), 0)
	least("maxOutbox", int64(s.MaxOutbox), 1)
	least("maxDeadLetters", int64(s.MaxDeadLetters), 1)
	span("dedupMs", s.DedupMs, 0)
	least("dedupIds", int64(s.DedupIDs), 0)
	least("maxEventBytes", s.MaxEventBytes, 1)
	least("maxWindowBytes", s.MaxWindowBytes, 1)
	for i, rung := range s.RetryBackoffMs {
		span(fmt.Sprintf("retryBackoffMs[%d]", i), rung, 0)
	}
	if !(s.RetryJitter >= 0 && s.RetryJitter <= 1) {
		bad = append(bad, fmt.Sprintf("retryJitter is %v: must be in [0, 1]", s.RetryJitter))
	}
	if s.ActThreshold != 0 && !(s.ActThreshold > 0 && s.ActThreshold <= 1) {
		bad = append(bad, fmt.Sprintf("actThreshold is %v: must be in (0, 1]", s.ActThreshold))
	}
	for _, k := range Kinds() {
		if r, ok := s.Floor[k]; ok && (r == Wait || r == 0) {
			bad = append(bad, fmt.Sprintf("floor for %s: must be skip, note, queue, ask or interrupt", k))
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return fmt.Errorf("%s", strings.Join(bad, "; "))
}

// Policy is a numbered record: the kinds, the settings of every scope and the
// judge. An event keeps the number of the policy under which it was accepted.
type Policy struct {
	Number  uint32          `json:"number"`
	Kinds   map[string]Kind `json:"kinds"` // exact names and globs
	Default Settings        `json:"default"`
	Scopes  []ScopeSettings `json:"scopes,omitempty"`
	Judge   string          `json:"judge"` // the judge's name; a pure one is known to the fold by it
	// Rules is the text of the rules file, where the judge is one.
	Rules string `json:"rules,omitempty"`
	// Overrides are tried in order on what a judge said.
	Overrides []OverrideRule `json:"overrides,omitempty"`
	// Sinks take the decisions of a route; those of a route without one are
	// delivered to nobody.
	Sinks map[Route]string `json:"sinks,omitempty"`
	// Letters is the sink that takes dead letters; "" leaves them to the log.
	Letters string `json:"letters,omitempty"`

	compiled bool
	kinds    patternTable
	scopes   patternTable
	judging  Compiled // of Rules.Apply
}

// OverrideRule replaces a judged route where its condition holds.
type OverrideRule struct {
	Name string `json:"name,omitempty"` // what a verdict calls it, "" for none
	When string `json:"when"`           // an expression over the window and the verdict
	Then Route  `json:"then"`
}

// ScopeSettings replace the default settings for the scopes that match.
type ScopeSettings struct {
	Scope    string   `json:"scope"` // glob; of several that match, the most specific alone counts
	Settings Settings `json:"settings"`
}

// PureJudge is the policy's judge where it needs no IO, else nil. It is known of
// policies that Rules give out.
func (p *Policy) PureJudge() PureJudge { return p.judging.Judge }

// Compile checks the policy and prepares it for look-ups. It must be called
// before KindOf and For; it may be called again without harm. One with an
// error is prepared too.
func (p *Policy) Compile() error {
	if p.compiled {
		return nil
	}
	names := make([]string, 0, len(p.Kinds))
	for name := range p.Kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	p.kinds = newPatternTable(names)
	patterns := make([]string, len(p.Scopes))
	for i := range p.Scopes {
		patterns[i] = p.Scopes[i].Scope
	}
	p.scopes = newPatternTable(patterns)
	for i := range p.Scopes {
		if err := p.Scopes[i].Settings.Check(); err != nil {
			return fmt.Errorf("settings of scope %q: %w", p.Scopes[i].Scope, err)
		}
	}
	if err := p.Default.Check(); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	if err := p.checkLanes(); err != nil {
		return err
	}
	p.compiled = true
	return nil
}

// KindOf resolves an event name: the exact name first, then the glob with the
// longest literal prefix (ties: the longer pattern, then byte order), then
// "*". With no match it is a consequence, and pattern is "".
func (p *Policy) KindOf(name string) (kind Kind, pattern string) {
	pattern, ok := p.kinds.match(name)
	if !ok {
		return Consequence, ""
	}
	return p.Kinds[pattern], pattern
}

// For returns the settings of a scope. The caller must not change them.
func (p *Policy) For(scope string) *Settings {
	if pattern, ok := p.scopes.match(scope); ok {
		for i := range p.Scopes {
			if p.Scopes[i].Scope == pattern {
				return &p.Scopes[i].Settings
			}
		}
	}
	return &p.Default
}

// patternTable finds the most specific pattern that matches a name.
type patternTable struct {
	exact map[string]string // literal name → the pattern as written
	globs []glob            // most specific first, "*" last
}

type glob struct{ pattern, prefix string }

func newPatternTable(patterns []string) patternTable {
	t := patternTable{exact: make(map[string]string)}
	for _, p := range patterns {
		prefix, whole := literalPrefix(p)
		if whole {
			// Written plainly it goes before the same with escapes.
			if _, ok := t.exact[prefix]; !ok || p == prefix {
				t.exact[prefix] = p
			}
			continue
		}
		t.globs = append(t.globs, glob{p, prefix})
	}
	slices.SortFunc(t.globs, func(a, b glob) int {
		return cmp.Or(
			cmp.Compare(lastResort(a.pattern), lastResort(b.pattern)),
			cmp.Compare(len(b.prefix), len(a.prefix)),
			cmp.Compare(len(b.pattern), len(a.pattern)),
			cmp.Compare(a.pattern, b.pattern))
	})
	return t
}

// lastResort puts "*" behind every other pattern, "?" too.
func lastResort(pattern string) int {
	if pattern == "*" {
		return 1
	}
	return 0
}

func (t *patternTable) match(name string) (string, bool) {
	if p, ok := t.exact[name]; ok {
		return p, true
	}
	for _, g := range t.globs {
		if strings.HasPrefix(name, g.prefix) && Glob(g.pattern, name) {
			return g.pattern, true
		}
	}
	return "", false
}

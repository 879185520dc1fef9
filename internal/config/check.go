package config

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/pflag"

	"attend/internal/engine"
)

// Report is what [Check] found out.
type Report struct {
	Files     []string         `json:"files"` // that were read
	Kinds     []KindReport     `json:"kinds"`
	Names     []NameReport     `json:"names"`
	Scopes    []ScopeReport    `json:"scopes"`
	Judges    []JudgeReport    `json:"judges"` // in the order in which they are asked
	Asked     []AskedReport    `json:"asked"`  // before each call of a judge
	Overrides []OverrideReport `json:"overrides"`
	Tokens    []TokenReport    `json:"tokens"` // those of attend.yaml
	Sources   []SourceReport   `json:"sources"`
	Sinks     []SinkReport     `json:"sinks"`
	Hooks     []HookReport     `json:"hooks"`
	Warnings  []Warning        `json:"warnings"`
	Mistakes  Mistakes         `json:"mistakes"`
}

// KindReport is a pattern, what it stands for and how much it matched.
type KindReport struct {
	KindEntry
	Why    Why `json:"match"`  // exact or glob
	Names  int `json:"names"`  // of those asked about, how many belong to it
	Events int `json:"events"` // and how many events those are
}

// NameReport is an event name and what it resolves to.
type NameReport struct {
	Name    string      `json:"name"`
	Kind    engine.Kind `json:"kind"`
	Why     Why         `json:"match"`
	Pattern string      `json:"pattern"` // that decided; "" for the default
	Events  int         `json:"events"`
}

// ScopeReport is a scope pattern of attend.yaml.
type ScopeReport struct {
	Place   Place  `json:"place"`
	Pattern string `json:"scope"`
}

// TokenReport is a token of attend.yaml: whom it stands for, and what it grants.
// An empty list of patterns grants all.
type TokenReport struct {
	Place   Place      `json:"place"`
	Name    string     `json:"name"`
	Rights  []string   `json:"rights"`
	Scopes  []string   `json:"scopes"`
	Fields  []string   `json:"fields"`
	Agents  []string   `json:"agents"`
	Expires *time.Time `json:"expires"` // nil is never
}

func reportToken(t *Token) TokenReport {
	r := TokenReport{
		Place: t.Place, Name: t.Name, Rights: t.Rights,
		Scopes: append([]string{}, t.Scopes...), Fields: append([]string{}, t.Fields...), Agents: append([]string{}, t.Agents...),
	}
	if !t.Expires.IsZero() {
		r.Expires = &t.Expires
	}
	return r
}

// Why says how a name came to its kind.
type Why string

// The ways.
const (
	WhyExact   Why = "exact"   // the name itself is configured
	WhyGlob    Why = "glob"    // the most specific pattern that matches
	WhyDefault Why = "default" // nothing matches: a consequence
)

// NameCount is an event name and how many events had it.
type NameCount struct {
	Name   string
	Events int
}

// Check reads the configuration as [Load] does, and says what each pattern and
// each name resolves to, and why, beside every warning and every mistake. It
// reports on what could be read even when there are mistakes.
func Check(flags *pflag.FlagSet, env []string, names []NameCount) Report {
	c, mistakes := load(flags, env)
	r := Report{ // lists are never null in JSON
		Files: append([]string{}, c.Files...), Kinds: []KindReport{}, Names: []NameReport{}, Scopes: []ScopeReport{}, Judges: []JudgeReport{}, Tokens: []TokenReport{}, Sources: []SourceReport{}, Hooks: []HookReport{}, Sinks: c.reportSinks(), Asked: c.reportAsked(), Overrides: c.reportOverrides(),
		Warnings: append([]Warning{}, c.Warnings...), Mistakes: append(append(Mistakes{}, mistakes...), c.unfinished(env)...),
	}
	for _, s := range c.Scopes {
		r.Scopes = append(r.Scopes, ScopeReport{s.Place, s.Pattern})
	}
	for i := range c.Judges.Entries {
		r.Judges = append(r.Judges, reportJudge(&c.Judges.Entries[i]))
	}
	for i := range c.Sources {
		r.Sources = append(r.Sources, reportSource(&c.Sources[i]))
	}
	for i := range c.Hooks {
		r.Hooks = append(r.Hooks, reportHook(&c.Hooks[i]))
	}
	for i := range c.Tokens {
		r.Tokens = append(r.Tokens, reportToken(&c.Tokens[i]))
	}
	policy := c.Policy()
	if err := policy.Compile(); err != nil {
		r.Mistakes = append(r.Mistakes, Mistake{Problem: err.Error()})
		return r
	}
	r.resolve(&policy, names)
	r.countUses(c.Kinds)
	r.warnUnmapped(c.Kinds)
	return r
}

// resolve finds the kind of each name.
func (r *Report) resolve(policy *engine.Policy, names []NameCount) {
	for _, n := range names {
		kind, pattern := policy.KindOf(n.Name)
		r.Names = append(r.Names, NameReport{n.Name, kind, whyOf(pattern), pattern, n.Events})
	}
}

// countUses says of each pattern how many of the names belong to it.
func (r *Report) countUses(kinds Kinds) {
	names, events := make(map[string]int), make(map[string]int)
	for _, n := range r.Names {
		names[n.Pattern]++
		events[n.Pattern] += n.Events
	}
	for _, e := range kinds.Entries {
		r.Kinds = append(r.Kinds, KindReport{e, whyOf(e.Pattern), names[e.Pattern], events[e.Pattern]})
	}
}

// warnUnmapped names the names that no pattern matches.
func (r *Report) warnUnmapped(kinds Kinds) {
	var unmapped []string
	for _, n := range r.Names {
		if n.Why == WhyDefault {
			unmapped = append(unmapped, quote(n.Name))
		}
	}
	if len(unmapped) > 0 && len(kinds.Entries) > 0 {
		r.Warnings = append(r.Warnings, Warning{
			Place{Source: kinds.Source},
			WarnUnmapped,
			fmt.Sprintf("%d of %d names match no pattern and are consequences, which never wake anyone: %s", len(unmapped), len(r.Names), list(unmapped)),
		})
	}
}

// whyOf says what it means that a pattern decided; "" is none.
func whyOf(pattern string) Why {
	switch {
	case pattern == "":
		return WhyDefault
	case isGlob(pattern):
		return WhyGlob
	default:
		return WhyExact
	}
}

// CountNames reads events (NDJSON, one object a line) and counts their names,
// the most frequent first. Of a line only the name is looked at. Lines that
// cannot be read are mistakes; source is what these call the file. The error
// is that of the reader.
func CountNames(source string, events io.Reader) ([]NameCount, Mistakes, error) {
	const longest = 16 << 20
	counts := make(map[string]int)
	var mistakes Mistakes
	in := bufio.NewScanner(events)
	in.Buffer(make([]byte, 64<<10), longest)
	line := 0
	for in.Scan() {
		line++
		b := bytes.TrimSpace(bytes.TrimPrefix(in.Bytes(), []byte("\ufeff")))
		if len(b) == 0 {
			continue
		}
		name, problem := nameOf(b)
		if problem != "" {
			mistakes = append(mistakes, Mistake{Place: Place{Source: source, Line: line}, Problem: problem})
			continue
		}
		counts[name]++
	}
	if err := in.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, nil, fmt.Errorf("%s: line %d has more than %d bytes", source, line+1, longest)
	} else if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", source, err)
	}
	names := make([]NameCount, 0, len(counts))
	for name, n := range counts {
		names = append(names, NameCount{name, n})
	}
	slices.SortFunc(names, func(a, b NameCount) int {
		return cmp.Or(cmp.Compare(b.Events, a.Events), cmp.Compare(a.Name, b.Name))
	})
	return names, mistakes, nil
}

// nameOf takes the name from an event, or says what is wrong with it.
func nameOf(b []byte) (name, problem string) {
	var event struct {
		Name *string `json:"name"`
	}
	if err := json.Unmarshal(b, &event, jsontext.AllowDuplicateNames(true)); err != nil {
		if _, ok := errors.AsType[*json.SemanticError](err); ok {
			return "", "not an event: want an object with a name, as {\"name\": \"message.created\"}"
		}
		return "", "not valid JSON"
	}
	if event.Name == nil || *event.Name == "" {
		return "", "an event without a name"
	}
	return *event.Name, ""
}

package config

import (
	"cmp"
	"path/filepath"

	"attend/internal/engine"
)

// JudgeReport is a judge, when it is asked, and when the next one is.
type JudgeReport struct {
	Place  Place     `json:"place"`
	Name   string    `json:"name"`
	Type   JudgeType `json:"type"`
	Model  string    `json:"model"`  // that is asked, "" for none
	Host   string    `json:"host"`   // that is called, "" for none
	Key    string    `json:"key"`    // the variable whose key is sent, "" when none is
	When   string    `json:"when"`   // "" for always
	Below  float64   `json:"below"`  // confidence under which the next one is asked, 0 for never
	OnNext bool      `json:"onNext"` // a failure asks the next one

	TimeoutMs   int64   `json:"timeoutMs"` // of one call, 0 for judgeTimeoutMs; the others are 0 for no limit
	Concurrency int     `json:"concurrency"`
	PerSecond   float64 `json:"perSecond"`
	DailyCalls  int64   `json:"dailyCalls"`
	DailyTokens int64   `json:"dailyTokens"`
}

// AskedReport is what is asked before a judge: a hook, or a Field.
type AskedReport struct {
	Place Place  `json:"place"`
	Name  string `json:"name"` // context or capture
	What  string `json:"what"` // its host, its program, or the Field
}

// OverrideReport is an override: the first whose condition holds counts.
type OverrideReport struct {
	Place Place        `json:"place"`
	Name  string       `json:"name"`
	When  string       `json:"when"`
	Then  engine.Route `json:"then"`
}

// reportAsked lists what is asked before each call of a judge.
func (c *Config) reportAsked() []AskedReport {
	all := []AskedReport{}
	for _, h := range []struct {
		name string
		hook *Hook
	}{{keyContext, &c.Judges.Context}, {keyCapture, &c.Judges.Capture}} {
		switch {
		case h.hook.URL != "":
			all = append(all, AskedReport{h.hook.Place, h.name, hostOf(h.hook.URL)})
		case len(h.hook.Command) > 0:
			all = append(all, AskedReport{h.hook.Place, h.name, filepath.Base(h.hook.Command[0])})
		}
	}
	if a := c.Context.Attune; a != nil {
		all = append(all, AskedReport{Place{}, keyContext, "the Field " + a.Field})
	}
	return all
}

func (c *Config) reportOverrides() []OverrideReport {
	all := []OverrideReport{}
	for i, o := range c.Judges.Overrides {
		all = append(all, OverrideReport{o.Place, o.Label(i), o.When, o.Then})
	}
	return all
}

func reportJudge(j *Judge) JudgeReport {
	r := JudgeReport{
		Place: j.Place, Name: j.Name, Type: j.Type, Model: j.Model, Host: hostOf(j.URL),
		When: j.When, Below: j.Below, OnNext: j.OnNext,
		TimeoutMs: j.Timeout.Milliseconds(), Concurrency: j.Concurrency, PerSecond: j.PerSecond, DailyCalls: j.DailyCalls, DailyTokens: j.DailyTokens,
	}
	if kind, known := judgeKindOf(j.Type); known {
		r.Host = cmp.Or(r.Host, hostOf(kind.host))
		r.Model = cmp.Or(r.Model, kind.model)
	}
	if j.Key != "" {
		r.Key = j.keyVariable
	}
	return r
}

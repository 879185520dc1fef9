package main

import (
	"fmt"
	"strings"

	"attend/internal/config"
)

// judgesTable shows who judges, unless nobody said it.
func judgesTable(judges []config.JudgeReport) string {
	if len(judges) == 1 && judges[0].Place.Line == 0 && judges[0].Type == config.JudgeRule {
		return ""
	}
	return table("JUDGE\tTYPE\tMODEL\tHOST\tKEY\tASKED\tTHE NEXT ONE\tLIMITS", judges, func(j config.JudgeReport) string {
		asked := "always"
		if j.When != "" {
			asked = "when " + visible(j.When)
		}
		var next []string
		if j.Below > 0 {
			next = append(next, fmt.Sprintf("below %v", j.Below))
		}
		if j.OnNext {
			next = append(next, "on an error")
		}
		return strings.Join([]string{
			visible(j.Name), string(j.Type), orDash(visible(j.Model)), orDash(visible(j.Host)), orDash(visible(j.Key)), asked, orDash(strings.Join(next, ", ")), orDash(limitsOf(&j)),
		}, "\t")
	})
}

// limitsOf lists the limits of a judge.
func limitsOf(j *config.JudgeReport) string {
	var all []string
	for _, l := range []struct {
		set  bool
		text string
	}{
		{j.TimeoutMs > 0, fmt.Sprintf("%d ms", j.TimeoutMs)},
		{j.Concurrency > 0, fmt.Sprintf("%d at once", j.Concurrency)},
		{j.PerSecond > 0, fmt.Sprintf("%v a second", j.PerSecond)},
		{j.DailyCalls > 0, fmt.Sprintf("%d calls a day", j.DailyCalls)},
		{j.DailyTokens > 0, fmt.Sprintf("%d tokens a day", j.DailyTokens)},
	} {
		if l.set {
			all = append(all, l.text)
		}
	}
	return strings.Join(all, ", ")
}

// judgingList tells what is asked before a judge, and what acts on its answer.
func judgingList(r *config.Report) string {
	var b strings.Builder
	for _, a := range r.Asked {
		fmt.Fprintf(&b, "%s is asked before each call of a judge: %s\n", a.Name, visible(a.What))
	}
	for i, o := range r.Overrides {
		fmt.Fprintf(&b, "override %d", i+1)
		if o.Name != fmt.Sprintf("override %d", i+1) {
			fmt.Fprintf(&b, " (%s)", visible(o.Name))
		}
		fmt.Fprintf(&b, ": %s when %s\n", o.Then, visible(o.When))
	}
	return b.String()
}

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"attend/internal/engine"
)

// describe writes a try for people: what was asked, what was said, and what
// comes of it, in that order.
func (r *judgeTried) describe(w io.Writer) {
	in := r.Input
	settled := time.UnixMilli(int64(in.Window.SettledAt)).UTC().Format("2006-01-02T15:04:05.000Z")
	fmt.Fprintf(w, "window %d: %s, %s, %s, settled %s\n", r.Window, visible(in.Scope), in.Window.Reason, count(len(in.Window.Events), "event"), settled)
	for i := range r.Exchanges {
		r.Exchanges[i].describe(w)
	}
	for _, failed := range r.Hooks {
		fmt.Fprintf(w, "\nhook failed: %s\n", visible(failed))
	}
	fmt.Fprintln(w)
	switch {
	case r.Error != "":
		fmt.Fprintf(w, "failed: %s (%s)\n", visible(r.Error), r.Class)
		r.calls(w)
	case r.Answer == nil:
		fmt.Fprintln(w, "nothing was sent")
	default:
		r.answer(w)
	}
}

func (x *exchange) describe(w io.Writer) {
	fmt.Fprintln(w)
	whose := strings.TrimSpace(x.For + " " + x.Name)
	if len(x.Command) > 0 {
		fmt.Fprintf(w, "%s: run %s\n", whose, visible(strings.Join(x.Command, " ")))
	} else {
		fmt.Fprintf(w, "%s: %s %s\n", whose, x.Method, visible(x.URL))
	}
	headers(w, x.Headers)
	fmt.Fprintf(w, "  %s\n", visibleData(x.Input))
	switch {
	case !x.Asked:
		return
	case x.Status != 0:
		fmt.Fprintf(w, "answer: %d after %d ms\n", x.Status, x.TookMs)
		headers(w, x.ResponseHeaders)
	case x.Exit != nil && x.Error == "":
		fmt.Fprintf(w, "answer: exit %d after %d ms\n", *x.Exit, x.TookMs)
	default:
		fmt.Fprintf(w, "no answer after %d ms: %s\n", x.TookMs, visible(x.Error))
	}
	if x.Output != "" {
		fmt.Fprintf(w, "  %s\n", visibleData(strings.TrimSpace(x.Output)))
	}
}

func headers(w io.Writer, all map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(w, "  %s: %s\n", visible(name), visible(all[name]))
	}
}

// answer tells what was said, and what it comes to.
func (r *judgeTried) answer(w io.Writer) {
	who := r.Judge.Name
	if r.DryRun {
		fmt.Fprintln(w, "nothing was sent: the judge asks nobody")
	}
	if r.Judge.Model != "" {
		who += ", " + r.Judge.Model
	}
	fmt.Fprintf(w, "judged: %s by %s\n", r.Decision.JudgedRoute, visible(who))
	if c := r.Decision.Confidence; c != nil {
		fmt.Fprintf(w, "  confidence %.3g\n", *c)
	}
	if len(r.Answer.Probabilities) > 0 {
		var shares []string
		for _, route := range engine.Routes() {
			shares = append(shares, fmt.Sprintf("%s %.3g", route, r.Decision.Probabilities[route]))
		}
		fmt.Fprintf(w, "  probabilities: %s\n", strings.Join(shares, ", "))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Decision.Predicates)) {
		fmt.Fprintf(w, "  predicate %s: %.3g\n", visible(name), r.Decision.Predicates[name])
	}
	r.calls(w)
	fmt.Fprintf(w, "decided: %s\n", r.Decision.Route)
	if len(r.Decision.Changed) > 0 {
		fmt.Fprintf(w, "  changed by %s\n", changers(r.Decision.Changed, r.Decision.Override))
	}
}

// changers lists what changed a route, the override by its name.
func changers(changed []engine.Change, override string) string {
	var by []string
	for _, c := range changed {
		if c == engine.ChangedByOverride {
			by = append(by, "override "+visible(strings.TrimPrefix(override, "override ")))
			continue
		}
		by = append(by, string(c))
	}
	return strings.Join(by, ", ")
}

// calls tells what each judge that was asked took.
func (r *judgeTried) calls(w io.Writer) {
	for i := range r.Calls {
		c := &r.Calls[i]
		fmt.Fprintf(w, "  %s: %s after %d ms", visible(c.Judge), visible(c.Outcome), c.TookMs)
		if c.InputTokens > 0 || c.OutputTokens > 0 {
			fmt.Fprintf(w, ", %d tokens in, %d out", c.InputTokens, c.OutputTokens)
		}
		if c.Cut > 0 {
			fmt.Fprintf(w, ", %s left out", count(c.Cut, "event"))
		}
		if c.Message != "" {
			fmt.Fprintf(w, ": %s", visible(c.Message))
		}
		fmt.Fprintln(w)
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"attend/internal/config"
)

// writeTried prints what the rules made of the events, and then what is to say
// of the configuration.
func writeTried(w io.Writer, output outputFlag, t *tried, r *config.Report) error {
	if output == outputJSON {
		var b strings.Builder
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(struct {
			*tried
			Warnings []config.Warning `json:"warnings"`
			Mistakes config.Mistakes  `json:"mistakes"`
		}{t, r.Warnings, r.Mistakes}); err != nil {
			return fmt.Errorf("encode report: %w", err)
		}
		_, err := io.WriteString(w, visibleReport(b.String()))
		return err
	}
	var b strings.Builder
	for i := range t.Windows {
		t.describe(&b, &t.Windows[i])
	}
	fmt.Fprintf(&b, "\n%s in %s\n", count(t.Events, "event"), count(len(t.Windows), "window"))
	if t.Open > 0 {
		fmt.Fprintf(&b, "%s open where the log ends, and not shown\n", count(t.Open, "window"))
	}
	b.WriteString("\n" + rulesTable(t))
	if len(t.Never) > 0 {
		fmt.Fprintf(&b, "\nnever matched: %s\n", visible(strings.Join(t.Never, ", ")))
	}
	for _, f := range t.Failed {
		fmt.Fprintf(&b, "failed on %s: %s: %s\n", count(f.Windows, "window"), visible(t.label(f.Judge, f.Rule)), visible(f.Problem))
	}
	if slices.ContainsFunc(t.Windows, func(w triedWindow) bool { return w.Asks }) {
		b.WriteString("what a judge that is asked would say is not known here: later windows see the answer of the judge rule in its place\n")
	}
	if t.Facts {
		b.WriteString("facts are empty here: they are fetched by the daemon alone\n")
	}
	b.WriteString("\n" + verdict(r))
	_, err := io.WriteString(w, b.String())
	return err
}

// describe writes a window on a line, with its events below.
func (t *tried) describe(b *strings.Builder, w *triedWindow) {
	fmt.Fprintf(b, "%s  %s  %s, %s: ", replayClock(w.At), visible(w.Scope), w.Reason, count(len(w.Events), "event"))
	switch {
	case w.Nobody:
		b.WriteString("a dead letter, for no judge has a condition that holds")
	case w.Asks:
		fmt.Fprintf(b, "asks %s", visible(w.Judge))
	default:
		b.WriteString(w.Route.String())
	}
	switch {
	case w.Rule != "":
		fmt.Fprintf(b, " by %s", visible(t.label(w.Judge, w.Rule)))
	case w.Judge != "" && !w.Asks:
		fmt.Fprintf(b, " by %s", visible(w.Judge))
	}
	if len(w.Changed) > 0 {
		if w.JudgedRoute != 0 {
			fmt.Fprintf(b, ", judged %s", w.JudgedRoute)
		}
		fmt.Fprintf(b, ", changed by %s", changers(w.Changed, w.Override))
	}
	b.WriteByte('\n')
	if len(w.Events) > 0 {
		fmt.Fprintf(b, "          %s\n", visible(namesOf(w.Events)))
	}
	for _, f := range w.Failed {
		fmt.Fprintf(b, "          failed: %s\n", visible(f))
	}
}

// namesOf lists names in order; the same name in a row is counted.
func namesOf(events []triedEvent) string {
	var parts []string
	for i := 0; i < len(events); {
		n := 1
		for i+n < len(events) && events[i+n].Name == events[i].Name {
			n++
		}
		part := events[i].Name
		if n > 1 {
			part += fmt.Sprintf(" ×%d", n)
		}
		parts = append(parts, part)
		i += n
	}
	return strings.Join(parts, ", ")
}

// rulesTable counts what each rule matched, and who would be asked how often.
func rulesTable(t *tried) string {
	s := table("RULE\tMATCHED\tFAILED", t.Rules, func(r triedRule) string {
		return fmt.Sprintf("%s\t%d\t%d", visible(t.label(r.Judge, r.Rule)), r.Matched, r.Failed)
	})
	if len(t.Asked) > 0 {
		s += "\n" + table("JUDGE\tTYPE\tWINDOWS", t.Asked, func(a triedAsked) string {
			return fmt.Sprintf("%s\t%s\t%d", visible(a.Judge), a.Type, a.Windows)
		})
	}
	return s
}

package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"attend/internal/engine"
)

// report tells for each scope how many events became how many wakes, and why.
func (d *demo) report() {
	fmt.Fprintf(d.out, "\nWhat became of it, scope by scope:\n\n")
	t := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  scope\tevents\twakes\troutes\tsettled by")
	scopes := make([]string, 0, len(d.sent))
	events, wakes := 0, 0
	for scope, n := range d.sent {
		scopes = append(scopes, scope)
		events += n
		wakes += len(d.got[scope])
	}
	slices.Sort(scopes)
	for _, scope := range scopes {
		routes, reasons := make(map[string]int), make(map[string]int)
		for _, decision := range d.got[scope] {
			routes[decision.Route.String()]++
			reasons[string(decision.Reason)]++
		}
		fmt.Fprintf(t, "  %s\t%d\t%d\t%s\t%s\n", scope, d.sent[scope], len(d.got[scope]), tally(routes), tally(reasons))
	}
	_ = t.Flush()
	d.largest()
	fmt.Fprintf(d.out, "\n%d events became %d wakes. The other scopes hold nothing that calls for an agent.\n", events, wakes)
}

// largest shows one notice whole, as the agent reads it.
func (d *demo) largest() {
	var most *engine.Decision
	for _, scope := range d.order {
		for _, decision := range d.got[scope] {
			if most == nil || len(decision.Events) > len(most.Events) {
				most = decision
			}
		}
	}
	if most == nil {
		return
	}
	fmt.Fprintf(d.out, "\nThe fullest notice, as the agent of %s read it (%s, settled by %s, %d ms after it was due):\n\n",
		most.Scope, most.Route, most.Reason, most.SettledAt-most.Due)
	for line := range strings.SplitSeq(most.Notice, "\n") {
		fmt.Fprintf(d.out, "  │ %s\n", visible(line))
	}
}

// tally writes counts, the largest first.
func tally(counts map[string]int) string {
	names := make([]string, 0, len(counts))
	for name := range counts {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, counts[name])
	}
	if len(names) == 0 {
		return "-"
	}
	return strings.Join(names, ", ")
}

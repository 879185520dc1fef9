package main_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"attend/internal/engine"
)

// findings are breaches of the promise. Each begins with the name of the check
// that found it.
type findings []string

func (f *findings) add(check, format string, args ...any) {
	*f = append(*f, check+": "+fmt.Sprintf(format, args...))
}

// report shows the first findings of every check, and counts the others.
func (f findings) report() string {
	const shown = 5
	count := make(map[string]int)
	var b strings.Builder
	for _, one := range f {
		check, _, _ := strings.Cut(one, ":")
		if count[check]++; count[check] <= shown {
			b.WriteString(one + "\n")
		}
	}
	for _, check := range slices.Sorted(maps.Keys(count)) {
		if n := count[check]; n > shown {
			fmt.Fprintf(&b, "%s: and %d more\n", check, n-shown)
		}
	}
	return b.String()
}

// totals are figures for the summary.
type totals struct {
	records, acked, refused, shed, windows, decisions, redelivered int
	lag                                                            time.Duration // the longest that a window was due while the daemon was ready
	latest                                                         *window       // that window
}

// checkCrash holds the log against what the world outside saw.
func checkCrash(log []engine.Record, seen *evidence) (findings, totals) {
	var f findings
	var sum totals
	sum.records = len(log)
	checkOrder(&f, log)
	w := readWindows(&f, log)
	w.checkOutcomes(&f, seen.drained)
	checkFold(&f, log, w, seen, &sum)
	checkSent(&f, log, seen, &sum)
	checkWaits(&f, w, seen, &sum)
	checkPages(&f, w, seen)
	checkLives(&f, w, seen, &sum)
	sum.windows, sum.decisions = len(w.inOrder), len(w.decisions)
	return f, sum
}

// checkOrder: one sequence of positions over both tables, without gaps; stamps
// never fall.
func checkOrder(f *findings, log []engine.Record) {
	var stamp engine.Time
	for i := range log {
		r := &log[i]
		if want := engine.Position(i + 1); r.Position != want {
			f.add("positions", "record %d of the log stands at position %d", want, r.Position)
			return // all that follow differ too
		}
		if r.Stamp < stamp {
			f.add("stamps", "position %d is stamped %d, the one before %d", r.Position, r.Stamp, stamp)
		}
		stamp = r.Stamp
		if (r.Event == nil) == (r.Step == nil) {
			f.add("positions", "position %d holds neither an event nor a step, or both", r.Position)
		}
	}
}

// checkSent: what was acknowledged is in the log, what is in the log was sent,
// and it is the same byte for byte.
func checkSent(f *findings, log []engine.Record, seen *evidence, sum *totals) {
	stored := make(map[eventKey]bool)
	flushes := make(map[string]int)
	for i := range log {
		r := &log[i]
		if r.Step != nil && r.Step.Kind == engine.StepFlush {
			flushes[r.Scope]++
		}
		if r.Event == nil || strings.HasPrefix(r.Scope, "field:") { // checkFields looks at those
			continue
		}
		key := eventKey{r.Scope, r.Event.ID}
		stored[key] = true
		switch sent, known := seen.events[key]; {
		case !known:
			f.add("stranger", "position %d holds event %q of scope %q, which nobody sent", r.Position, key.id, key.scope)
		case sent.name != r.Event.Name || sent.sum != sumOf(r.Event.Data, r.Event.Text):
			f.add("altered", "position %d: event %q of scope %q is not what was sent", r.Position, key.id, key.scope)
		}
	}
	for key, sent := range seen.events {
		if !sent.acked {
			if seen.drained {
				f.add("unsent", "event %q of scope %q was never acknowledged", key.id, key.scope)
			}
			continue
		}
		sum.acked++
		if !stored[key] {
			f.add("lost", "event %q of scope %q was acknowledged, and is not in the log", key.id, key.scope)
		}
	}
	for scope, n := range seen.flushes {
		if flushes[scope] < n {
			f.add("lost", "scope %q: %d flush calls were answered, the log holds %d", scope, n, flushes[scope])
		}
	}
}

// checkLives: the daemon decides what is due as soon as it is ready. What
// counts is the time for which it was ready and the window was due.
func checkLives(f *findings, w *windows, seen *evidence, sum *totals) {
	bound := lateBound
	if seen.shared {
		bound *= 4 // a chain of blows may leave no replica the time to come up
	}
	for _, win := range w.inOrder {
		var overdue time.Duration
		due, settled := time.UnixMilli(int64(win.settled.Due)), time.UnixMilli(int64(win.stamp))
		for i := range seen.lives {
			l := &seen.lives[i]
			if l.ready.IsZero() {
				continue
			}
			from, to := due, settled
			if l.ready.After(from) {
				from = l.ready
			}
			if l.ended.Before(to) {
				to = l.ended
			}
			overdue += max(0, to.Sub(from))
		}
		if overdue > sum.lag {
			sum.lag, sum.latest = overdue, win
		}
		if overdue > bound {
			f.add("late", "window %s of scope %q was due for %v while the daemon was ready", win.settled.Window, win.scope, overdue)
		}
	}
}

// lateBound finds windows that are stuck. It is far above what is promised (a
// second after a start), which the figure that the suite prints tells: disks
// were seen to hold a commit up for eight seconds while other tests wrote.
const lateBound = 30 * time.Second

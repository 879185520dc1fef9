package main_test

import (
	"bytes"
	"encoding/json"
	"slices"

	"attend/internal/engine"
)

// checkWaits: the named consumer was shown every decision that is for it, each
// as it stands in the log, in log order; an answer that it did not acknowledge
// came again, and one that it did never came back.
func checkWaits(f *findings, w *windows, seen *evidence, sum *totals) {
	shown := make(map[string]bool)
	var last lastAnswer
	for i := range seen.waits {
		a := &seen.waits[i]
		ids := w.shown(f, i, a.decisions)
		if a.truncated {
			f.add("consumer", "answer %d says that decisions were lost to retention", i)
		}
		if a.redelivered {
			sum.redelivered++
		}
		last.ack(a)
		if a.failed {
			continue
		}
		last.check(f, w, i, a, ids, seen.shared)
		if len(ids) > 0 && !slices.Equal(ids, last.ids) {
			last = lastAnswer{ids: ids, token: a.token}
		}
		if a.kept {
			for _, id := range ids {
				shown[id] = true
			}
		}
	}
	if !seen.drained {
		return
	}
	for _, r := range w.decisions {
		if d := r.Step.Decision; d.Route != engine.Skip && !shown[d.ID] {
			f.add("unseen", "decision %s (%s) at position %d was never shown to the consumer", d.ID, d.Route, r.Position)
		}
	}
}

// lastAnswer is the newest answer with decisions that the consumer got.
type lastAnswer struct {
	ids   []string
	token string
	acked bool // its ack was heard
	maybe bool // its ack was sent, and may have been heard
}

// ack notes what a call says of the answer before it. A call that was answered
// with decisions, or after its whole time, was heard; one that was broken off
// may have been.
func (last *lastAnswer) ack(a *waitAnswer) {
	if a.ack == "" || a.ack != last.token {
		return
	}
	last.maybe = true
	if !a.failed && (len(a.decisions) > 0 || a.timedOut) {
		last.acked = true
	}
}

// check holds an answer against the one before.
func (last *lastAnswer) check(f *findings, w *windows, i int, a *waitAnswer, ids []string, shared bool) {
	if len(last.ids) == 0 {
		return
	}
	again := slices.Equal(ids, last.ids)
	switch {
	case shared: // a call that hung in one replica may give again what another has given; never less
	case again && last.acked:
		f.add("consumer", "answer %d is one that was acknowledged", i)
	case again && !a.redelivered:
		f.add("consumer", "answer %d came before, and does not say so", i)
	case again, len(ids) == 0 && !a.timedOut: // the second was broken off
	case !last.maybe:
		f.add("consumer", "answer %d has %d other decisions, although the one before was not acknowledged", i, len(ids))
	case len(ids) > 0 && w.at[ids[0]] <= w.at[last.ids[len(last.ids)-1]]:
		f.add("consumer", "answer %d begins at position %d, the one before ended at %d", i, w.at[ids[0]], w.at[last.ids[len(last.ids)-1]])
	}
}

// shown reads the decisions of an answer: each is the one in the log, and they
// come in its order.
func (w *windows) shown(f *findings, answer int, decisions []json.RawMessage) []string {
	ids := make([]string, 0, len(decisions))
	for _, raw := range decisions {
		var d engine.Decision
		if err := json.Unmarshal(raw, &d); err != nil {
			f.add("consumer", "answer %d: %v", answer, err)
			continue
		}
		if !w.sameAsLogged(&d) {
			f.add("consumer", "answer %d shows decision %s otherwise than the log has it: %s", answer, d.ID, raw)
			continue
		}
		ids = append(ids, d.ID)
	}
	w.checkRising(f, "consumer", answer, ids)
	return ids
}

// sameAsLogged compares D as it was shown with D as it is stored.
func (w *windows) sameAsLogged(d *engine.Decision) bool {
	win := w.byID[d.ID]
	if win == nil || win.final == nil || win.final.Step.Decision == nil {
		return false
	}
	stored, err := json.Marshal(win.final.Step.Decision)
	if err != nil {
		return false
	}
	got, err := json.Marshal(d)
	return err == nil && bytes.Equal(got, stored)
}

func (w *windows) checkRising(f *findings, check string, answer int, ids []string) {
	for j := 1; j < len(ids); j++ {
		if w.at[ids[j]] <= w.at[ids[j-1]] {
			f.add(check, "answer %d: decision %s stands before %s in the log", answer, ids[j], ids[j-1])
		}
	}
}

// checkPages: who follows GET /v1/decisions by its cursors gets every decision
// once, in log order.
func checkPages(f *findings, w *windows, seen *evidence) {
	var all []string
	for _, ids := range seen.pages {
		all = append(all, ids...)
	}
	for i, id := range all {
		if i >= len(w.decisions) || w.decisions[i].Step.ID != id {
			f.add("cursor", "the decision read as number %d is %s, and the log does not have it there", i+1, id)
			return // all that follow differ too
		}
	}
	if seen.drained && len(all) < len(w.decisions) {
		f.add("cursor", "%d of %d decisions were read", len(all), len(w.decisions))
	}
}

package sim

import (
	"context"
	"fmt"
	"testing/synctest"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
)

// again is how long a producer waits before it sends again.
const again = 70 * time.Millisecond

// next lets the next op happen.
func (w *World) next() {
	op := w.ops[0]
	w.ops = w.ops[1:]
	lives := w.current()
	switch op.Verb {
	case Send, Flush, Gap, Silence, Speak, Requeue:
		if !w.write(&op) {
			w.later(op)
		}
	case Reload:
		w.reload()
	case Crash:
		for _, l := range some(lives, op.Nth) {
			w.kill(l)
			synctest.Wait()
		}
	case Stop:
		for _, l := range some(lives, op.Nth) {
			w.halt(l)
		}
	case Replace:
		if len(lives) <= max(w.plan.Replicas, 1) {
			w.begin()
		}
	case Jump:
		w.offset.Add(int64(op.By))
		w.log.jumps++
	}
}

// some are the lives that an op is about: the nth, or all of them.
func some(lives []*life, n int) []*life {
	if n < len(lives) {
		return lives[n : n+1]
	}
	return lives
}

// front is a daemon that takes what comes from outside, nil for none. One after
// the other has its turn.
func (w *World) front() *life {
	var up []*life
	for _, l := range w.current() {
		if l.up {
			up = append(up, l)
		}
	}
	if len(up) == 0 {
		return nil
	}
	return up[w.sends%len(up)]
}

// later puts an op back: who was not answered tries again.
func (w *World) later(op Op) {
	op.At = max(op.At, time.Since(w.begun)) + again
	i := 0
	for i < len(w.ops) && w.ops[i].At <= op.At {
		i++
	}
	w.ops = append(w.ops[:i:i], append([]Op{op}, w.ops[i:]...)...)
}

// write appends what came from outside through a daemon that is up. It reports
// whether the sender was answered.
func (w *World) write(op *Op) bool {
	front := w.front()
	if front == nil {
		return false
	}
	entry, ok := w.entry(op, front)
	if !ok {
		return true // nothing to write
	}
	w.sends++
	name := fmt.Sprint("send.", w.sends)
	d := newDraws(w.plan.Seed, name)
	n := d.below(1000)
	if !w.faulty(name) {
		n = 1000
	}
	if n < w.plan.Rates.Before+w.plan.Rates.After {
		w.faults = append(w.faults, name)
	}
	if n < w.plan.Rates.Before {
		return false
	}
	receipts, err := w.store.Append(context.Background(), entry)
	if err != nil || receipts[0].Err != nil {
		w.log.add("append", "what came from outside was refused: %v %v", err, receipts)
		return true
	}
	w.log.wrote([]store.Entry{entry}, receipts)
	if n < w.plan.Rates.Before+w.plan.Rates.After {
		return false
	}
	for i := range entry.Events {
		w.log.acknowledge(entry.Events[i].Scope, entry.Events[i].ID)
	}
	return true
}

// entry makes what is written; ok is false when there is nothing.
func (w *World) entry(op *Op, l *life) (e store.Entry, ok bool) {
	e.Scope = op.Scope
	step := engine.Step{Kind: engine.StepKind(op.Verb)}
	switch op.Verb {
	case Send:
		policy := l.runner.Policy()
		for _, s := range op.Events {
			if w.remembers(l, &s) {
				w.log.acknowledge(s.Scope, s.ID)
				continue
			}
			if w.twin(&e, &s) {
				continue
			}
			kind, _ := policy.KindOf(s.Name)
			e.Events = append(e.Events, store.NewEvent{Scope: s.Scope, Event: engine.Event{
				ID: s.ID, Name: s.Name, Kind: kind, Policy: policy.Number, Text: s.Text,
			}})
		}
		return e, len(e.Events) > 0
	case Silence:
		e.Scope = ""
		step.Silence = &engine.Silence{ID: op.ID, Scope: op.Scope, Until: engine.Time(w.store.Now().Add(op.By).UnixMilli())}
	case Speak:
		e.Scope, step.Kind = "", engine.StepSilence
		step.Silence = &engine.Silence{ID: op.ID, Ended: true}
	case Requeue:
		d := w.log.deadLetter(op.Nth)
		if d == nil {
			return e, false
		}
		e.Scope, step.Window, step.ID = d.Scope, d.WindowID, d.ID
		step.Requeue = w.log.requeueOf(d)
	case Flush, Gap:
	default:
		return e, false
	}
	e.Steps = []engine.Step{step}
	return e, true
}

// twin reports whether an id that may be forgotten at once stands in the log,
// or in this body, at this very instant. Two windows of it alone would have the
// same id, since that follows from ids and the first stamp: a known limit, which
// these worlds leave aside.
func (w *World) twin(e *store.Entry, s *Sent) bool {
	if w.plan.Dedup {
		return false
	}
	for i := range e.Events {
		if e.Events[i].Scope == s.Scope && e.Events[i].ID == s.ID {
			return true
		}
	}
	at, ok := w.log.stored[eventKey{s.Scope, s.ID}]
	return ok && at == engine.Time(w.store.Now().UnixMilli())
}

// remembers asks the daemon as ingest does, which then spares the append.
func (w *World) remembers(l *life, s *Sent) bool {
	w.mu.Lock()
	w.asking = true
	w.mu.Unlock()
	known := l.runner.Remembers(s.Scope, engine.DigestOf(s.ID))
	w.mu.Lock()
	w.asking = false
	w.mu.Unlock()
	return known
}

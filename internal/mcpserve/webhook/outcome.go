package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"attend/internal/engine"
)

// ladder returns the pauses after each failed try but the last (events
// contract, 10).
func ladder() []time.Duration {
	return []time.Duration{time.Second, 10 * time.Second, time.Minute, 5 * time.Minute}
}

// backoff is the pause after a failed try of a message, 1 being the first: that
// of the ladder, lengthened by up to a fifth that follows from both. Without ok
// it was the last.
func backoff(id string, try int) (pause time.Duration, ok bool) {
	rungs := ladder()
	if try > len(rungs) {
		return 0, false
	}
	h := sha256.Sum256(fmt.Appendf(nil, "%s/%d", id, try))
	share := float64(binary.BigEndian.Uint32(h[:4])) / (1 << 32)
	rung := rungs[try-1]
	return rung + time.Duration(share*0.2*float64(rung)), true
}

// land1 notes what came of a try.
func (w *worker) land1(r tried) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flying--
	m, out := r.message, r.outcome
	m.flying = false
	if r.dropped || r.track != w.track {
		return // of a life that is over
	}
	m.tries++
	w.slow = r.slow
	now := w.s.now()
	pause, again := backoff(m.id, m.tries)
	switch {
	case m.control:
		// Not every receiver knows these: one that refuses them is in order.
		if out.ok || out.final || !again || out.failure == fail4xx {
			w.track.finish(m)
			break
		}
		m.next = now + engine.Time(pause.Milliseconds())
	case out.ok:
		w.track.finish(m)
		w.sound(now)
	default:
		w.failed(m, &out, now, pause, again)
	}
	w.s.saveLater(w)
}

// sound notes a success. The caller holds mu.
func (w *worker) sound(now engine.Time) {
	w.s.metrics.note(outcomeDelivered)
	w.health.note(now, true)
	w.atOnce = min(w.atOnce+1, maxAtOnce)
	p := &w.progress
	p.LastDelivery, p.LastError, p.FailedSince = now, "", 0
}

// failed notes a failure. The caller holds mu.
func (w *worker) failed(m *message, out *outcome, now engine.Time, pause time.Duration, again bool) {
	w.health.note(now, false)
	w.atOnce = 1
	p := &w.progress
	p.LastError = out.failure
	if p.FailedSince == 0 {
		p.FailedSince = now
	}
	if out.retryAfter > 0 {
		w.hold = now + engine.Time(out.retryAfter.Milliseconds())
		pause = max(pause, out.retryAfter)
	}
	switch {
	case out.final, !again:
		outcome := outcomeAbandoned
		if out.final {
			outcome = outcomeRefused
		}
		w.s.metrics.note(outcome)
		p.Abandoned++
		p.LastAbandoned, p.AbandonedAt = m.id, now
		w.s.log.Warn("an event was given up for a webhook", "subscription", w.id, "principal", w.grant.Principal,
			"event", m.id, "tries", m.tries, "why", out.failure, "outcome", outcome)
		w.track.finish(m)
	default:
		w.s.metrics.note(outcomeFailed)
		m.next = now + engine.Time(pause.Milliseconds())
	}
	if w.health.hopeless(now) && !p.suspends(w.grant) {
		p.Suspended, p.SuspendedAt = now, w.grant.Refreshes
		w.s.log.Warn("a webhook subscription is suspended, for none of its tries has gone well for half an hour; its subscriber revives it by subscribing again",
			"subscription", w.id, "principal", w.grant.Principal, "why", out.failure)
	}
}

// controlID names a control body.
func (s *Service) controlID(kind string) string { return "msg_" + kind + "_" + s.opt.NewID() }

// gap makes the body that tells of one.
func (s *Service) gap(cursor string) *message {
	body, _ := json.Marshal(map[string]string{"type": "gap", "cursor": cursor}) // of strings: it cannot fail
	return &message{id: s.controlID("gap"), body: body, control: true}
}

// terminate tells the receiver why nothing comes any more, as often as an
// occurrence would be tried. It reports false where the context or a new grant
// came in between.
func (w *worker) terminate(ctx context.Context, why *Ended) bool {
	id := w.s.controlID("terminated")
	body, err := json.Marshal(map[string]any{"type": "terminated", "error": why})
	if err != nil {
		return true // nobody can be told
	}
	w.s.log.Info("a webhook subscription ends", "subscription", w.id, "why", why.Message)
	for try := 1; ; try++ {
		w.mu.Lock()
		url, host, keys, of := w.grant.URL, w.host, w.signing(), w.lane()
		w.mu.Unlock()
		if len(keys) == 0 {
			return true // the secret cannot be read, and nothing goes out unsigned
		}
		if try > 1 {
			of = laneFailed
		}
		leave, err := w.s.lanes.enter(ctx, of, w.principal, host)
		if err != nil {
			return false
		}
		out := w.s.post(context.WithoutCancel(ctx), url, w.id, id, keys, body)
		leave()
		pause, again := backoff(id, try)
		if out.ok || out.final || out.failure == fail4xx || !again {
			return true
		}
		if w.rest(ctx, pause) || ctx.Err() != nil {
			return false
		}
	}
}

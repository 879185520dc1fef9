package sim

import (
	"context"
	"errors"
	"math"
	"time"

	"attend/internal/engine"
	"attend/internal/judge"
)

// hearing is a call of the judge.
type hearing struct {
	window  string
	offered []engine.Route
	reply   judge.Reply
	err     error
}

var errReset = errors.New("read: connection reset by peer")

// bench is the judge of one life.
type bench struct{ life *life }

// Judge implements judge.Judge. What it says, and when, the world has drawn.
func (b *bench) Judge(ctx context.Context, in *judge.Input) (judge.Reply, error) {
	h := &hearing{window: in.Window.ID}
	for _, o := range in.Routes {
		h.offered = append(h.offered, o.Route)
	}
	b.life.world.log.asked(in)
	g := &gate{life: b.life, op: opJudge, key: h.window, done: ctx.Done(), judge: h}
	if newDraws(b.life.world.plan.Seed, "deaf to "+h.window).chance(30) {
		g.done = nil // it breaks the contract, and goes on when its time is up
	}
	switch b.life.world.park(g) {
	case goes:
		return h.reply, h.err
	case ended:
		return judge.Reply{}, ctx.Err()
	default:
		return judge.Reply{}, errReset
	}
}

// hear draws what the judge answers, and when.
func (w *World) hear(g *gate, d *draws, name string) {
	route := pick(d, g.judge.offered...)
	took := pick(d, 0, 0, time.Millisecond, 5*time.Millisecond, 50*time.Millisecond, 500*time.Millisecond)
	reply, err := judge.Reply{Answer: engine.Answer{Route: route}, Judge: engine.JudgeName{Name: judgeIO, Model: "m"}}, error(nil)
	bad := d.below(1000)
	if d.chance(300) {
		reply.Answer.Probabilities = map[engine.Route]float64{route: pick(d, 0.5, 1, 7, -1, math.NaN()), engine.Skip: 0.25}
		confidence := pick(d, 0.5, 2, math.NaN())
		reply.Answer.Confidence = &confidence
	}
	after := pick(d, 0, 50*time.Millisecond, time.Second)
	class := pick(d, judge.Transient, judge.Malformed, judge.Permanent, judge.Refused, judge.Held)
	if bad < 400 && w.faulty(name) {
		g.name = name
		switch {
		case bad < 60: // never, or far too late
			took = pick(d, 10*time.Second, 20*time.Second)
		case bad < 120: // it has done its work, and the answer is lost
			err = errReset
		case bad < 180:
			reply.Answer = engine.Answer{Route: pick(d, engine.Route(0), engine.Route(99), engine.Wait)}
		default:
			err = &judge.Error{Class: class, Message: "refused on purpose", RetryAfter: after}
		}
	}
	g.due = g.due.Add(took)
	g.judge.reply, g.judge.err = reply, err
}

package runner

import "attend/internal/engine"

// defaultSinkPlaces is how many deliveries run at once to one sink, of all scopes
// together, unless Options.SinkPlaces says otherwise. What waits for a place has no
// attempt in the log.
const defaultSinkPlaces = 32

// sinkLine are the places of one sink, and who waits for one. A scope whose last
// attempt hung, is slow. Half of the places at most are for the slow, so that
// many of them do not keep the others waiting. Within its line the longest
// waiting goes first.
type sinkLine struct {
	taken   int
	slow    int // of those
	waiting struct{ quick, slow []*delivery }
	hung    map[string]struct{} // scopes whose last attempt had no answer in its time
}

// sinkPlaces is how many deliveries to a sink run at once.
func (r *Runner) sinkPlaces(sink string) int {
	if r.opt.SinkPlaces != nil {
		if n := r.opt.SinkPlaces(sink); n > 0 {
			return n
		}
	}
	return defaultSinkPlaces
}

// line puts a delivery in line for a place of its sink.
func (s *sends) line(d *delivery, places int) {
	p := s.sinks[d.sink]
	if p == nil {
		p = &sinkLine{hung: make(map[string]struct{})}
		s.sinks[d.sink] = p
	}
	switch {
	case p.admits(d.slow, places):
		p.take(d)
	case d.slow:
		p.waiting.slow = append(p.waiting.slow, d)
	default:
		p.waiting.quick = append(p.waiting.quick, d)
	}
}

// leave takes a delivery out of the line, or gives its place to the next, which
// it returns.
func (s *sends) leave(d *delivery, places int) (next *delivery) {
	d.gone = true
	if !d.placed {
		return nil
	}
	p := s.sinks[d.sink]
	p.taken--
	if d.slow {
		p.slow--
	}
	if p.admits(true, places) {
		next = first(&p.waiting.slow)
	}
	if next == nil && p.admits(false, places) {
		next = first(&p.waiting.quick)
	}
	if next != nil {
		p.take(next)
	} else if p.taken == 0 {
		delete(s.sinks, d.sink)
	}
	return next
}

// admits reports whether there is a place.
func (p *sinkLine) admits(slow bool, places int) bool {
	return p.taken < places && (!slow || p.slow < max(places/2, 1))
}

func (p *sinkLine) take(d *delivery) {
	d.placed = true
	p.taken++
	if d.slow {
		p.slow++
	}
}

// first takes the first that still wants a place, nil for none.
func first(waiting *[]*delivery) (d *delivery) {
	for len(*waiting) > 0 {
		d, *waiting = (*waiting)[0], (*waiting)[1:]
		if !d.gone {
			return d
		}
	}
	return nil
}

// hung reports whether the last attempt of a delivery's scope at its sink is
// known to have hung.
func (s *sends) hung(d *delivery) bool {
	p := s.sinks[d.sink]
	if p == nil {
		return false
	}
	_, hung := p.hung[d.scope.name]
	return hung
}

// learn remembers whether the sink hangs for a scope.
func (s *sends) learn(a *arrival) {
	p, failed := s.sinks[a.delivery.sink], (*engine.Failed)(nil)
	if a.err != nil {
		f := failureOf(a)
		failed = &f
	}
	if hung(failed) {
		p.hung[a.delivery.scope.name] = struct{}{}
	} else {
		delete(p.hung, a.delivery.scope.name)
	}
}

// hung reports whether an attempt had no answer in its time.
func hung(f *engine.Failed) bool { return f != nil && (f.Why == "timeout" || f.Why == "lost") }

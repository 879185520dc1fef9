package webhook

import (
	"context"
	"errors"
	"sync"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
)

// worker delivers one subscription, for as long as this daemon owns its shard.
// Its run goroutine alone moves the track; the lock is for those who look.
type worker struct {
	s         *Service
	id        string
	principal string
	fence     store.Fence // under which its progress is written
	cancel    context.CancelFunc
	gone      chan struct{} // closed when it has ended
	wake      chan struct{} // the grant is another
	tried     chan tried    // what came of tries, never more than fly at once

	mu       sync.Mutex
	grant    *grant
	host     string
	signers  []signer // the secret, and those before
	locked   error    // the secret cannot be read
	progress progress
	track    *track
	health   health
	flying   int
	atOnce   int         // how many may fly
	hold     engine.Time // the receiver has asked for nothing before
	slow     bool        // it took long to answer the last try
	saved    engine.Time
	removed  bool // its rows are to stay deleted
}

// tried is what came of trying a message.
type tried struct {
	track   *track
	message *message
	outcome outcome
	slow    bool // the answer took long
	dropped bool // it was not tried after all
}

func newWorker(s *Service, g *grant, p *progress, fence store.Fence) *worker {
	w := &worker{
		s: s, id: g.ID, principal: g.Principal, fence: fence,
		gone: make(chan struct{}), wake: make(chan struct{}, 1), tried: make(chan tried, maxAtOnce),
		atOnce: 1,
	}
	if p == nil || p.Life != g.Life {
		p = &progress{Life: g.Life, Cursor: g.Start}
	}
	w.progress = *p
	w.track = newTrack(p.Cursor)
	w.track.resume(p)
	w.use(g)
	return w
}

// use takes a grant. The caller holds mu, or has the worker alone.
func (w *worker) use(g *grant) {
	w.grant, w.host = g, hostOf(g.URL)
	w.signers, w.locked = w.s.vault.signers(g)
}

// regrant goes on under a grant that is newer, from where delivery stands; or
// anew, where it begins another life.
func (w *worker) regrant(g *grant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	revived := w.progress.suspends(w.grant) && !w.progress.suspends(g)
	if g.Life != w.grant.Life {
		w.progress = progress{Life: g.Life, Cursor: g.Start}
		w.track = newTrack(g.Start)
		revived = true
	}
	w.use(g)
	if revived {
		w.health, w.hold, w.atOnce = health{}, 0, 1
		for _, m := range w.track.messages {
			m.tries, m.next = 0, 0
		}
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// works tells whether there is anything to deliver at all. The caller holds mu.
func (w *worker) works(now engine.Time) bool {
	return w.locked == nil && w.grant.live(now) && !w.progress.suspends(w.grant)
}

// restEvery is how often the clock is read again by whoever waits for it:
// timers do not count the time that a machine sleeps.
const restEvery = 30 * time.Second

// run delivers until the context ends or there is nothing to come any more.
func (w *worker) run(ctx context.Context) {
	defer close(w.gone)
	defer w.land()
	for ctx.Err() == nil {
		w.mu.Lock()
		works := w.works(w.s.now())
		w.mu.Unlock()
		if !works {
			w.rest(ctx, restEvery)
			continue
		}
		err := w.follow(ctx)
		var ended *Ended
		switch {
		case ctx.Err() != nil || err == nil:
		case errors.As(err, &ended):
			if w.terminate(ctx, ended) {
				w.s.remove(ctx, w)
				return
			}
		default:
			w.s.trouble(err)
			w.rest(ctx, time.Second)
		}
	}
}

// rest waits for a time, or until the grant is another.
func (w *worker) rest(ctx context.Context, d time.Duration) (woken bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-w.wake:
		return true
	case <-t.C:
	}
	return false
}

// read is what the feed has given.
type read struct {
	page Page
	err  error
}

// follow reads the feed and delivers what it gives. It returns nil when the
// worker is to look at its grant again.
func (w *worker) follow(ctx context.Context) error {
	w.mu.Lock()
	g, from := w.grant, w.track.read
	w.mu.Unlock()
	feed, err := w.s.feeds.Open(ctx, g.key(), from)
	if err != nil {
		return err
	}
	defer feed.Close()
	pages := make(chan read)
	reading, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			page, err := feed.Next(reading)
			select {
			case pages <- read{page, err}:
			case <-reading.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	defer func() { stop(); <-done }()
	return w.deliver(ctx, g.Life, pages, feed.Latest())
}

// deliver starts what is due, and takes what comes.
func (w *worker) deliver(ctx context.Context, life string, pages <-chan read, latest bool) error {
	for {
		pause, room, goes := w.start(ctx, life, latest)
		if !goes {
			return nil
		}
		from := pages
		if !room {
			from = nil
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case r := <-from:
			if r.err != nil {
				t.Stop()
				return r.err
			}
			w.take(&r.page, latest)
		case r := <-w.tried:
			w.land1(r)
		case <-w.wake:
		case <-t.C:
		}
		t.Stop()
	}
}

// start sends off what is due, and tells how long there will be nothing to do
// and whether more may be read. Without goes the worker is to look at its grant
// again.
func (w *worker) start(ctx context.Context, life string, latest bool) (pause time.Duration, room, goes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.s.now()
	if w.grant.Life != life || !w.works(now) {
		return 0, false, false
	}
	most := w.atOnce
	if latest {
		most = 1
	}
	var at engine.Time
	if now < w.hold {
		at = w.hold
	}
	for at == 0 && w.flying < most {
		var m *message
		if m, at = w.track.due(now); m == nil {
			break
		}
		m.flying = true
		w.flying++
		go w.try(ctx, w.track, m, w.host, w.lane())
	}
	pause = restEvery
	for _, due := range []engine.Time{at, w.grant.Expires} {
		if due != 0 {
			pause = min(pause, time.Duration(due-now)*time.Millisecond)
		}
	}
	return pause, w.track.room(), true
}

// lane is where the next try belongs. The caller holds mu.
func (w *worker) lane() lane {
	if w.progress.FailedSince != 0 || w.slow {
		return laneFailed
	}
	return laneSound
}

// try sends a message once there is a place for it. What is on its way is not
// cut off: whether it has arrived would not be known.
func (w *worker) try(ctx context.Context, t *track, m *message, host string, of lane) {
	leave, err := w.s.lanes.enter(ctx, of, w.principal, host)
	if err != nil {
		w.tried <- tried{track: t, message: m, dropped: true}
		return
	}
	defer leave()
	w.mu.Lock()
	url, body := w.grant.URL, []byte(m.body)
	if !m.control {
		body = whole(m.body, t.watermark())
	}
	keys := w.signing()
	w.mu.Unlock()
	begun := time.Now()
	out := w.s.post(context.WithoutCancel(ctx), url, w.id, m.id, keys, body)
	w.tried <- tried{track: t, message: m, outcome: out, slow: time.Since(begun) > slowAnswer}
}

// take adds what was read to what is to be delivered.
func (w *worker) take(p *Page, latest bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.Gap {
		w.track.add(w.s.gap(p.GapCursor), p.GapCursor)
	}
	for i := range p.Occurrences {
		o := &p.Occurrences[i]
		m := &message{id: o.ID, body: o.Body}
		if latest {
			w.track.replace(m, o.Cursor)
		} else {
			w.track.add(m, o.Cursor)
		}
	}
	w.track.read = p.Cursor
	if now := w.s.now(); p.Gap || now-w.saved >= engine.Time(idleSave.Milliseconds()) {
		w.s.saveLater(w)
	}
}

// idleSave is how often a place is stored that moves although nothing is to be
// delivered.
const idleSave = time.Minute

// land waits for what is on its way, when the worker ends.
func (w *worker) land() {
	for {
		w.mu.Lock()
		flying := w.flying
		w.mu.Unlock()
		if flying == 0 {
			return
		}
		w.land1(<-w.tried)
	}
}

package source

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"attend/internal/engine"
	"attend/internal/store"
)

// reopenAfter is how long a stream rests that has ended, overflown or gone
// silent, before it is opened again (seed, "What the source does with the
// protocol").
const reopenAfter = time.Second

// worker runs one source while its shard is this daemon's. One goroutine does
// everything; what a stream brings is put into an inbox by its reader.
type worker struct {
	s      *Service
	f      *feed
	fence  store.Fence
	cancel context.CancelFunc
	gone   chan struct{}
	ended  atomic.Bool // the subscription is over

	polls  bool   // the event type is not streamed
	stored string // the cursor in the store
	cursor string // the one to go on from, in the store or about to be

	lost map[string]bool // scopes that were told of the last gap, where data makes scopes; nil without a gap
	gap  bool            // a gap is to be told with the next commit
	bare time.Time       // when a gap was last told, if no event came since

	pace   *rate.Limiter        // of commits without events
	warned map[string]time.Time // when trouble of a kind was last logged

	active time.Time // when the stream was last said to be active; zero before

	tries  int   // since the server last brought the source on
	broken int   // sessions that broke, since then
	stalls int   // since something was last stored
	own    *link // a session of its own, while the one that is shared breaks with what comes next
}

func newWorker(s *Service, f *feed, fence store.Fence) *worker {
	return &worker{
		s: s, f: f, fence: fence, gone: make(chan struct{}), warned: make(map[string]time.Time),
		pace: rate.NewLimiter(rate.Every(minPoll), bareBurst),
	}
}

// over reports whether the worker has ended.
func (w *worker) over() bool {
	select {
	case <-w.gone:
		return true
	default:
		return false
	}
}

// run subscribes, and subscribes again, until the context or the subscription
// ends.
func (w *worker) run(ctx context.Context) {
	defer close(w.gone)
	defer w.s.nudge()
	w.f.link.enter()
	defer w.f.link.leave()
	defer w.share()
	for ctx.Err() == nil {
		err := w.subscribe(ctx)
		if ctx.Err() != nil || errors.Is(err, store.ErrFenced) {
			return // another goes on from what is stored
		}
		var why *fault
		if !errors.As(err, &why) {
			why = &fault{kind: kindStore, remedy: backOff, ours: true, cause: err}
		}
		if why.remedy == end {
			w.end(why)
			return
		}
		t := time.NewTimer(w.pause(why))
		select {
		case <-ctx.Done():
		case <-t.C:
		}
		t.Stop()
	}
}

// end notes that the subscription is over.
func (w *worker) end(why *fault) {
	w.ended.Store(true)
	w.trouble(why.kind, why)
	w.f.board.enter(Ended, w.s.now())
	w.s.log.Error("a source has ended: its server refuses the subscription; mend the cause and reload the configuration",
		"source", w.f.Name, "server", w.f.Server, "event", w.f.Event, "error", w.words(why))
}

// pause tells of a fault, and how long to rest after it.
func (w *worker) pause(why *fault) time.Duration {
	w.trouble(why.kind, why)
	now := w.s.now()
	if why.remedy == reopen {
		w.f.board.enter(Connecting, now)
		w.s.log.Warn("a source opens its stream again", "source", w.f.Name, "why", why.kind, "error", w.words(why), "in", reopenAfter)
		return reopenAfter
	}
	count := &w.tries
	if why.ours {
		count = &w.stalls
	}
	*count++
	rest := w.rung(*count)
	state := BackingOff
	if w.broken >= stuckAfter {
		state = Stuck
	}
	w.f.board.enter(state, now)
	w.f.board.change(func(s *Status) {
		s.RetryAt = now + engine.Time(rest.Milliseconds())
		s.Counts.Retries++
	})
	w.s.log.Warn("retrying", "stage", "source", "source", w.f.Name, "why", why.kind, "error", w.words(why), "attempt", *count, "in", rest)
	return rest
}

// rung is how long to wait after so many failures: the rungs of retryBackoffMs,
// the last one repeated, each lengthened by a jitter that follows from the
// source's key.
func (w *worker) rung(failures int) time.Duration {
	set := w.s.opt.Policy().For(w.f.Source.Scope)
	rungs := set.RetryBackoffMs
	ms := reopenAfter.Milliseconds() // of a ladder without rungs
	if len(rungs) > 0 {
		ms = rungs[min(failures, len(rungs))-1]
	}
	ms += int64(float64(ms) * set.RetryJitter * engine.Jitter(w.f.key, failures))
	return time.Duration(ms) * time.Millisecond
}

// trouble counts and shows what went wrong.
func (w *worker) trouble(kind string, err error) {
	w.s.metrics.errors.WithLabelValues(w.f.Name, kind).Inc()
	now, text := w.s.now(), w.words(err)
	w.f.board.change(func(s *Status) { s.LastError = &Trouble{kind, text, now} })
}

// words are an error as people are shown it. A server may have repeated in it
// what it was asked with, the token and the query of its address among that.
func (w *worker) words(err error) string { return clip(w.f.Dialer.Redact(err.Error()), maxWords) }

// warnEvery is how often trouble is logged that is counted each time.
const warnEvery = 10 * time.Second

// warn tells of trouble in spite of which the source goes on.
func (w *worker) warn(kind string, err error) {
	w.trouble(kind, err)
	if w.seldom(kind) {
		w.s.log.Warn("trouble with a source, which goes on", "source", w.f.Name, "server", w.f.Server, "kind", kind, "error", w.words(err))
	}
}

// seldom reports whether it is time to log something again.
func (w *worker) seldom(what string) bool {
	now := time.Now()
	if last, told := w.warned[what]; told && now.Sub(last) < warnEvery {
		return false
	}
	w.warned[what] = now
	return true
}

// unrouted tells of a notification that belongs to no stream.
func (w *worker) unrouted() {
	w.trouble(kindUnrouted, errors.New("a notification names a subscription that nobody here has opened"))
	w.s.log.Debug("a notification belongs to no stream", "source", w.f.Name, "server", w.f.Server)
}

// subscribe goes on from the stored cursor until something breaks it off, and
// returns what.
func (w *worker) subscribe(ctx context.Context) error {
	w.f.board.enter(Connecting, w.s.now())
	if err := w.load(ctx); err != nil {
		return err
	}
	way := w.way()
	session, err := way.get(ctx, w.unrouted)
	if err != nil {
		return ofServer("connect to "+w.f.Server, err)
	}
	polls, err := w.choose(ctx, session)
	if err == nil && !polls {
		err = w.stream(ctx, session)
		if polls = w.f.Mode == ModeAuto && unsupported(err); polls {
			w.s.log.Info("the server does not stream this event type: it is polled", "source", w.f.Name, "event", w.f.Event)
			w.polls, err = true, nil
		}
	}
	if err == nil {
		err = w.poll(ctx, session)
	}
	if errors.Is(err, ErrClosed) {
		way.drop(session)
		w.breaks()
	}
	return err
}

// choose tells whether the event type is polled.
func (w *worker) choose(ctx context.Context, session Session) (polls bool, err error) {
	switch {
	case w.f.Mode == ModePoll:
		return true, nil
	case w.f.Mode == ModeStream:
		return false, nil
	case w.polls:
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	found, err := session.Find(ctx, w.f.Event)
	if err != nil {
		return false, ofServer("events/list", err)
	}
	return !found.pushes(), nil
}

// unsupported reports whether the server has answered that it does not stream
// the event type.
func unsupported(err error) bool {
	why, ok := errors.AsType[*fault](err)
	return ok && why.kind == kindRefused && isCode(err, codeUnsupported)
}

// request is what the server is asked with.
func (w *worker) request() Request {
	return Request{
		Name: w.f.Event, Arguments: w.f.Arguments, Cursor: w.cursor,
		MaxAgeMs: w.f.MaxAge.Milliseconds(), MaxEvents: w.f.MaxEvents,
	}
}

// works notes that the server did what it was asked for. What that means for the
// next failure is for whoever calls.
func (w *worker) works(state State, mode Mode) {
	w.f.board.enter(state, w.s.now())
	w.f.board.change(func(s *Status) { s.Mode = mode })
}

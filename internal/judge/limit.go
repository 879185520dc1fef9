package judge

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"attend/internal/engine"
)

// Why a call is held.
const (
	whyBreaker = "breaker" // the judge is down, or asked for a pause
	whyProbe   = "probe"   // one call finds out whether it is back
	whyCalls   = "dailyCalls"
	whyTokens  = "dailyTokens"
	whyPlace   = "concurrency"
	whyRate    = "perSecond"
)

// placeWait is how long a call is held for which no place was free in its time.
const placeWait = 2 * time.Second

// Limits bound what one judge is asked. 0 is no limit.
type Limits struct {
	Concurrency int     // calls at once; the next wait for a place, first come first served
	PerSecond   float64 // calls begun in a second, evenly spaced
	DailyCalls  int     // requests in a day of UTC
	DailyTokens int64   // tokens, in and out, in a day of UTC; calls that are out when it is reached are not broken off
	Metrics     *Metrics
	Now         func() time.Time // nil is time.Now
}

// Limit keeps a judge within limits, and keeps calls from one that is down.
//
// A call for which there is no room is Held, so that its window keeps its
// attempts: RetryAfter says when there may be. It waits for a place and for its
// turn within the rate for half of its time at most, which leaves the judge the
// other half.
//
// Five transient failures in a row open the breaker; after 10 s one call is let
// through to find out, after each one that fails the pause is twice as long, up
// to 5 minutes. A 429 or 503 with Retry-After opens it at once for that long (5
// minutes at most), whoever made the call: so that a judge which is too busy is
// not asked again by everyone at once. Permanent, refused and malformed answers
// do not open it.
//
// What was spent today is counted in memory: a restart begins at nothing, and
// each replica counts for itself.
//
// Errors: a limit that is negative or no number.
func Limit(name string, j Judge, l Limits) (Judge, error) {
	switch {
	case l.Concurrency < 0 || l.DailyCalls < 0 || l.DailyTokens < 0:
		return nil, fmt.Errorf("limit judge %q: concurrency, dailyCalls and dailyTokens are not negative", name)
	case math.IsNaN(l.PerSecond) || math.IsInf(l.PerSecond, 0) || l.PerSecond < 0:
		return nil, fmt.Errorf("limit judge %q: perSecond is %v: want a number, 0 or more", name, l.PerSecond)
	}
	out := &limited{judge: j, limits: l, now: l.Now, metrics: l.Metrics.of(name)}
	if out.now == nil {
		out.now = time.Now
	}
	if l.Concurrency > 0 {
		out.places = semaphore.NewWeighted(int64(l.Concurrency))
	}
	if l.PerSecond > 0 {
		out.rate = rate.NewLimiter(rate.Limit(l.PerSecond), 1)
	}
	return out, nil
}

type limited struct {
	judge   Judge
	limits  Limits
	now     func() time.Time
	metrics judgeMetrics
	places  *semaphore.Weighted // nil: as many as come
	rate    *rate.Limiter       // nil: as fast as they come

	mu      sync.Mutex
	breaker breaker
	day     int64 // that calls and tokens are of, since 1970
	calls   int
	tokens  int64
	chosen  time.Time     // until when nobody but the call that Held let through makes the probe
	back    time.Time     // when the last of those that were turned away may come back
	took    time.Duration // of the last call
}

// Judge implements Judge.
func (l *limited) Judge(ctx context.Context, in *Input) (Reply, error) {
	if held := l.refuse(); held != nil {
		return Reply{}, held // it need not queue to hear that
	}
	leave, err := l.queue(ctx)
	if err != nil {
		return Reply{}, err
	}
	defer leave()
	p, held := l.enter()
	if held != nil {
		return Reply{}, held // what became of the calls before it
	}
	began := l.now()
	reply, err := l.judge.Judge(ctx, in)
	l.done(ctx, p, l.now().Sub(began), reply.Calls, err)
	return reply, err
}

// Held implements Gate. Of many who ask when a pause is over one is let through,
// to be the probe.
func (l *limited) Held() *Error {
	l.mu.Lock()
	defer l.mu.Unlock()
	why, wait := l.check()
	if now := l.now(); why == "" && l.breaker.open {
		if now.Before(l.chosen) {
			why, wait = whyProbe, l.chosen.Sub(now)
		} else {
			l.chosen = now.Add(maxBehind)
		}
	}
	if why == "" {
		return nil
	}
	return l.hold(why, wait)
}

// queue waits for a place and for a turn within the rate, for half of the
// call's time at most. leave gives the place back.
func (l *limited) queue(ctx context.Context) (leave func(), err error) {
	wait, cancel := l.half(ctx)
	defer cancel()
	leave = func() {}
	if l.places != nil {
		if l.places.Acquire(wait, 1) != nil {
			return nil, l.gaveUp(ctx, whyPlace, placeWait)
		}
		leave = func() { l.places.Release(1) }
	}
	if err := l.turn(ctx, wait); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// turn waits until the rate allows a call.
func (l *limited) turn(ctx, wait context.Context) error {
	if l.rate == nil {
		return nil
	}
	now := l.now()
	r := l.rate.ReserveN(now, 1)
	delay := r.DelayFrom(now)
	if deadline, ok := wait.Deadline(); ok && delay > deadline.Sub(now) {
		r.CancelAt(now)
		return l.gaveUp(ctx, whyRate, delay)
	}
	if delay == 0 {
		return nil
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-wait.Done():
		r.CancelAt(l.now())
		return l.gaveUp(ctx, whyRate, delay)
	}
}

func (l *limited) half(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, deadline.Sub(l.now())/2)
}

// gaveUp is what a call ends with that waited in vain, or was called off.
func (l *limited) gaveUp(ctx context.Context, why string, wait time.Duration) error {
	if ctx.Err() != nil {
		return fmt.Errorf("wait for the judge: %w", ctx.Err())
	}
	return l.hold(why, l.turnAway(why, wait))
}

// turnAway spreads those that are turned away over the time in which there may
// be room for them: one that came back with all the others would find none.
func (l *limited) turnAway(why string, wait time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	each := l.took / time.Duration(max(l.limits.Concurrency, 1))
	if why == whyRate {
		each = time.Duration(float64(time.Second) / l.limits.PerSecond)
	}
	now := l.now()
	at := now.Add(wait)
	if next := l.back.Add(each); next.After(at) {
		at = next
	}
	if most := now.Add(max(wait, maxPause)); at.After(most) {
		at = most
	}
	l.back = at
	return at.Sub(now)
}

// refuse tells of what makes waiting idle.
func (l *limited) refuse() error {
	l.mu.Lock()
	why, wait := l.check()
	l.mu.Unlock()
	if why == "" {
		return nil
	}
	return l.hold(why, wait)
}

// enter counts a call that may be made.
func (l *limited) enter() (pass, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if why, wait := l.check(); why != "" {
		return pass{}, l.hold(why, wait)
	}
	l.calls++
	return l.breaker.enter(), nil
}

// check tells why no call may be made, "" when one may.
func (l *limited) check() (why string, wait time.Duration) {
	now := l.now()
	l.today(now)
	midnight := now.UTC().Truncate(day).Add(day).Sub(now)
	switch {
	case l.limits.DailyCalls > 0 && l.calls >= l.limits.DailyCalls:
		return whyCalls, midnight
	case l.limits.DailyTokens > 0 && l.tokens >= l.limits.DailyTokens:
		return whyTokens, midnight
	}
	return l.breaker.check(now)
}

const day = 24 * time.Hour

// today forgets what was spent on an earlier day.
func (l *limited) today(now time.Time) {
	if today := now.Unix() / int64(day/time.Second); l.day != today {
		l.day, l.calls, l.tokens = today, 0, 0
	}
}

// done counts what a call took, on the day on which it ended, and what it tells about the judge.
func (l *limited) done(ctx context.Context, p pass, took time.Duration, calls []engine.Exchange, err error) {
	var failed *Error
	if err != nil && !errors.As(err, &failed) {
		failed = &Error{Class: Transient}
	}
	if failed != nil {
		calls = failed.Calls
	}
	found, asked := learn(failed, errors.Is(ctx.Err(), context.Canceled))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took = took
	l.today(l.now())
	l.calls += max(0, len(calls)-1) // one was counted as it began
	for i := range calls {
		l.tokens += tokens(calls[i].InputTokens) + tokens(calls[i].OutputTokens)
	}
	l.tokens = min(l.tokens, maxTokens) // more are as good as spent
	l.breaker.done(p, l.now(), found, asked)
	l.metrics.breaker(l.breaker.open)
}

// maxTokens is more than a day can take.
const maxTokens = 1 << 60

// tokens is what a host says that a call took, as far as it counts: a budget
// cannot be given back, and no call takes more than most.
func tokens(said int64) int64 {
	const most = 1 << 40
	return min(max(said, 0), most)
}

// hold makes the failure of a call that was not made.
func (l *limited) hold(why string, wait time.Duration) *Error {
	l.metrics.hold(why)
	return &Error{Class: Held, Message: "the judge was not asked: " + because(why), RetryAfter: wait}
}

func because(why string) string {
	switch why {
	case whyBreaker:
		return "it failed, or asked for a pause, and is left alone for now"
	case whyProbe:
		return "another call finds out whether it is back"
	case whyCalls:
		return "dailyCalls are spent"
	case whyTokens:
		return "dailyTokens are spent"
	case whyPlace:
		return "no place was free in time (concurrency)"
	default:
		return "there was no turn in time (perSecond)"
	}
}

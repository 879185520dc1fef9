package judge

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"attend/internal/engine"
)

// Composition is judges in the order in which they are asked (design,
// section 8). One whose condition does not hold is passed over; the last of the
// others is the last resort.
type Composition []Entry

// Entry is one judge of a composition, and when the next one is asked.
type Entry struct {
	// Name is the judge's own within the composition; answers and exchanges carry it.
	Name  string
	Judge Judge
	// When tells whether it is this judge's turn; nil is always. Where it fails
	// the judge is passed over, and an exchange tells why.
	When func(*Input) (bool, error)
	// Below is the bar in [0, 1] for the answer's confidence: under it, or with
	// none given, the next judge is asked. 0 takes every answer.
	Below float64
	// OnErrorNext asks the next judge after a failure of any class. Without it a
	// failure ends the attempt.
	OnErrorNext bool
	// Timeout is the most that this judge may take of the call's time. 0 is half
	// of what is left where another judge may be asked after it, else all of it.
	// Where another may be asked, a part is kept for it however long this is.
	Timeout time.Duration
	// Instant says that the judge asks nobody. It is asked even when the call's
	// time is over.
	Instant bool
}

// Compose makes one judge of several.
//
// The answer is that of the first judge which neither failed nor stayed under
// its bar. The bar of the last one asked does not count: its answer is taken,
// there is none better. After a failure OnErrorNext decides alone: with it the
// next judge is asked, and where none is left the answer of an earlier judge
// that stayed under its bar is taken; without it the attempt has failed, for
// whoever set a bar would rather wait than act on less.
//
// An error says what each judge that failed came to, by name. An attempt in
// which several failed has the class of the last failure. But it
// is not Permanent or Refused while another of them may answer later: then that
// one's. Held carries the shortest time after which one may be asked.
//
// Errors of Compose: no judge, two of one name, a bar or a time out of range, a
// judge that can never be asked. Those of the judge are *Error, with every
// exchange of the attempt in order.
func Compose(c Composition) (Judge, error) {
	if len(c) == 0 {
		return nil, errors.New("compose judges: there is none")
	}
	seen := map[string]bool{}
	out := &composed{entries: make([]Entry, len(c))}
	for i, e := range c {
		switch {
		case e.Name == "" || e.Judge == nil:
			return nil, fmt.Errorf("compose judges: the judge at place %d has no name or is none", i+1)
		case seen[e.Name]:
			return nil, fmt.Errorf("compose judges: two are named %q", e.Name)
		case math.IsNaN(e.Below) || e.Below < 0 || e.Below > 1:
			return nil, fmt.Errorf("compose judges: below of %q is %v: want 0 to 1", e.Name, e.Below)
		case e.Timeout < 0:
			return nil, fmt.Errorf("compose judges: the timeout of %q is negative", e.Name)
		case i < len(c)-1 && e.When == nil && !e.handsOver():
			return nil, fmt.Errorf("compose judges: %q can never be asked, since %q answers every window: "+
				"give that one a condition (when), a bar (below) or onError: next", c[i+1].Name, e.Name)
		}
		seen[e.Name] = true
		e.Judge = Named(e.Name, e.Judge)
		out.entries[i] = e
	}
	return out, nil
}

// handsOver reports whether another may be asked once this judge was.
func (e *Entry) handsOver() bool { return e.Below > 0 || e.OnErrorNext }

// under reports whether an answer stays under the bar. A confidence that is no
// number from 0 to 1 counts as none.
func (e *Entry) under(a *engine.Answer) bool {
	return e.Below > 0 && (a.Confidence == nil || !(*a.Confidence >= e.Below && *a.Confidence <= 1))
}

type composed struct{ entries []Entry }

// Judge implements Judge.
func (c *composed) Judge(ctx context.Context, in *Input) (Reply, error) {
	var a attempt
	turns := c.turns(in, &a)
	if len(turns) == 0 {
		return Reply{}, a.end(&Error{Class: Permanent, Message: passedOver(len(c.entries), len(a.calls))})
	}
	for i, e := range turns {
		last := i == len(turns)-1
		reply, err := a.ask(ctx, e, in, last)
		switch {
		case err != nil && (!e.OnErrorNext || errors.Is(ctx.Err(), context.Canceled)):
			return Reply{}, a.end(a.failure())
		case err != nil:
			continue
		case !last && e.under(&reply.Answer):
			a.keep(reply)
		default:
			reply.Calls = a.calls
			return reply, nil
		}
	}
	if a.kept != nil {
		a.kept.Calls = a.calls
		return *a.kept, nil
	}
	return Reply{}, a.end(a.failure())
}

// Held implements Gate: nobody who might be asked about a window can be asked.
// Conditions may look at facts, so that whose turn it is is not known yet.
func (c *composed) Held() *Error {
	var a attempt
	for i := range c.entries {
		e := &c.entries[i]
		held := HeldBy(e.Judge)
		if held == nil {
			return nil
		}
		a.failures = append(a.failures, failed{e.Name, held})
		if e.When == nil && !e.OnErrorNext {
			break
		}
	}
	return a.failure()
}

// turns are the judges whose condition holds. A condition looks at the window
// alone, so that all are known before the first is asked.
func (c *composed) turns(in *Input, a *attempt) []*Entry {
	var turns []*Entry
	for i := range c.entries {
		e := &c.entries[i]
		if e.When == nil {
			turns = append(turns, e)
			continue
		}
		holds, err := e.When(in)
		switch {
		case err != nil:
			a.calls = append(a.calls, engine.Exchange{Judge: e.Name, Outcome: outcomePassed, Message: "its condition failed: " + err.Error()})
		case holds:
			turns = append(turns, e)
		}
	}
	return turns
}

func passedOver(all, failed int) string {
	msg := fmt.Sprintf("no judge was asked: of %d, none has a condition that holds for this window", all)
	if failed > 0 {
		msg += fmt.Sprintf(" (%d failed)", failed)
	}
	return msg + "; add one without a condition at the end"
}

// attempt is what became of one call of a composition so far.
type attempt struct {
	calls    []engine.Exchange
	kept     *Reply // the last answer that stayed under its bar
	failures []failed
}

// failed is a judge that was asked in vain, and why.
type failed struct {
	name string
	*Error
}

// ask asks one judge within its share of the time, and notes what came of it.
func (a *attempt) ask(ctx context.Context, e *Entry, in *Input, last bool) (Reply, error) {
	late := errors.Is(ctx.Err(), context.DeadlineExceeded) && len(a.calls) > 0
	if late && !e.Instant {
		return Reply{}, a.leaveOut(e)
	}
	ctx, cancel := a.share(ctx, e, last)
	defer cancel()
	reply, err := e.Judge.Judge(ctx, in)
	if err == nil {
		a.calls = append(a.calls, reply.Calls...)
		return reply, nil
	}
	var classed *Error // as Named makes every error
	errors.As(err, &classed)
	a.calls = append(a.calls, classed.Calls...)
	a.failures = append(a.failures, failed{e.Name, classed})
	return Reply{}, err
}

// leaveOut notes that a judge was not asked, for which those before it left no
// time: its breaker must not take that for an outage.
func (a *attempt) leaveOut(e *Entry) error {
	err := &Error{Class: Transient, Message: "not asked: the judges before it left no time"}
	a.calls = append(a.calls, engine.Exchange{Judge: e.Name, Outcome: outcomeTimeout, Message: err.Message})
	a.failures = append(a.failures, failed{e.Name, err})
	return err
}

// share is a judge's part of the time that is left. One that hangs must leave
// the next something to answer in, whatever its own timeout says; the last must
// leave enough to fall back on an answer that is there already.
func (a *attempt) share(ctx context.Context, e *Entry, last bool) (context.Context, context.CancelFunc) {
	if e.Instant {
		return context.WithoutCancel(ctx), func() {}
	}
	limit := e.Timeout
	deadline, bounded := ctx.Deadline()
	if bounded && (!last && e.handsOver() || last && e.OnErrorNext && a.kept != nil) {
		left := time.Until(deadline)
		if limit == 0 && !last {
			limit = left / 2
		}
		if most := left - min(max(left/10, leastRest), left/2); limit == 0 || limit > most {
			limit = most
		}
	}
	if limit <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}

// leastRest is what is kept at least for the judges after one that hangs: it
// may take a moment to end.
const leastRest = 50 * time.Millisecond

// keep remembers an answer that stayed under its bar.
func (a *attempt) keep(r Reply) {
	call := &a.calls[len(a.calls)-1]
	said := fmt.Sprintf("%s, with no confidence", r.Answer.Route)
	if c := r.Answer.Confidence; c != nil {
		said = fmt.Sprintf("%s, with confidence %.3g", r.Answer.Route, *c)
	}
	if call.Message != "" {
		said += "; " + call.Message
	}
	call.Outcome, call.Message = outcomeBelow, said
	a.kept = &r
}

// failure is that of the attempt.
func (a *attempt) failure() *Error {
	chosen := a.failures[len(a.failures)-1]
	if chosen.Class == Permanent || chosen.Class == Refused {
		for _, f := range a.failures {
			if f.Class != Permanent && f.Class != Refused {
				chosen = f
			}
		}
	}
	e := *chosen.Error
	e.Message = chosen.name + ": " + e.Message
	if len(a.failures) > 1 { // what is said of a status is said of each
		told := make([]string, len(a.failures))
		for i, f := range a.failures {
			told[i] = f.name + ": " + f.Error.Error()
		}
		e.Message, e.Status, e.RequestID = strings.Join(told, "; "), 0, ""
	}
	if e.Class == Held {
		for _, f := range a.failures {
			if f.Class == Held && f.RetryAfter > 0 && (e.RetryAfter == 0 || f.RetryAfter < e.RetryAfter) {
				e.RetryAfter = f.RetryAfter
			}
		}
	}
	return &e
}

func (a *attempt) end(e *Error) *Error {
	e.Calls = a.calls
	return e
}

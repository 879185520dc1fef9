package feed

import (
	"context"
	"errors"
	"slices"
	"time"

	"attend/internal/engine"
)

// What one answer to a wait holds at most. Bytes count the decisions' JSON and
// their notices once more, which stand beside it as text.
const (
	MaxAnswerDecisions = 50
	MaxAnswerBytes     = 256 << 10
)

// Why a wait ended without anything to show.
var (
	errTimeout    = errors.New("the wait timed out")
	errSuperseded = errors.New("a newer call waits for this consumer")
	errClosing    = errors.New("the daemon is stopping")
)

// Want is what a caller waits for. The zero Filter.Routes and Ends stand for
// the defaults: interrupt, queue and ask end the wait, notes ride along.
type Want struct {
	// Filter selects decisions. Kinds are ignored. When Routes are named, they
	// end the wait, and notes still ride along.
	Filter  Filter
	Timeout time.Duration // 0 only looks
}

// ends selects what ends the wait.
func (w *Want) ends() Filter {
	f := w.Filter
	f.Kinds = []Kind{KindDecision}
	if len(f.Routes) == 0 {
		f.Routes = []engine.Route{engine.Interrupt, engine.Queue, engine.Ask}
	}
	return f
}

// rides selects what goes into the answer once the wait has ended.
func (w *Want) rides() Filter {
	f := w.ends()
	if !slices.Contains(f.Routes, engine.Note) {
		f.Routes = append(slices.Clone(f.Routes), engine.Note)
	}
	return f
}

// Answer is what came of a wait.
type Answer struct {
	Items  []Item // decisions, in log order
	Cursor Cursor // the place after the answer
	// Ack, unless empty, is what the consumer's next call sends back to have
	// its position moved past this answer.
	Ack         string
	Redelivered bool // this answer was given before, and no ack came back
	Truncated   bool // positions before this answer were lost to retention
	TimedOut    bool
}

// WaitAt waits for decisions after a position that the caller keeps. An answer
// without decisions (the time is over, the daemon stops) has a cursor that
// passes no note which would have ridden along.
func (c *Consumers) WaitAt(ctx context.Context, after engine.Position, want Want) (Answer, error) {
	ctx, leave, err := c.enter(ctx, "")
	defer leave()
	timedOut := false
	if err == nil {
		_, timedOut, err = c.await(ctx, after, &want)
	}
	if err != nil && !empties(err) {
		return Answer{}, err
	}
	ended := err == nil && !timedOut
	last, cancel := detached(ctx)
	defer cancel()
	page, err := c.answer(last, after, &want, ended)
	if err != nil {
		return Answer{}, err
	}
	head, err := c.reader.Head(last)
	if err != nil {
		return Answer{}, err
	}
	return Answer{
		Items:     page.Items,
		Cursor:    Cursor{Epoch: head.Epoch, Position: page.Next},
		Truncated: page.Truncated,
		TimedOut:  timedOut,
	}, nil
}

// answer reads what goes into an answer. When the wait has not ended it is
// empty, and stops before the first decision that would ride along.
func (c *Consumers) answer(ctx context.Context, after engine.Position, want *Want, ended bool) (Page, error) {
	rides := want.rides()
	if ended {
		return c.reader.page(ctx, after, &rides, &budget{items: MaxAnswerDecisions, bytes: MaxAnswerBytes, size: answerSize})
	}
	return c.reader.page(ctx, after, &rides, &budget{items: 0})
}

func answerSize(it *Item) int { return jsonSize(it) + len(it.Decision.Notice) }

// await returns when something that ends the wait stands after a position, or
// when the time is over. It tells how far there is nothing. The error is the
// context's cause where that is why it returned.
func (c *Consumers) await(ctx context.Context, after engine.Position, want *Want) (checked engine.Position, timedOut bool, err error) {
	ends := want.ends()
	if want.Timeout <= 0 {
		return c.look(ctx, after, ends)
	}
	waiting, cancel := context.WithTimeoutCause(ctx, want.Timeout, errTimeout)
	defer cancel()
	checked, err = c.reader.Wait(waiting, after, ends)
	if err == nil || waiting.Err() == nil {
		return checked, false, err
	}
	if cause := context.Cause(waiting); !errors.Is(cause, errTimeout) {
		return checked, false, cause
	}
	// The time may have been up before the first look was through: whoever
	// waits for a moment at a time would never hear of what is there.
	return c.look(ctx, checked, ends)
}

// look is await without waiting.
func (c *Consumers) look(ctx context.Context, after engine.Position, ends Filter) (checked engine.Position, timedOut bool, err error) {
	page, err := c.reader.Page(ctx, after, ends, 1, 0)
	switch {
	case err != nil && ctx.Err() != nil:
		return after, false, context.Cause(ctx)
	case err != nil:
		return after, false, err
	case len(page.Items) > 0:
		return page.Items[0].Position - 1, false, nil
	}
	return page.Next, true, nil
}

// empties reports whether a wait that ended with err is answered with an empty
// answer: nobody is to blame.
func empties(err error) bool { return errors.Is(err, errSuperseded) || errors.Is(err, errClosing) }

// detached lets the last reads and writes of a call finish after its context
// has ended, within bounds.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
}

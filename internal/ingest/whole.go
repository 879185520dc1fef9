package ingest

import (
	"context"
	"errors"
	"fmt"

	"attend/internal/engine"
	"attend/internal/store"
)

// Whole is what a source brings: events, and the place behind them, which must
// never part.
type Whole struct {
	Gaps  []string // scopes whose source has lost events before these
	Lines []Line
	Puts  []store.Put // rows that are written in the commit of the events
	Fence store.Fence // under which it is written; the zero Fence is nobody's
}

// Busy says why nothing of a Whole was taken: one of its events may pass later.
type Busy struct {
	Scope string
	Code  Code // CodeWindowFull or CodeOutboxFull
	text  string
}

// Error says what holds the event up.
func (b *Busy) Error() string { return fmt.Sprintf("scope %q: %s", b.Scope, b.text) }

// PushWhole takes events in under the rules of a body's lines, and writes rows
// in the same commit. Lines that can never pass are left out, and stand in the
// result. Where one may pass later nothing is written, and the error is a
// *[Busy]; any other is the store's, and then nothing is known of the commit.
//
// Nobody is asked whether the scopes may be written to: whoever calls is a part
// of the daemon. That the context ends breaks off no commit.
func (h *Handler) PushWhole(ctx context.Context, w *Whole) (Result, error) {
	in, done := h.newIntake(ctx, "")
	defer done()
	in.may = nil
	for i := range w.Lines {
		l := &w.Lines[i]
		size := len(l.Scope) + len(l.Name) + len(l.ID) + len(l.Data) + len(l.Text)
		in.open(i+1, size)
		f := in.line(i+1, size, l)
		switch {
		case f == nil:
		case f.code.retryable():
			return Result{}, &Busy{Scope: l.Scope, Code: f.code, text: f.text}
		default:
			in.group.result.refuse(i+1, f)
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.limits.CommitTimeout)
	defer cancel()
	g := &in.group
	receipt, err := in.appendWhole(ctx, w)
	if err != nil {
		return Result{}, err
	}
	if len(g.events) > 0 {
		in.committed(ctx, receipt)
	}
	h.metrics.count(&g.result)
	in.total.add(&g.result)
	return in.result(), nil
}

// appendWhole writes the gaps, and in an entry behind them the events and rows.
func (in *intake) appendWhole(ctx context.Context, w *Whole) (store.Receipt, error) {
	entries := make([]store.Entry, 0, len(w.Gaps)+1)
	for _, scope := range w.Gaps {
		if checkScope(scope) == nil { // else no event can be of it
			entries = append(entries, store.Entry{Scope: scope, Steps: []engine.Step{{Kind: engine.StepGap}}})
		}
	}
	entries = append(entries, store.Entry{Events: in.group.events, Puts: w.Puts, Fence: w.Fence})
	receipts, err := in.h.log.Append(ctx, entries...)
	for i := 0; err == nil && i < len(receipts); i++ {
		err = receipts[i].Err
	}
	switch {
	case err == nil:
		in.h.outage.Worked("")
		return receipts[len(receipts)-1], nil
	case !errors.Is(err, store.ErrFenced):
		in.h.outage.Failed("", err)
	}
	return store.Receipt{}, store.Describe("append what a source brings", err)
}

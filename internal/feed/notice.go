package feed

import (
	"context"
	"fmt"

	"attend/internal/engine"
	"attend/internal/store"
)

// Notice is a decision's notice for whoever may read the data of its events: see
// engine.NoticeWithData. The events' data is read from the log.
func (r *Reader) Notice(ctx context.Context, d *engine.Decision) (string, error) {
	if d.Cut == 0 && !wordless(d.Events) {
		return d.Notice, nil
	}
	// However often a window was settled, its id names its events.
	steps, err := r.log.Steps(ctx, store.StepQuery{Window: d.ID, Kinds: []engine.StepKind{engine.StepSettled}, Limit: 1})
	if err != nil {
		return "", fmt.Errorf("read how window %s settled: %w", d.ID, err)
	}
	if len(steps) == 0 {
		return d.Notice, nil
	}
	settled := steps[0].Step.Settled
	records, err := r.log.Events(ctx, settled.Events)
	if err != nil {
		return "", fmt.Errorf("read the events of window %s: %w", d.ID, err)
	}
	return engine.NoticeWithData(d, settled, records), nil
}

// wordless reports whether an event has no text.
func wordless(views []engine.EventView) bool {
	for i := range views {
		if views[i].Text == "" {
			return true
		}
	}
	return false
}

package app

import (
	"context"
	"errors"
	"testing"

	"attend/internal/engine"
	"attend/internal/feed"
	"attend/internal/runner"
	"attend/internal/sink"
	"attend/internal/store"
)

// closedLog cannot be read.
type closedLog struct{ store.Log }

func (closedLog) Steps(context.Context, store.StepQuery) ([]engine.Record, error) {
	return nil, errors.New("the disk is away")
}

// uncalled is a sink that must not be called.
type uncalled struct{ t *testing.T }

func (u *uncalled) Deliver(context.Context, *sink.Message) error {
	u.t.Error("the sink was called")
	return nil
}

// A store that cannot be read is no failure of the sink.
func TestOutbox_StoreCannotBeRead(t *testing.T) {
	o := outbox{reader: feed.NewReader(closedLog{}), now: sinks{"agent": {Sink: &uncalled{t}}}}
	d := &engine.Decision{ID: "w1", Cut: 1}
	for _, p := range []*runner.Parcel{
		{Sink: "agent", ID: "w1", Decision: d},
		{Sink: "agent", ID: "l1", DeadLetter: &engine.DeadLetter{ID: "l1", Decision: d}},
	} {
		if err := o.Deliver(t.Context(), p); !errors.As(err, new(*runner.UnreadError)) {
			t.Errorf("%s: %v", p.ID, err)
		}
	}
}

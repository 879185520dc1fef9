package app

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"attend/internal/config"
	"attend/internal/engine"
	"attend/internal/feed"
	"attend/internal/program"
	"attend/internal/runner"
	"attend/internal/sink"
)

// sinks are those of a configuration, by name.
type sinks map[string]builtSink

// builtSink is a sink and what it was built of.
type builtSink struct {
	sink.Sink
	of     config.Sink
	places int // how many deliveries run at once; 0 is the runner's own number
	close  func()
}

// newSinks makes what takes decisions and dead letters. One that is the same in
// an earlier configuration goes on.
func newSinks(c *config.Config, before sinks) (sinks, error) {
	all := make(sinks)
	configured := c.Sinks
	if c.DeadLetters != nil {
		configured = append(configured[:len(configured):len(configured)], *c.DeadLetters)
	}
	for i := range configured {
		of := &configured[i]
		if known, there := before[of.Name]; there && config.Same(known.of, *of) {
			all[of.Name] = known
			continue
		}
		s, err := newSink(of)
		if err != nil {
			return nil, fmt.Errorf("sink %s: %w", of.Name, err)
		}
		if of.Timeout > 0 {
			s.Sink = sink.Within(of.Timeout, s.Sink)
		}
		all[of.Name] = s
	}
	return all, nil
}

func newSink(c *config.Sink) (builtSink, error) {
	b := builtSink{of: *c, close: func() {}}
	if c.URL != "" {
		s, err := sink.NewHTTP(c.URL, []byte(c.Key.Reveal()), ReadBuild().Version)
		if err == nil {
			b.Sink, b.places, b.close = s, sink.Connections, s.Close
		}
		return b, err
	}
	env := make(map[string]string, len(c.Variables))
	for _, v := range c.Variables {
		env[v.Name] = v.Value.Reveal()
	}
	spec, err := program.New(program.Options{Command: c.Command, Env: env}, os.Environ())
	if err != nil {
		return b, err
	}
	b.Sink = sink.NewCommand(spec)
	return b, nil
}

// outbox hands over to the sinks that are configured. What is for another is
// tried again: a replica may have it that has loaded its configuration already.
type outbox struct {
	reader *feed.Reader // for the data of events

	mu          sync.RWMutex
	now, before sinks // before are those of the configuration before
}

// put puts other sinks in force. A delivery whose start stands in the log already
// may be about to name one of those before: they stay until the next are put.
func (o *outbox) put(next sinks) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, s := range o.before { //arch:sorted each is closed
		if s.Sink != o.now[name].Sink && s.Sink != next[name].Sink {
			s.close()
		}
	}
	o.before, o.now = o.now, next
}

// current are the sinks in force.
func (o *outbox) current() sinks {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.now
}

// close lets go of connections.
func (o *outbox) close() {
	o.put(nil)
	o.put(nil)
}

// find returns the sink of a name.
func (o *outbox) find(name string) (s builtSink, ok bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if s, ok = o.now[name]; !ok {
		s, ok = o.before[name]
	}
	return s, ok
}

// places is how many deliveries to a sink run at once, 0 for no word on it.
func (o *outbox) places(name string) int {
	s, _ := o.find(name)
	return s.places
}

// Deliver implements runner.Deliverer.
func (o *outbox) Deliver(ctx context.Context, p *runner.Parcel) error {
	to, ok := o.find(p.Sink)
	if !ok {
		return &sink.Error{Message: fmt.Sprintf("no sink of the name %q is configured here", p.Sink)}
	}
	content, err := o.shown(ctx, p)
	if err != nil {
		return &runner.UnreadError{Err: err}
	}
	body, err := json.Marshal(content)
	if err != nil {
		return &sink.Error{Message: "it cannot be written as JSON", Never: true}
	}
	return to.Deliver(ctx, &sink.Message{ID: p.ID, Body: body})
}

// shown is a parcel as a sink is shown it: with the data of events that have no
// text in the notice, and a dead letter without what is for its requeue alone.
func (o *outbox) shown(ctx context.Context, p *runner.Parcel) (any, error) {
	if p.DeadLetter == nil {
		return o.noticed(ctx, p.Decision)
	}
	letter := *p.DeadLetter
	letter.Settled, letter.Members = nil, nil
	if letter.Events == nil {
		letter.Events = []engine.EventView{}
	}
	var err error
	if letter.Decision != nil {
		letter.Decision, err = o.noticed(ctx, letter.Decision)
	}
	return &letter, err
}

// noticed is a copy of a decision with the notice for its receiver.
func (o *outbox) noticed(ctx context.Context, of *engine.Decision) (*engine.Decision, error) {
	d := *of
	var err error
	d.Notice, err = o.reader.Notice(ctx, of)
	return &d, err
}

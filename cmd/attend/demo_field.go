package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"attend/internal/engine"
)

// newDemoField builds `attend demo field`.
func newDemoField() *cobra.Command {
	return &cobra.Command{
		Use:   "field",
		Short: "Show how a contradiction in the Field wakes agents, and end",
		Long: `Run a daemon on a free port with its log in a temporary folder. Two agents
write prices that contradict each other into the Field. A third, subscribed to
field.reckon by a stream, is woken with the conflict named; a fourth, which
waits with the tool attend_wait, is woken by the same conflict through a
window. Everything is removed at the end.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := &fieldDemo{out: cmd.OutOrStdout(), heard: make(chan heardEvent, 16)}
			return d.run(cmd.Context())
		},
	}
}

const (
	demoTopic = "competitor-pricing"
	// demoPatience is how long the demonstration waits for what must come.
	demoPatience = 20 * time.Second
	// The window of a conflict closes a little after it, as a person would read.
	fieldSettings = "field:\n  ingest: true\npolicy:\n  closingGraceMs: 300\n"
	fieldKinds    = `{"field.conflict.detected": "closing", "field.entry.committed": "consequence"}`
)

// fieldDemo is one run of it.
type fieldDemo struct {
	out   io.Writer
	url   string
	heard chan heardEvent
}

// heardEvent is what a stream brought.
type heardEvent struct {
	kind string
	Data struct {
		Conflicts []heardConflict `json:"conflicts"`
	} `json:"data"`
}

type heardConflict struct {
	A    heardEntry `json:"a"`
	B    heardEntry `json:"b"`
	Keys []string   `json:"keys"`
}

type heardEntry struct {
	Agent string                     `json:"agent"`
	Entry map[string]json.RawMessage `json:"entry"`
}

func (d *fieldDemo) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 3*demoPatience, errors.New("the demonstration has taken too long"))
	defer cancel()
	daemon, err := startDemo(ctx, []byte(fieldKinds), fieldSettings)
	if err != nil {
		return err
	}
	d.url = daemon.url
	fmt.Fprintf(d.out, "attend runs on %s, its log and the Field in %s.\n\n", daemon.url, daemon.folder)
	return errors.Join(d.show(ctx), daemon.end())
}

func (d *fieldDemo) show(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	writer, onCall, err := d.listeners(ctx)
	if err != nil {
		return err
	}
	defer func() {
		stop() // the stream; a session is not closed before its calls have ended
		_ = errors.Join(writer.session.Close(), onCall.session.Close())
	}()
	woken := make(chan wake, 1)
	go func() { woken <- awaitOne(ctx, onCall) }()

	kelp, err := d.contradict(ctx)
	if err != nil {
		return err
	}
	conflict, err := d.next(ctx)
	if err != nil {
		return err
	}
	if len(conflict.Data.Conflicts) == 0 {
		return errors.New("the stream brought no conflict")
	}
	fmt.Fprintf(d.out, "\nwriter is woken by its stream of field.reckon:\n")
	for _, c := range conflict.Data.Conflicts {
		d.tell(&c)
	}
	w := <-woken
	if w.err != nil {
		return w.err
	}
	d.woken(w.decision)
	return d.settle(ctx, kelp)
}

// listeners connects the agent that follows contradictions by a stream, and
// the one that is woken through windows. Both listen when it returns.
func (d *fieldDemo) listeners(ctx context.Context) (writer, onCall *demoAgent, err error) {
	hear := func(kind string, params json.RawMessage) {
		event := heardEvent{kind: kind}
		if json.Unmarshal(params, &event) == nil && kind != "heartbeat" {
			d.heard <- event
		}
	}
	if writer, err = connectDemo(ctx, d.url, hear); err != nil {
		return nil, nil, err
	}
	go func() { _ = writer.stream(ctx, "field.reckon", map[string]any{"agent": "writer", "topic": demoTopic}) }()
	if _, err := d.next(ctx); err != nil { // active
		return nil, nil, err
	}
	fmt.Fprintf(d.out, "writer     subscribes to field.reckon, topic %s, by a stream\n", demoTopic)
	if onCall, err = connectDemo(ctx, d.url, nil); err != nil {
		return nil, nil, err
	}
	if _, err := onCall.wait(ctx, 1); err != nil { // its consumer starts here
		return nil, nil, err
	}
	fmt.Fprintf(d.out, "on-call    waits for decisions with attend_wait\n")
	return writer, onCall, nil
}

// contradict has two agents write what cannot both be true, and returns the
// id of the first entry.
func (d *fieldDemo) contradict(ctx context.Context) (first string, err error) {
	for _, w := range []struct{ agent, role, price, intent string }{
		{"kelp", "market researcher", "$49/mo", "The price on their public page, read this morning"},
		{"gull", "sales analyst", "$39/mo", "What two customers say that they were offered"},
	} {
		agent, err := connectDemo(ctx, d.url, nil)
		if err != nil {
			return "", err
		}
		var got struct{ ID string }
		entry := map[string]any{"topic": demoTopic, "competitor": "Tidewater", "price": w.price}
		err = errors.Join(
			agent.call(ctx, "field_register", map[string]any{"id": w.agent, "role": w.role}, &struct{}{}),
			agent.call(ctx, "field_write", map[string]any{"agent": w.agent, "entry": entry, "intent": w.intent}, &got),
			agent.session.Close())
		if err != nil {
			return "", err
		}
		if first == "" {
			first = got.ID
		}
		fmt.Fprintf(d.out, "%-10s writes price %s: %q\n", w.agent, w.price, w.intent)
	}
	return first, nil
}

// settle has the first author take its entry back, and waits until the one who
// follows is told that nothing contradicts any more.
func (d *fieldDemo) settle(ctx context.Context, entry string) error {
	kelp, err := connectDemo(ctx, d.url, nil)
	if err != nil {
		return err
	}
	defer func() { _ = kelp.session.Close() }()
	why := "Their page was out of date: the offer is right"
	if err := kelp.call(ctx, "field_retract", map[string]any{"id": entry, "agent": "kelp", "intent": why}, &struct{}{}); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "\nkelp       retracts its entry: %q\n", why)
	event, err := d.next(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "writer     is told: %d conflicts\n", len(event.Data.Conflicts))
	fmt.Fprintln(d.out, "\nTwo entries, one contradiction. Whoever had to know was told of it once, by the stream or by a window; the stream told its end too. Nobody polled.")
	return nil
}

// next is what the stream brings next.
func (d *fieldDemo) next(ctx context.Context) (heardEvent, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, demoPatience, errors.New("the stream brought nothing"))
	defer cancel()
	select {
	case event := <-d.heard:
		return event, nil
	case <-ctx.Done():
		return heardEvent{}, context.Cause(ctx)
	}
}

// wake is what ended a wait.
type wake struct {
	decision *engine.Decision
	err      error
}

// awaitOne waits as an agent in a loop does, until one decision comes.
func awaitOne(ctx context.Context, agent *demoAgent) wake {
	for {
		got, err := agent.wait(ctx, demoPatience.Milliseconds())
		if err != nil {
			return wake{err: err}
		}
		if len(got) > 0 {
			return wake{decision: got[0]}
		}
	}
}

// tell names a conflict with both values.
func (d *fieldDemo) tell(c *heardConflict) {
	for _, key := range c.Keys {
		fmt.Fprintf(d.out, "  %s and %s disagree about %s: %s against %s\n",
			visible(c.A.Agent), visible(c.B.Agent), visible(key), visible(string(c.A.Entry[key])), visible(string(c.B.Entry[key])))
	}
}

// woken shows the decision that the conflict led to.
func (d *fieldDemo) woken(decision *engine.Decision) {
	fmt.Fprintf(d.out, "\non-call is woken through a window: %s, scope %s, settled by %s; it reads:\n", decision.Route, decision.Scope, decision.Reason)
	for line := range strings.SplitSeq(decision.Notice, "\n") {
		fmt.Fprintf(d.out, "  │ %s\n", visible(line))
	}
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"attend/examples"
	"attend/internal/engine"
)

// newDemo builds `attend demo`.
func newDemo() *cobra.Command {
	d := &demo{speed: 100}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the main job on real events, and end",
		Long: `Run a daemon on a free port with its log in a temporary folder, post real
events to it, follow the decisions as an agent would, with the MCP tool
attend_wait, and print what became of them.

The events are 34 minutes of 16 repositories, posted at 100 times their pace,
and 5,091 lines of a package manager's log, posted at once. The settle rules'
times are shortened alike, so the windows are those that the real pace makes.
Everything is removed at the end.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d.out = cmd.OutOrStdout()
			return d.run(cmd.Context())
		},
	}
	cmd.AddCommand(newDemoField())
	cmd.Flags().IntVar(&d.speed, "speed", d.speed, "how many times faster than it happened (1 to 1000)")
	return cmd
}

// demo is one run of the main job.
type demo struct {
	speed  int
	out    io.Writer
	url    string
	client http.Client
	sent   map[string]int                // events by scope
	got    map[string][]*engine.Decision // decisions by scope, in order
	order  []string                      // scopes, as they first woke
}

// sample is an event on its way to the daemon, with the line that is sent.
type sample struct {
	Scope string `json:"scope"`
	At    int64  `json:"at"` // Unix milliseconds
	line  []byte
}

func (d *demo) run(ctx context.Context) (err error) {
	if d.speed < 1 || d.speed > 1000 {
		return fmt.Errorf("--speed is %d: must be from 1 to 1000", d.speed)
	}
	d.sent, d.got = make(map[string]int), make(map[string][]*engine.Decision)
	kinds, settings, err := d.config()
	if err != nil {
		return err
	}
	daemon, err := startDemo(ctx, kinds, settings)
	if err != nil {
		return err
	}
	d.url = daemon.url
	if err := errors.Join(d.show(ctx, daemon.folder), ctx.Err(), daemon.end()); err != nil {
		return err
	}
	d.report()
	return nil
}

// config is the coding agent's example, with every time of the settle rules
// shortened by the speed.
func (d *demo) config() (kinds []byte, settings string, err error) {
	kinds, err = examples.Files.ReadFile("kinds/coding.json")
	set, speed := engine.Defaults(), int64(d.speed)
	settings = fmt.Sprintf("policy:\n  closingGraceMs: %d\n  streamGapMs: %d\n  passiveQuietMs: %d\n  maxWindowMs: %d\n",
		set.ClosingGraceMs/speed, set.StreamGapMs/speed, set.PassiveQuietMs/speed, set.MaxWindowMs/speed)
	return kinds, settings, err
}

// show posts the events and follows the decisions until none comes any more.
func (d *demo) show(ctx context.Context, folder string) error {
	repos, err := d.samples("events/github.ndjson")
	if err != nil {
		return err
	}
	noise, err := d.samples("events/dpkg.ndjson")
	if err != nil {
		return err
	}
	span := time.Duration(repos[len(repos)-1].At-repos[0].At) * time.Millisecond
	fmt.Fprintf(d.out, "attend runs on %s, its log in %s.\n", d.url, folder)
	fmt.Fprintf(d.out, "Posting %d events of a package manager at once, and %s of %d repository events in %s.\n\n",
		len(noise), span.Round(time.Minute), len(repos), (span / time.Duration(d.speed)).Round(time.Second))

	agent, err := connectDemo(ctx, d.url, nil)
	if err != nil {
		return err
	}
	defer func() { _ = agent.session.Close() }()
	if _, err := agent.wait(ctx, 1); err != nil { // the consumer starts here
		return err
	}
	posted := make(chan error, 1)
	go func() { posted <- d.post(ctx, noise, repos) }()
	return d.follow(ctx, agent, posted)
}

func (d *demo) follow(ctx context.Context, agent *demoAgent, posted <-chan error) error {
	quiet := 2 * time.Second // longer than any window stays open at the demo's pace
	for all := false; ; {
		decisions, err := agent.wait(ctx, quiet.Milliseconds())
		if err != nil {
			return err
		}
		for _, decision := range decisions {
			d.tell(decision)
		}
		if all && len(decisions) == 0 {
			return nil
		}
		select {
		case err := <-posted:
			if err != nil {
				return err
			}
			all = true
		default:
		}
	}
}

func (d *demo) samples(name string) ([]sample, error) {
	content, err := examples.Files.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var samples []sample
	for line := range bytes.Lines(content) {
		s := sample{line: line}
		if err := json.Unmarshal(line, &s); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", name, len(samples)+1, err)
		}
		samples = append(samples, s)
	}
	return samples, nil
}

// post sends the noise in one body, then the others when their time has come.
func (d *demo) post(ctx context.Context, noise, others []sample) error {
	if err := d.ingest(ctx, noise); err != nil {
		return err
	}
	start, first := time.Now(), others[0].At
	when := func(s sample) time.Time {
		return start.Add(time.Duration(s.At-first) * time.Millisecond / time.Duration(d.speed))
	}
	for len(others) > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(when(others[0]))):
		}
		n := 1
		for n < len(others) && !when(others[n]).After(time.Now()) {
			n++
		}
		if err := d.ingest(ctx, others[:n]); err != nil {
			return err
		}
		others = others[n:]
	}
	return nil
}

func (d *demo) ingest(ctx context.Context, samples []sample) error {
	var body bytes.Buffer
	for _, s := range samples {
		body.Write(s.line)
		d.sent[s.Scope]++
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url+"/v1/ingest", &body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	res, err := d.client.Do(req)
	if err != nil {
		return fmt.Errorf("post events: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	if err != nil || res.StatusCode != http.StatusOK {
		return fmt.Errorf("post events: status %d: %s %w", res.StatusCode, answer, err)
	}
	return nil
}

// tell prints a decision as it arrives.
func (d *demo) tell(decision *engine.Decision) {
	if _, known := d.got[decision.Scope]; !known {
		d.order = append(d.order, decision.Scope)
	}
	d.got[decision.Scope] = append(d.got[decision.Scope], decision)
	fmt.Fprintf(d.out, "  %-9s %-22s %-13s %s\n", decision.Route, decision.Scope, decision.Reason, headline(decision))
}

// headline is the last line of a notice, which mostly is what ended the
// window, and how many stand before it.
func headline(decision *engine.Decision) string {
	lines := strings.Split(decision.Notice, "\n")
	line := engine.Shorten(visible(lines[len(lines)-1]), 56)
	if n := len(lines) - 1; n > 0 {
		line += fmt.Sprintf("  (and %d before it)", n)
	}
	return line
}

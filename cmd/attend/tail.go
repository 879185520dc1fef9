package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

// Times and sizes of tail.
const (
	fromNow       = "now" // the daemon's word for the end of the log
	tailPage      = 100
	tailWait      = 20 * time.Second // how long the daemon may hold a request that has nothing to show
	tailBackoff   = 250 * time.Millisecond
	tailBackoffTo = 10 * time.Second
)

// newTail builds `attend tail`.
func newTail(p *process) *cobra.Command {
	t := &tail{output: outputText}
	var daemon address
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Follow decisions as they are made",
		Long: `Follow decisions as they are made, oldest first. A daemon that goes away is
asked again until it is back.

With --cursor-file tail remembers how far it came and goes on from there the
next time. The file is written after the lines: a line may come twice after a
crash, and none is ever left out. Once the file exists it wins over --from.`,
		Example: `  # what is decided from now on
  attend tail

  # everything that is kept, and then end
  attend tail --from start --once

  # feed a program, and lose nothing between its runs
  attend tail --output json --route interrupt,queue --cursor-file agent.cursor | ./agent`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if t.limit < 0 {
				return fmt.Errorf("--limit %d: must be at least 0", t.limit)
			}
			c, err := connect(p, &daemon)
			if err != nil {
				return err
			}
			defer c.close()
			t.client, t.out, t.notes = c, cmd.OutOrStdout(), cmd.ErrOrStderr()
			return t.run(cmd.Context())
		},
	}
	addAddressFlags(cmd, p, &daemon)
	flags := cmd.Flags()
	flags.VarP(&t.output, "output", "o", "what to print: readable text, or one JSON object a line")
	flags.StringArrayVar(&t.scopes, "scope", nil, "only scopes that match this glob; may be repeated")
	flags.StringSliceVar(&t.routes, "route", nil, "only these routes: interrupt, queue, note, ask, skip")
	flags.StringSliceVar(&t.kinds, "kind", nil, "decision (the default) or deadLetter; for both: decision,deadLetter")
	flags.StringVar(&t.from, "from", fromNow, "where to begin: start, now, or a cursor")
	flags.StringVar(&t.cursorFile, "cursor-file", "", "remember in this file how far it came")
	flags.BoolVar(&t.once, "once", false, "print what is there and end")
	flags.IntVar(&t.limit, "limit", 0, "end after this many (0: never)")
	return cmd
}

// tail follows the feed of one daemon.
type tail struct {
	client *client
	out    io.Writer
	notes  io.Writer // for people: what is not a decision

	output     outputFlag
	scopes     []string
	routes     []string
	kinds      []string
	from       string
	cursorFile string
	once       bool
	limit      int
}

// tailPageAnswer is the part of a page that tail reads.
type tailPageAnswer struct {
	Decisions []json.RawMessage `json:"decisions"`
	Cursor    string            `json:"cursor"`
	Truncated bool              `json:"truncated"`
}

// run follows until the context ends (no error), the limit is reached, or the
// daemon refuses.
func (t *tail) run(ctx context.Context) error {
	after, saved, err := t.begin()
	if err != nil {
		return err
	}
	for shown := 0; ; {
		asked := time.Now()
		page, err := t.next(ctx, after, t.remaining(shown))
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // it was asked to stop
		case err != nil:
			return err
		}
		if err := t.showAll(page); err != nil {
			return err
		}
		shown += len(page.Decisions)
		// Only now: what stands before the cursor has been written.
		if t.cursorFile != "" && saved != page.Cursor {
			if err := saveCursor(t.cursorFile, page.Cursor); err != nil {
				return err
			}
			saved = page.Cursor
		}
		if t.once && len(page.Decisions) == 0 || t.limit > 0 && shown >= t.limit {
			return nil
		}
		// A daemon that is about to stop does not wait with an empty answer.
		if len(page.Decisions) == 0 && after != fromNow {
			sleep(ctx, tailBackoff-time.Since(asked))
		}
		after = page.Cursor
	}
}

// showAll writes a page.
func (t *tail) showAll(page *tailPageAnswer) error {
	if page.Truncated {
		fmt.Fprintln(t.notes, "attend: decisions between the cursor and here are no longer kept")
	}
	for _, d := range page.Decisions {
		if err := t.show(d); err != nil {
			return err
		}
	}
	return nil
}

// sleep returns after a time, or when the context ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// begin returns the value of `after` to start with, and what the cursor file
// holds.
func (t *tail) begin() (after, saved string, err error) {
	if t.cursorFile != "" {
		saved, err = loadCursor(t.cursorFile)
		if err != nil || saved != "" {
			return saved, saved, err
		}
	}
	switch t.from {
	case "start":
		return "", "", nil
	case "":
		return "", "", errors.New("--from: want start, now or a cursor")
	default:
		return t.from, "", nil // the daemon understands "now"
	}
}

// remaining is how many may be shown yet, as the size of the next page.
func (t *tail) remaining(shown int) int {
	if t.limit == 0 {
		return tailPage
	}
	return min(tailPage, t.limit-shown)
}

// next asks for a page until it gets one. What asking again cannot mend ends
// it: a refusal, the context.
func (t *tail) next(ctx context.Context, after string, limit int) (*tailPageAnswer, error) {
	query := url.Values{"scope": t.scopes, "route": t.routes, "kinds": t.kinds, "limit": {strconv.Itoa(limit)}}
	if after != "" {
		query.Set("after", after)
	}
	// A tail that begins now fixes the place at once, so that what is decided
	// before it first remembers a cursor is not lost.
	if !t.once && after != fromNow {
		query.Set("waitMs", strconv.FormatInt(tailWait.Milliseconds(), 10))
	}
	for pause := time.Duration(0); ; {
		page := new(tailPageAnswer)
		err := t.client.call(ctx, http.MethodGet, "/v1/decisions", query, nil, page)
		var refused *problemError
		switch {
		case err == nil && page.Cursor == "":
			return nil, fmt.Errorf("%s does not answer like attend: no cursor", t.client.at)
		case err == nil:
			if pause > 0 {
				fmt.Fprintln(t.notes, "attend: connected again")
			}
			return page, nil
		case ctx.Err() != nil || t.once || errors.As(err, &refused) && refused.final():
			return nil, err
		}
		if pause == 0 {
			fmt.Fprintf(t.notes, "attend: %v; trying again\n", err)
		}
		pause = min(max(tailBackoff, 2*pause), tailBackoffTo)
		sleep(ctx, pause)
	}
}

// show writes one decision with one write, so that a reader never meets half
// of it between two calls.
func (t *tail) show(raw json.RawMessage) error {
	render := describe
	if t.output == outputJSON {
		render = jsonLine
	}
	text, err := render(raw)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(t.out, text+"\n"); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

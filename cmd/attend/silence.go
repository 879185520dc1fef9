package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// newSilence builds `attend silence`.
func newSilence(p *process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "silence",
		Short: "Keep scopes from the judge for a time",
		Long: `Keep scopes from the judge for a time. What comes is gathered and settled as
always, with the route skip, and no judge is asked; a flush gets through unless
the silence includes it. What a silence hid is counted.`,
	}
	cmd.AddCommand(newSilenceAdd(p), newSilenceList(p), newSilenceEnd(p))
	return cmd
}

// newSilenceAdd builds `attend silence add`.
func newSilenceAdd(p *process) *cobra.Command {
	var daemon address
	var event, until, why string
	var lasts time.Duration
	var flush bool
	output := outputText
	cmd := &cobra.Command{
		Use:   "add SCOPE",
		Short: "Silence the scopes that a pattern matches, from now on",
		Example: `  attend silence add 'repo:acme/*' --for 2h --why 'the migration'
  attend silence add '*' --event 'build.*' --until 2027-01-31T18:00:00Z --why 'CI is being moved'`,
		Args: takes("SCOPE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{"scope": args[0], "why": why}
			if event != "" {
				body["event"] = event
			}
			if flush {
				body["includeFlush"] = true
			}
			if until != "" {
				body["until"] = until
			} else {
				body["forMs"] = lasts.Milliseconds()
			}
			return askSilence(cmd, p, &daemon, output, http.MethodPost, "/v1/silences", nil, body)
		},
	}
	addAddressFlags(cmd, p, &daemon)
	cmd.Flags().DurationVar(&lasts, "for", 0, "how long it lasts, as 90m")
	cmd.Flags().StringVar(&until, "until", "", "the `instant` at which it ends, as 2027-01-31T18:00:00Z")
	cmd.Flags().StringVar(&event, "event", "", "only windows whose acts all have a name that the `pattern` matches")
	cmd.Flags().BoolVar(&flush, "include-flush", false, "silence flush events too")
	cmd.Flags().StringVar(&why, "why", "", "why, for whoever wonders why nothing comes")
	cmd.Flags().VarP(&output, "output", "o", "what to print")
	cmd.MarkFlagsMutuallyExclusive("for", "until")
	cmd.MarkFlagsOneRequired("for", "until")
	_ = cmd.MarkFlagRequired("why") // the flag is there
	return cmd
}

// newSilenceList builds `attend silence list`.
func newSilenceList(p *process) *cobra.Command {
	var daemon address
	var all bool
	output := outputText
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show what is silenced, by whom, since when, and what it hid",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := url.Values{}
			if all {
				query.Set("all", "true")
			}
			return askSilence(cmd, p, &daemon, output, http.MethodGet, "/v1/silences", query, nil)
		},
	}
	addAddressFlags(cmd, p, &daemon)
	cmd.Flags().BoolVar(&all, "all", false, "show those that have ended too")
	cmd.Flags().VarP(&output, "output", "o", "what to print")
	return cmd
}

// newSilenceEnd builds `attend silence end`.
func newSilenceEnd(p *process) *cobra.Command {
	var daemon address
	output := outputText
	cmd := &cobra.Command{
		Use:   "end ID",
		Short: "End a silence now",
		Args:  takes("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return askSilence(cmd, p, &daemon, output, http.MethodDelete, "/v1/silences/"+url.PathEscape(args[0]), nil, nil)
		},
	}
	addAddressFlags(cmd, p, &daemon)
	cmd.Flags().VarP(&output, "output", "o", "what to print")
	return cmd
}

// askSilence sends a request about silences and prints the answer.
func askSilence(cmd *cobra.Command, p *process, daemon *address, output outputFlag, method, path string, query url.Values, body any) error {
	return withDaemon(cmd, p, daemon, callTimeout, func(ctx context.Context, c *client) error {
		var raw json.RawMessage
		if err := c.call(ctx, method, path, query, body, &raw); err != nil {
			return err
		}
		return printAnswer(cmd, output, raw, describeSilences)
	})
}

// silence is what a person reads of one.
type silence struct {
	ID           string  `json:"id"`
	Scope        string  `json:"scope"`
	Event        *string `json:"event"`
	IncludeFlush bool    `json:"includeFlush"`
	Who          string  `json:"who"`
	Why          string  `json:"why"`
	Since        int64   `json:"since"`
	Until        *int64  `json:"until"`
	Active       bool    `json:"active"`
	EndedBy      *string `json:"endedBy"`
	Hid          struct {
		Windows int  `json:"windows"`
		Events  int  `json:"events"`
		More    bool `json:"more"`
	} `json:"hid"`
}

// describeSilences renders one silence, or a list of them.
func describeSilences(raw json.RawMessage) (string, error) {
	var answer struct {
		silence
		Silences []silence `json:"silences"`
		More     bool      `json:"more"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return "", fmt.Errorf("answer about silences: %w", err)
	}
	switch {
	case answer.ID != "":
		return answer.silence.String(), nil
	case len(answer.Silences) == 0:
		return "no silence", nil
	}
	var lines []string
	for i := range answer.Silences {
		lines = append(lines, answer.Silences[i].String())
	}
	if answer.More {
		lines = append(lines, "and older ones")
	}
	return strings.Join(lines, "\n"), nil
}

// String writes two lines: what is silenced, and who did so and what it hid.
func (s *silence) String() string {
	at := func(ms int64) string { return time.UnixMilli(ms).Format(time.RFC3339) }
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s", visible(s.ID), visible(s.Scope))
	if s.Event != nil {
		fmt.Fprintf(&b, "  %s", visible(*s.Event))
	}
	if s.IncludeFlush {
		b.WriteString("  with flush")
	}
	fmt.Fprintf(&b, "  since %s", at(s.Since))
	switch {
	case !s.Active && s.EndedBy != nil:
		fmt.Fprintf(&b, ", ended %s", at(*s.Until))
		if *s.EndedBy != "" {
			fmt.Fprintf(&b, " by %s", visible(*s.EndedBy))
		}
	case !s.Active:
		fmt.Fprintf(&b, ", ended %s", at(*s.Until))
	case s.Until != nil:
		fmt.Fprintf(&b, " until %s", at(*s.Until))
	}
	b.WriteString("\n    ")
	if s.Who != "" {
		fmt.Fprintf(&b, "%s: ", visible(s.Who))
	}
	more := ""
	if s.Hid.More {
		more = "more than "
	}
	fmt.Fprintf(&b, "%s (hid %s%s, %s)", visible(s.Why), more, count(s.Hid.Windows, "window"), count(s.Hid.Events, "event"))
	return b.String()
}

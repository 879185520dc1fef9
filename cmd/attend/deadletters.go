package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// newDeadLetters builds `attend deadletters`.
func newDeadLetters(p *process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "deadletters",
		Short: "Show what a judge or a sink gave up on, and have it done again",
	}
	cmd.AddCommand(newDeadLettersList(p), newDeadLettersShow(p), newDeadLettersRequeue(p))
	return cmd
}

// letterFilter selects dead letters.
type letterFilter struct {
	scope, stage string
}

func (f *letterFilter) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.scope, "scope", "", "only scopes that this `glob` matches")
	cmd.Flags().StringVar(&f.stage, "stage", "", "only those of one `stage`: judge, sink or webhook")
}

// newDeadLettersList builds `attend deadletters list`.
func newDeadLettersList(p *process) *cobra.Command {
	var daemon address
	var filter letterFilter
	var limit int
	output := outputText
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show dead letters, oldest first",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return fmt.Errorf("--limit %d: must be at least 0", limit)
			}
			return withDaemon(cmd, p, &daemon, time.Minute, func(ctx context.Context, c *client) error {
				return listLetters(ctx, cmd, c, &filter, limit, output)
			})
		},
	}
	addAddressFlags(cmd, p, &daemon)
	filter.flags(cmd)
	cmd.Flags().IntVar(&limit, "limit", 0, "at most this many (0: all)")
	cmd.Flags().VarP(&output, "output", "o", "what to print: readable text, or one JSON object a line")
	return cmd
}

// listLetters reads all pages.
func listLetters(ctx context.Context, cmd *cobra.Command, c *client, f *letterFilter, limit int, output outputFlag) error {
	query := url.Values{}
	for name, value := range map[string]string{"scope": f.scope, "stage": f.stage} {
		if value != "" {
			query.Set(name, value)
		}
	}
	for shown := 0; ; {
		page := tailPage
		if limit > 0 {
			page = min(page, limit-shown)
		}
		query.Set("limit", strconv.Itoa(page))
		var answer struct {
			DeadLetters []json.RawMessage `json:"deadLetters"`
			Cursor      string            `json:"cursor"`
		}
		if err := c.call(ctx, http.MethodGet, "/v1/deadletters", query, nil, &answer); err != nil {
			return err
		}
		for _, raw := range answer.DeadLetters {
			if err := printLetter(cmd, raw, output); err != nil {
				return err
			}
		}
		shown += len(answer.DeadLetters)
		if len(answer.DeadLetters) == 0 || limit > 0 && shown >= limit {
			return nil
		}
		query.Set("after", answer.Cursor)
	}
}

func printLetter(cmd *cobra.Command, raw json.RawMessage, output outputFlag) error {
	text, err := describe(raw)
	if output == outputJSON {
		text, err = jsonLine(raw)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}

// newDeadLettersShow builds `attend deadletters show`.
func newDeadLettersShow(p *process) *cobra.Command {
	var daemon address
	output := outputText
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show one dead letter, with its decision or its events",
		Args:  takes("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withDaemon(cmd, p, &daemon, time.Minute, func(ctx context.Context, c *client) error {
				var raw json.RawMessage
				if err := c.call(ctx, http.MethodGet, "/v1/deadletters/"+url.PathEscape(args[0]), nil, nil, &raw); err != nil {
					return err
				}
				if output == outputJSON {
					return printLetter(cmd, raw, output)
				}
				text, err := describeLetter(raw)
				if err == nil {
					_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
				}
				return err
			})
		},
	}
	addAddressFlags(cmd, p, &daemon)
	cmd.Flags().VarP(&output, "output", "o", "what to print")
	return cmd
}

// describeLetter renders a dead letter with the decision that was not
// delivered, or with what its window held.
func describeLetter(raw json.RawMessage) (string, error) {
	head, err := describe(raw)
	if err != nil {
		return "", err
	}
	var letter struct {
		Decision json.RawMessage `json:"decision"`
		Events   []struct {
			Name, Kind, Text string
		} `json:"events"`
		Cut int `json:"cut"`
	}
	if err := json.Unmarshal(raw, &letter); err != nil {
		return "", fmt.Errorf("a dead letter that cannot be read: %w", err)
	}
	var b strings.Builder
	b.WriteString(head)
	if len(letter.Decision) > 0 && string(letter.Decision) != "null" {
		decision, err := describe(letter.Decision)
		if err != nil {
			return "", err
		}
		b.WriteString("\n  " + strings.ReplaceAll(decision, "\n", "\n  "))
		return b.String(), nil
	}
	for _, e := range letter.Events {
		fmt.Fprintf(&b, "\n    %s %s  %s", visible(e.Kind), visible(e.Name), visible(e.Text))
	}
	if letter.Cut > 0 {
		fmt.Fprintf(&b, "\n    and %d more", letter.Cut)
	}
	return b.String(), nil
}

// requeueing is what `attend deadletters requeue` is told.
type requeueing struct {
	letterFilter
	before string
	all    bool
}

// newDeadLettersRequeue builds `attend deadletters requeue`.
func newDeadLettersRequeue(p *process) *cobra.Command {
	var daemon address
	var what requeueing
	cmd := &cobra.Command{
		Use:   "requeue [ID...]",
		Short: "Have dead letters judged, or delivered, again",
		Long: `Have dead letters judged, or delivered, again: those named, or those that the
flags select. A window is judged again under its own id; a decision goes to the end
of its scope's outbox. Each dead letter is requeued once: what was requeued before,
or whose events are no longer kept, is skipped.`,
		Example: `  attend deadletters requeue 8f1e3290ea9509fde6053f664eda4f91
  attend deadletters requeue --stage sink --scope 'chat:*' --before 2027-01-31T18:00:00Z
  attend deadletters requeue --all`,
		RunE: func(cmd *cobra.Command, args []string) error {
			body, err := what.body(args)
			if err != nil {
				return err
			}
			return withDaemon(cmd, p, &daemon, time.Minute, func(ctx context.Context, c *client) error {
				if len(args) > 0 {
					return requeueNamed(ctx, cmd, c, args)
				}
				return requeueMany(ctx, cmd, c, body)
			})
		},
	}
	addAddressFlags(cmd, p, &daemon)
	what.flags(cmd)
	cmd.Flags().StringVar(&what.before, "before", "", "only those made before this `instant`, as 2027-01-31T18:00:00Z")
	cmd.Flags().BoolVar(&what.all, "all", false, "all there are")
	return cmd
}

// body is the filter as the daemon takes it.
func (r *requeueing) body(ids []string) (map[string]any, error) {
	body := make(map[string]any)
	for name, value := range map[string]string{"scope": r.scope, "stage": r.stage} {
		if value != "" {
			body[name] = value
		}
	}
	if r.before != "" {
		at, err := time.Parse(time.RFC3339, r.before)
		if err != nil {
			return nil, fmt.Errorf("--before %q: want an instant, as 2027-01-31T18:00:00Z", r.before)
		}
		body["before"] = at.UnixMilli()
	}
	selects := len(body) > 0 || r.all
	switch {
	case len(ids) > 0 && selects:
		return nil, errors.New("name dead letters or select them by flags, not both")
	case len(ids) == 0 && !selects:
		return nil, errors.New("name dead letters, or select them by --scope, --stage, --before or --all")
	}
	return body, nil
}

func requeueNamed(ctx context.Context, cmd *cobra.Command, c *client, ids []string) error {
	for _, id := range ids {
		var answer struct{ ID, Scope, WindowID string }
		if err := c.call(ctx, http.MethodPost, "/v1/deadletters/"+url.PathEscape(id)+"/requeue", nil, nil, &answer); err != nil {
			return fmt.Errorf("%s: %w", visible(id), err)
		}
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: requeued %s\n", visible(answer.Scope), visible(answer.ID)); err != nil {
			return err
		}
	}
	return nil
}

func requeueMany(ctx context.Context, cmd *cobra.Command, c *client, body map[string]any) error {
	requeued, skipped := 0, 0
	for {
		var answer struct {
			Requeued []struct{ ID, Scope string } `json:"requeued"`
			Skipped  int                          `json:"skipped"`
			Cursor   string                       `json:"cursor"`
			More     bool                         `json:"more"`
		}
		if err := c.call(ctx, http.MethodPost, "/v1/deadletters/requeue", nil, body, &answer); err != nil {
			return err
		}
		for _, r := range answer.Requeued {
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: requeued %s\n", visible(r.Scope), visible(r.ID)); err != nil {
				return err
			}
		}
		requeued, skipped = requeued+len(answer.Requeued), skipped+answer.Skipped
		if !answer.More {
			break
		}
		body["after"] = answer.Cursor
	}
	_, err := fmt.Fprintf(cmd.ErrOrStderr(), "%d requeued, %d skipped\n", requeued, skipped)
	return err
}

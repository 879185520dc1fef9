package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// callTimeout bounds a command that asks the daemon one thing.
const callTimeout = 15 * time.Second

// newFlush builds `attend flush`.
func newFlush(p *process) *cobra.Command {
	var daemon address
	output := outputText
	cmd := &cobra.Command{
		Use:   "flush SCOPE",
		Short: "Settle what a scope has now, without waiting for its deadlines",
		Long: `Settle what a scope has at this moment: its open window settles as "forced", a
held window is judged at once, and a window that is being judged may not be
held again. A scope that has nothing is left alone.`,
		Example: `  attend flush chat:42
  attend flush --output json 'repo:acme/shop'`,
		Args: takes("SCOPE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withDaemon(cmd, p, &daemon, callTimeout, func(ctx context.Context, c *client) error {
				var raw json.RawMessage
				if err := c.call(ctx, http.MethodPost, "/v1/flush", nil, map[string]string{"scope": args[0]}, &raw); err != nil {
					return err
				}
				return printAnswer(cmd, output, raw, describeFlush)
			})
		},
	}
	addAddressFlags(cmd, p, &daemon)
	cmd.Flags().VarP(&output, "output", "o", "what to print")
	return cmd
}

// describeFlush says in words what a flush call marked.
func describeFlush(raw json.RawMessage) (string, error) {
	var answer struct {
		Scope  string   `json:"scope"`
		Marked []string `json:"marked"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return "", fmt.Errorf("answer to flush: %w", err)
	}
	scope := visible(answer.Scope)
	switch {
	case answer.Marked == nil:
		return scope + ": flush is in the log, and not yet applied", nil
	case len(answer.Marked) == 0:
		return scope + ": nothing to flush", nil
	default:
		return scope + ": flushed what is " + strings.Join(answer.Marked, " and "), nil
	}
}

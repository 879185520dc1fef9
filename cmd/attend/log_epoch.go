package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"attend/internal/app"
	"attend/internal/config"
)

// newLogEpoch builds `attend log new-epoch`.
func newLogEpoch(p *process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "new-epoch",
		Short: "Make every cursor stale, after a store was brought back from a copy",
		Long: `Give the log another epoch. Do it when a store was brought back from a copy of
its file or of its database, or when a standby without the last records took
over: stop every replica, run this, start them. What is written from now on
takes the positions of what was written after the copy was made, and a cursor
from then would pass over it. With another epoch such a cursor answers
"truncated": true.

A store that attend log import has made has an epoch of its own already.`,
		Example: `  cp backup.db attend.db && attend log new-epoch --store sqlite:attend.db && attend serve`,
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.LoadToShow(cmd.Flags(), p.env)
			if err != nil {
				return err
			}
			if err := app.NewEpoch(cmd.Context(), cfg.Store); err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%s has a new epoch: cursors that were given out before are stale\n", cfg.Store)
			return nil
		},
	}
	flags := cmd.Flags()
	config.ConfigFlag(flags)
	flags.String("store", "sqlite:attend.db", "`store`, as the daemon has it: sqlite:<file> or postgres:<url>")
	return cmd
}

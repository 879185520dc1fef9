package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"attend/internal/app"
	"attend/internal/backup"
	"attend/internal/config"
)

// newLogImport builds `attend log import`.
func newLogImport(p *process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Make a store from what attend log export --whole wrote",
		Long: `Read a whole export from standard input into a store that is empty, or not there
yet. Everything is as it was: positions and stamps, decisions, what is open and
what is remembered, consumers, Fields. A daemon on the copy goes on where the
other one stopped.

The copy has an epoch of its own, since the other store may go on as well:
cursors that were given out before answer "truncated": true and start at the end
of the log. Consumers, whose place the store keeps, are not concerned.

An import that breaks off leaves a store that no daemon opens. It says how to
remove it. Where the first line is refused, nothing was begun.`,
		Example: `  attend log export --whole | attend log import --store sqlite:copy.db
  attend log import --store sqlite:/var/lib/attend/attend.db < backup.ndjson`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.LoadToShow(cmd.Flags(), p.env)
			if err != nil {
				return err
			}
			to, err := app.OpenImport(cmd.Context(), cfg.Store, newLogger(cfg, cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			n, err := backup.Read(cmd.Context(), cmd.InOrStdin(), to, progress(cmd.ErrOrStderr(), "imported"))
			if err := to.Close(err); err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "imported %s into %s\n", amount(n), cfg.Store)
			return nil
		},
	}
	flags := cmd.Flags()
	config.ConfigFlag(flags)
	flags.String("store", "sqlite:attend.db", "`store` to make, as the daemon is to have it: sqlite:<file> or postgres:<url>")
	return cmd
}

// exportWhole writes everything that a store holds.
func exportWhole(cmd *cobra.Command, s config.Store) (err error) {
	from, err := app.OpenSnapshot(cmd.Context(), s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	n, err := backup.Write(cmd.Context(), from, cmd.OutOrStdout(), progress(cmd.ErrOrStderr(), "exported"))
	if err != nil {
		return fmt.Errorf("export %s: %w", s, err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "exported %s from %s\n", amount(n), s)
	return nil
}

// progress tells every few seconds how far something long has come.
func progress(to io.Writer, done string) func(backup.Counts) {
	const every = 3 * time.Second
	last := time.Now()
	return func(n backup.Counts) {
		if time.Since(last) >= every {
			last = time.Now()
			fmt.Fprintf(to, "%s %s so far\n", done, amount(n))
		}
	}
}

// amount says how much there was.
func amount(n backup.Counts) string {
	return fmt.Sprintf("%s, %s kept beside the log, %s, %s, %s of Fields",
		count(n.Records, "record"), count(n.Aside, "event"), count(n.States, "scope"), count(n.Rows, "row"), count(n.Changes, "change"))
}

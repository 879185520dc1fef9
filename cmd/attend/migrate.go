package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"attend/internal/app"
	"attend/internal/config"
)

// newMigrate builds `attend migrate`.
func newMigrate(p *process) *cobra.Command {
	var dryRun, check bool
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the tables of a store in Postgres up to date",
		Long: `Make attend's tables in a Postgres database, or bring them up to date, as a user
who may create tables. It does nothing when there is nothing to do, and may run
several times at once, beside daemons too.

attend serve does the same at its start, unless it is told --no-migrate: then its
user needs only SELECT, INSERT, UPDATE and DELETE on the tables, and it does not
start before this command has been run.

The address's own parameters: prefix=attend_ names the tables, and search_path
the schema that they are in.`,
		Example: `  attend migrate --store postgres://owner@db/app
  attend migrate --check || echo "not up to date"
  attend migrate --store 'postgres://owner@db/app?search_path=attend' --dry-run`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.LoadToShow(cmd.Flags(), p.env)
			if err != nil {
				return err
			}
			plan, err := app.PlanMigration(cmd.Context(), cfg.Store)
			if err != nil {
				return err
			}
			if len(plan.Steps) > 0 && !dryRun && !check {
				if err := app.Migrate(cmd.Context(), cfg.Store); err != nil {
					return err
				}
			}
			describeMigration(cmd.OutOrStdout(), plan, !dryRun && !check)
			if check && len(plan.Steps) > 0 {
				return errors.New("the tables are not up to date")
			}
			return nil
		},
	}
	flags := cmd.Flags()
	config.ConfigFlag(flags)
	flags.String("store", "sqlite:attend.db", "`store` to migrate, as the daemon has it: postgres:<url>")
	flags.BoolVar(&dryRun, "dry-run", false, "only say what would be done")
	flags.BoolVar(&check, "check", false, "only say what would be done, and exit 1 when that is anything")
	cmd.MarkFlagsMutuallyExclusive("dry-run", "check")
	return cmd
}

func describeMigration(w io.Writer, m *app.Migration, done bool) {
	if len(m.Steps) == 0 {
		fmt.Fprintf(w, "the tables %s* in %s are up to date: version %d\n", visible(m.Prefix), visible(m.Store.String()), m.To)
		return
	}
	verb := "would run"
	if done {
		verb = "ran"
	}
	for _, step := range m.Steps {
		fmt.Fprintf(w, "%s %s\n", verb, step)
	}
	from := fmt.Sprintf("from version %d", m.From)
	if m.From == 0 {
		from = "from nothing"
	}
	what := "would go"
	if done {
		what = "went"
	}
	fmt.Fprintf(w, "the tables %s* in %s %s %s to version %d\n", visible(m.Prefix), visible(m.Store.String()), what, from, m.To)
}

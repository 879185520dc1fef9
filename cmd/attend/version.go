package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"attend/internal/app"
)

// newVersion builds `attend version`.
func newVersion(*process) *cobra.Command {
	output := outputText
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this binary",
		Example: "  attend version --output json",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := app.ReadBuild()
			if output == outputJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(b)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "attend %s (%s, %s)\n", b.Version, b.Revision, b.Go)
			return err
		},
	}
	cmd.Flags().VarP(&output, "output", "o", "what to print")
	return cmd
}

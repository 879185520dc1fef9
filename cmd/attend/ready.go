package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

// newReady builds `attend ready`.
func newReady(p *process) *cobra.Command {
	var (
		daemon  address
		timeout time.Duration
	)
	cmd := &cobra.Command{
		Use:   "ready",
		Short: "Exit 0 when the daemon is ready, 1 when it is not",
		Long: `Ask the daemon's /readyz: its store answers and it has caught up with its log.
Made for health checks where there is neither shell nor curl.`,
		Example: `  attend ready && echo up
  HEALTHCHECK CMD ["/attend", "ready"]`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := connect(p, &daemon)
			if err != nil {
				return err
			}
			defer c.close()
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			if err := c.call(ctx, http.MethodGet, "/readyz", nil, nil, nil); err != nil {
				return fmt.Errorf("not ready: %w", err)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "ready")
			return err
		},
	}
	addAddressFlags(cmd, p, &daemon)
	cmd.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "how long to wait for the answer")
	return cmd
}

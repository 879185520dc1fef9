package main

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"attend/internal/bridge"
)

// newMCP builds `attend mcp`.
func newMCP(p *process) *cobra.Command {
	var daemon address
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Bridge a host that speaks MCP over stdio to the daemon",
		Long: `Bridge a host that speaks MCP over standard input and output alone to a running
daemon. A host that can reach http://127.0.0.1:8787/mcp itself needs no bridge.

The host starts it; its entry in the host's configuration is, as a rule,

  {"command": "attend", "args": ["mcp"]}

and with ATTEND_URL and ATTEND_TOKEN in the entry's env where the daemon is
elsewhere or has a token.

The daemon need not run yet, and may be restarted: while it is not there, calls
are answered with an error that says so. Notes for people go to standard error.`,
		Example: `  # what a host does
  echo '{"jsonrpc":"2.0","id":1,"method":"tools/list"}' | attend mcp

  # a daemon on another machine
  ATTEND_TOKEN=... attend mcp --url https://attend.internal`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := connect(p, &daemon)
			if err != nil {
				return err
			}
			// Waits and streams last: neither a request nor the headers of its
			// answer have a time by which they must come.
			transport := &http.Transport{
				Proxy:               http.ProxyFromEnvironment,
				DialContext:         c.dial,
				TLSHandshakeTimeout: 10 * time.Second,
				ForceAttemptHTTP2:   true,
				MaxIdleConnsPerHost: 16,
				IdleConnTimeout:     time.Minute,
			}
			defer transport.CloseIdleConnections()
			c.http.Transport = transport
			return bridge.Run(cmd.Context(), bridge.Options{
				Endpoint: c.base.JoinPath("mcp").String(),
				At:       c.at,
				Token:    c.token,
				HTTP:     c.http,
				In:       cmd.InOrStdin(),
				Out:      cmd.OutOrStdout(),
				Logger:   slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)),
			})
		},
	}
	addAddressFlags(cmd, p, &daemon)
	return cmd
}

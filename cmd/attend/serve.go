package main

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"attend/internal/app"
	"attend/internal/config"
)

// newServe builds `attend serve`.
func newServe(p *process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon",
		Long: `Run the daemon: events come in as NDJSON on POST /v1/ingest, decisions go out
over HTTP (/v1/decisions) and MCP (/mcp).

Once it listens it prints one line on standard output, with the port that was
taken:

  attend: listening on http://127.0.0.1:8787

With --socket it listens on a unix socket in place of host and port: a file that
this user alone may open, which the other commands take as --socket too.

Its log goes to standard error. SIGTERM and SIGINT end it in order, within
shutdownGraceMs (10 s); a second one ends it at once. SIGHUP has it load its
configuration again, as attend reload does.

Every flag has a variable (--store is ATTEND_STORE) and a key in attend.yaml
(store). A flag wins over a variable, a variable over the file. The token is
set by ATTEND_TOKEN or in the file alone.`,
		Example: `  attend serve --kinds kinds.json
  attend serve --store memory --port 0 --kinds '{"message.created":"flush"}'
  attend serve --kinds kinds.json --socket run/attend.sock
  ATTEND_TOKEN=$(openssl rand -hex 32) attend serve --host 0.0.0.0`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(cmd.Flags(), p.env)
			if err != nil {
				return fmt.Errorf("the configuration cannot be used:\n%w", err)
			}
			log := newLogger(cfg, cmd.ErrOrStderr())
			daemon, err := app.New(cmd.Context(), cfg, app.Options{
				Logger: log,
				Load:   func() (*config.Config, error) { return config.LoadAgain(cmd.Flags(), p.env) },
				Listening: func(at net.Addr) {
					fmt.Fprintf(cmd.OutOrStdout(), "attend: listening on %s\n", describeAddress(at))
				},
			})
			if err != nil {
				return err
			}
			defer reloadOnHangup(cmd.Context(), daemon, log)()
			return daemon.Run(cmd.Context())
		},
	}
	config.Flags(cmd.Flags())
	return cmd
}

// describeAddress writes where the daemon listens as clients take it.
func describeAddress(at net.Addr) string {
	if at.Network() != "unix" {
		return "http://" + at.String()
	}
	path, err := filepath.Abs(at.String())
	if err != nil { // there is no working directory any longer
		path = at.String()
	}
	return "unix:" + path
}

// newLogger returns the logger that the configuration asks for.
func newLogger(cfg *config.Config, to io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.LogLevel, ReplaceAttr: onOneLine}
	if cfg.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(to, options))
	}
	return slog.New(slog.NewTextHandler(to, options))
}

// onOneLine writes an error on one line. Those of a database's client have a
// line for each address that was tried, and for each way of trying it.
func onOneLine(_ []string, a slog.Attr) slog.Attr {
	err, ok := a.Value.Any().(error)
	if !ok {
		return a
	}
	text := err.Error()
	if !strings.Contains(text, "\n") {
		return a
	}
	var said []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(said, line) {
			said = append(said, line)
		}
	}
	a.Value = slog.StringValue(strings.ReplaceAll(strings.Join(said, "; "), ":; ", ": "))
	return a
}

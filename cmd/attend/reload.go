package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"attend/internal/app"
)

// reloadTimeout bounds a reload, which waits for the store and for the fold.
const reloadTimeout = time.Minute

// newReload builds `attend reload`.
func newReload(p *process) *cobra.Command {
	var daemon address
	output := outputText
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Have the daemon load its configuration again",
		Long: `Have the daemon load its configuration again, from the flags and variables that it
was started with and from the files as they are now. All of it is checked before
anything changes: with a mistake in it, nothing does. What is unchanged goes on
untouched; what needs a restart is named. SIGHUP does the same.`,
		Example: `  attend check && attend reload`,
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withDaemon(cmd, p, &daemon, reloadTimeout, func(ctx context.Context, c *client) error {
				var raw json.RawMessage
				err := c.call(ctx, http.MethodPost, "/v1/reload", nil, nil, &raw)
				var refused *problemError
				if errors.As(err, &refused) && len(refused.Mistakes) > 0 {
					return fmt.Errorf("the configuration cannot be used, and nothing has changed:\n%s", describeMistakes(refused.Mistakes))
				}
				if err != nil {
					return err
				}
				return printAnswer(cmd, output, raw, describeReload)
			})
		},
	}
	addAddressFlags(cmd, p, &daemon)
	cmd.Flags().VarP(&output, "output", "o", "what to print")
	return cmd
}

// mistake is one of a configuration that was refused.
type mistake struct {
	Source  string `json:"source"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Key     string `json:"key"`
	Problem string `json:"problem"`
	Message string `json:"message"` // of a warning, in place of Problem
}

// String writes it on one line.
func (m mistake) String() string {
	place := m.Source
	if m.Line > 0 {
		place = fmt.Sprintf("%s:%d:%d", m.Source, m.Line, m.Column)
	}
	var parts []string
	for _, s := range []string{place, m.Key, m.Problem, m.Message} {
		if s != "" {
			parts = append(parts, visible(s))
		}
	}
	return strings.Join(parts, ": ")
}

func describeMistakes(all []mistake) string {
	lines := make([]string, len(all))
	for i, m := range all {
		lines[i] = m.String()
	}
	return strings.Join(lines, "\n")
}

// describeReload says in words what a reload came to.
func describeReload(raw json.RawMessage) (string, error) {
	var answer struct {
		Policy       uint32    `json:"policy"`
		Changed      []string  `json:"changed"`
		NeedsRestart []string  `json:"needsRestart"`
		Warnings     []mistake `json:"warnings"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return "", fmt.Errorf("answer to reload: %w", err)
	}
	var b strings.Builder
	if len(answer.Changed) == 0 {
		fmt.Fprintf(&b, "nothing has changed; policy %d is in force", answer.Policy)
	} else {
		fmt.Fprintf(&b, "in force: %s (policy %d)", visible(strings.Join(answer.Changed, ", ")), answer.Policy)
	}
	if len(answer.NeedsRestart) > 0 {
		fmt.Fprintf(&b, "\nat the next start: %s", visible(strings.Join(answer.NeedsRestart, ", ")))
	}
	for _, w := range answer.Warnings {
		fmt.Fprintf(&b, "\nwarning: %s", w)
	}
	return b.String(), nil
}

// stopPatience bounds how long the end of the daemon waits for a reload.
const stopPatience = 2 * time.Second

// reloadOnHangup reloads at each SIGHUP until the context ends. stop waits for a
// reload that runs, and not for one that hangs: a file system may not answer.
func reloadOnHangup(ctx context.Context, daemon *app.App, log *slog.Logger) (stop func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangups:
			}
			if _, err := daemon.Reload(ctx, "SIGHUP"); err != nil && ctx.Err() == nil {
				log.ErrorContext(ctx, "the configuration was not loaded again, and nothing has changed", "error", err)
			}
		}
	}()
	return func() {
		signal.Stop(hangups)
		cancel()
		select {
		case <-done:
		case <-time.After(stopPatience):
			log.Warn("a reload still reads its files: it is given up")
		}
	}
}

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// newRoot builds the command tree. Cobra adds help and completion.
func newRoot(p *process) *cobra.Command {
	root := &cobra.Command{
		Use:   "attend",
		Short: "Decide when an event should wake an agent",
		Long: `attend gathers each scope's events into a window, settles the window when the
act in it is finished, asks a judge what the agent should do, and keeps the
decision in a durable log from which any agent can take it.`,
		Example: `  # run the daemon
  attend serve --kinds kinds.json

  # send an event that ends the window at once, and read what was decided
  echo '{"scope":"chat:42","name":"message.created","text":"Is the export done?"}' |
    curl -sS -H 'Content-Type: application/x-ndjson' --data-binary @- http://127.0.0.1:8787/v1/ingest
  attend tail --from start`,
		SilenceUsage:  true,
		SilenceErrors: true,
		// What fails before this is a fault of the command line.
		PersistentPreRun: func(*cobra.Command, []string) { p.started = true },
	}
	root.AddCommand(
		newServe(p),
		newCheck(p),
		newTail(p),
		newFlush(p),
		newDeadLetters(p),
		newSilence(p),
		newReload(p),
		newField(p),
		newMCP(p),
		newDemo(),
		newMigrate(p),
		newToken(),
		newReady(p),
		newLog(p),
		newReplay(p),
		newJudge(p),
		newVersion(p),
	)
	return root
}

// outputFlag is --output of the commands that people and scripts both read.
type outputFlag string

const (
	outputText outputFlag = "text"
	outputJSON outputFlag = "json"
)

// String, Set and Type make it a flag value that refuses anything else.
func (o *outputFlag) String() string { return string(*o) }

// Set takes "text" or "json".
func (o *outputFlag) Set(s string) error {
	switch outputFlag(s) {
	case outputText, outputJSON:
		*o = outputFlag(s)
		return nil
	default:
		return fmt.Errorf("want text or json")
	}
}

// Type names the value in help texts.
func (o *outputFlag) Type() string { return "text|json" }

// takes refuses a command line whose arguments are not the ones named.
func takes(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == len(names):
			return nil
		case len(names) == 0:
			return fmt.Errorf("%s takes no arguments: %q", cmd.CommandPath(), args)
		default:
			return fmt.Errorf("%s takes %s, %s", cmd.CommandPath(), count(len(names), "argument"), strings.Join(names, " "))
		}
	}
}

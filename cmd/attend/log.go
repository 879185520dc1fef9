package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"attend/internal/app"
	"attend/internal/config"
	"attend/internal/engine"
)

// exportBatch is how many records are read at once.
const exportBatch = 500

// newLog builds `attend log`, which holds what reads the log itself.
func newLog(p *process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Read the log itself, and copy a store",
		Args:  takes(),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newLogExport(p), newLogImport(p), newLogEpoch(p))
	return cmd
}

// newLogExport builds `attend log export`.
func newLogExport(p *process) *cobra.Command {
	var (
		scope string
		after int64
		whole bool
	)
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write every record of the log as NDJSON, in order",
		Long: `Write the log's records as NDJSON, in order, one a line: its position, its stamp
(Unix ms), its scope, and either the event as it came or the step that was
taken. It opens the database for reading and may run beside the daemon, whose
configuration says where it is.

An event's data stands there byte for byte as it was sent, but for two things
that leave the JSON value what it is: a line end between two tokens is a blank,
and characters that a terminal would act on are \u escapes.

With --whole it writes everything else that the store holds too, as it is at one
instant: states, remembered ids, consumers, Fields. That is a backup, which
attend log import reads. How far it has come is told on standard error.`,
		Example: `  attend log export > log.ndjson
  attend log export --scope chat:42 --store sqlite:/var/lib/attend/attend.db
  attend log export --whole > backup.ndjson
  attend log export --after 120000 | jq -c 'select(.step.kind == "settled")'`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if after < 0 {
				return fmt.Errorf("--after %d: must be at least 0", after)
			}
			cfg, err := config.LoadToShow(cmd.Flags(), p.env)
			if err != nil {
				return err
			}
			if whole {
				return exportWhole(cmd, cfg.Store)
			}
			log, err := app.OpenLog(cmd.Context(), cfg.Store)
			if err != nil {
				return err
			}
			defer log.Close()
			return export(cmd.Context(), log, cmd.OutOrStdout(), scope, engine.Position(after))
		},
	}
	flags := cmd.Flags()
	flags.StringP("config", "c", "", "read `file` (default attend.yaml, where there is one)")
	flags.String("store", "sqlite:attend.db", "`store` to read, as the daemon has it: sqlite:<file> or postgres:<url>")
	flags.StringVar(&scope, "scope", "", "only records of this scope")
	flags.Int64Var(&after, "after", 0, "only records after this position")
	flags.BoolVar(&whole, "whole", false, "write everything that the store holds, for attend log import")
	cmd.MarkFlagsMutuallyExclusive("whole", "scope")
	cmd.MarkFlagsMutuallyExclusive("whole", "after")
	return cmd
}

// logReader reads records after a position, in order, at most limit.
type logReader interface {
	Read(ctx context.Context, after engine.Position, limit int) ([]engine.Record, error)
}

// export writes what the log holds at this time. It ends where the log ended
// when it was last read.
func export(ctx context.Context, log logReader, out io.Writer, scope string, after engine.Position) error {
	w := bufio.NewWriter(out)
	for {
		records, err := log.Read(ctx, after, exportBatch)
		if err != nil {
			return fmt.Errorf("read the log after position %d: %w", after, err)
		}
		if len(records) == 0 {
			return w.Flush()
		}
		for i := range records {
			r := &records[i]
			after = r.Position
			if scope != "" && r.Scope != scope {
				continue
			}
			line, err := exportLine(r)
			if err != nil {
				return fmt.Errorf("record at position %d: %w", r.Position, err)
			}
			if _, err := w.WriteString(line); err != nil {
				return fmt.Errorf("write: %w", err)
			}
		}
	}
}

// exportLine writes a record on one line that is safe to show. What the daemon
// wrote itself is written anew; an event's data, last in its object, is not, so
// that blanks, digits and escapes stay those that were sent.
func exportLine(r *engine.Record) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(exported(r)); err != nil {
		return "", err
	}
	line, err := jsonLine(b.Bytes())
	if err != nil || r.Event == nil || len(r.Event.Data) == 0 {
		return line + "\n", err
	}
	const end = "}}" // of the event and of the record
	return strings.TrimSuffix(line, end) + `,"data":` + visibleData(string(r.Event.Data)) + end + "\n", nil
}

// record is the line of one record.
type record struct {
	Position engine.Position `json:"position"`
	Stamp    engine.Time     `json:"stamp"`
	Scope    string          `json:"scope,omitempty"`
	Event    *event          `json:"event,omitempty"`
	Step     *engine.Step    `json:"step,omitempty"`
}

// event is an event as it came, but for its data, with the kind and the policy
// that were fixed when it was accepted.
type event struct {
	ID     string       `json:"id"`
	Name   string       `json:"name"`
	Kind   engine.Kind  `json:"kind"`
	Policy uint32       `json:"policy"`
	At     *engine.Time `json:"at,omitempty"`
	Text   string       `json:"text,omitempty"`
}

func exported(r *engine.Record) record {
	out := record{Position: r.Position, Stamp: r.Stamp, Scope: r.Scope, Step: r.Step}
	if e := r.Event; e != nil {
		out.Event = &event{ID: e.ID, Name: e.Name, Kind: e.Kind, Policy: e.Policy, At: e.At, Text: e.Text}
	}
	return out
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"attend/internal/config"
)

// newCheck builds `attend check`.
func newCheck(p *process) *cobra.Command {
	var events, trial string
	output := outputText
	cmd := &cobra.Command{
		Use:   "check [NAME...]",
		Short: "Check the configuration, and show what event names resolve to",
		Long: `Check the configuration without starting anything: every mistake with its line
and column, every warning, what each pattern stands for, and what each event
name given (or found in a file of events) resolves to and why. It takes the
flags of attend serve, so that a command line can be checked before it is used.

  exact    the name itself is configured
  glob     the most specific pattern that matches
  default  nothing matches: a consequence, which never wakes anyone

With --rules, where no judge takes them, the judge is taken to be the rules.
--against tries rules on a file of events, as attend replay reads it (a log
export too): which rule each window met, how often each matched, and which
conditions failed and why. Judges that stand in order are gone through as the
daemon would; one that is no rule is named, and nobody is asked.

It ends with 1 when there are mistakes.`,
		Example: `  attend check
  attend check --kinds kinds.json message.created build.failed
  attend check --kinds kinds.json --events events.ndjson
  attend check --rules rules.yaml --kinds kinds.json --against events.ndjson
  attend check --config attend.yaml --output json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			names, mistakes, err := namesToCheck(args, events, cmd.InOrStdin())
			if err != nil {
				return err
			}
			if err := config.TryRules(cmd.Flags()); err != nil {
				return err
			}
			report := config.Check(cmd.Flags(), p.env, names)
			report.Mistakes = append(report.Mistakes, mistakes...)
			if trial != "" && len(report.Mistakes) == 0 {
				t, err := against(cmd, p.env, trial)
				if err != nil {
					return err
				}
				return writeTried(cmd.OutOrStdout(), output, t, &report)
			}
			if err := writeReport(cmd.OutOrStdout(), output, &report); err != nil {
				return err
			}
			switch n := len(report.Mistakes); n {
			case 0:
				return nil
			case 1:
				return errors.New("1 mistake")
			default:
				return fmt.Errorf("%d mistakes", n)
			}
		},
	}
	config.Flags(cmd.Flags())
	cmd.Flags().StringVar(&events, "events", "", "resolve every name in this `file` of events (NDJSON; - reads the standard input)")
	cmd.Flags().StringVar(&trial, "against", "", "try the rules on this `file` of events (NDJSON; - reads the standard input)")
	cmd.Flags().VarP(&output, "output", "o", "what to print")
	return cmd
}

// namesToCheck joins the names of the command line and those of a file of
// events, with how many events have each.
func namesToCheck(args []string, events string, stdin io.Reader) ([]config.NameCount, config.Mistakes, error) {
	names := make([]config.NameCount, 0, len(args))
	for _, name := range args {
		names = append(names, config.NameCount{Name: name})
	}
	if events == "" {
		return names, nil, nil
	}
	source, in, done, err := openEvents(events, stdin)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	found, mistakes, err := config.CountNames(source, in)
	if err != nil {
		return nil, nil, fmt.Errorf("events: %w", err)
	}
	return append(names, found...), mistakes, nil
}

// openEvents opens a file of events, or the standard input for "-". source is
// what it is called; done closes it.
func openEvents(file string, stdin io.Reader) (source string, in io.Reader, done func(), err error) {
	if file == "-" {
		return "standard input", stdin, func() {}, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return "", nil, nil, fmt.Errorf("events: %w", err)
	}
	return file, f, func() { _ = f.Close() }, nil // it was read
}

func writeReport(w io.Writer, output outputFlag, r *config.Report) error {
	if output == outputJSON {
		var b strings.Builder
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(r); err != nil {
			return fmt.Errorf("encode report: %w", err)
		}
		_, err := io.WriteString(w, visibleReport(b.String()))
		return err
	}
	var b strings.Builder
	describeReport(&b, r)
	_, err := io.WriteString(w, b.String())
	return err
}

// visibleReport makes indented JSON safe to show, and keeps its lines.
func visibleReport(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = visibleJSON(line)
	}
	return strings.Join(lines, "\n")
}

// describeReport writes the report for people, what matters most last: it is
// what stands above the prompt.
func describeReport(w io.Writer, r *config.Report) {
	var parts []string
	if len(r.Files) > 0 {
		parts = append(parts, "read: "+visible(strings.Join(r.Files, ", "))+"\n")
	}
	parts = append(parts, kindsTable(r.Kinds), namesTable(r.Names), scopesList(r.Scopes), judgesTable(r.Judges), judgingList(r), tokensTable(r.Tokens), sourcesTable(r.Sources), hooksTable(r.Hooks), sinksTable(r.Sinks), verdict(r))
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	_, _ = io.WriteString(w, strings.Join(parts, "\n")) // it writes into memory
}

func kindsTable(kinds []config.KindReport) string {
	return table("PATTERN\tKIND\tMATCH\tNAMES\tEVENTS", kinds, func(k config.KindReport) string {
		return fmt.Sprintf("%s\t%s\t%s\t%d\t%d", visible(k.Pattern), k.Kind, k.Why, k.Names, k.Events)
	})
}

func sinksTable(sinks []config.SinkReport) string {
	return table("SINK\tTAKES\tTO", sinks, func(s config.SinkReport) string {
		routes := make([]string, len(s.Routes))
		for i, r := range s.Routes {
			routes[i] = r.String()
		}
		takes := strings.Join(routes, ", ")
		if takes == "" {
			takes = "dead letters"
		}
		return fmt.Sprintf("%s\t%s\t%s", visible(s.Name), takes, visible(s.To))
	})
}

func namesTable(names []config.NameReport) string {
	return table("NAME\tKIND\tMATCH\tBY\tEVENTS", names, func(n config.NameReport) string {
		by := visible(n.Pattern)
		if by == "" {
			by = "-"
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%d", visible(n.Name), n.Kind, n.Why, by, n.Events)
	})
}

// table aligns rows under a head; without rows it is "".
func table[T any](head string, rows []T, row func(T) string) string {
	if len(rows) == 0 {
		return ""
	}
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, head)
	for _, r := range rows {
		fmt.Fprintln(t, row(r))
	}
	_ = t.Flush() // it writes into memory
	return b.String()
}

func scopesList(scopes []config.ScopeReport) string {
	var b strings.Builder
	for _, s := range scopes {
		fmt.Fprintf(&b, "scopes like %s have settings of their own (%s)\n", visible(s.Pattern), visible(s.Place.String()))
	}
	return b.String()
}

// orDash writes a dash where there is nothing.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func tokensTable(tokens []config.TokenReport) string {
	return table("TOKEN\tRIGHTS\tSCOPES\tFIELDS\tAGENTS\tEXPIRES", tokens, func(t config.TokenReport) string {
		expires := "never"
		if t.Expires != nil {
			expires = t.Expires.Format(time.RFC3339)
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", visible(t.Name), orAll(t.Rights), orAll(t.Scopes), orAll(t.Fields), orAll(t.Agents), expires)
	})
}

func sourcesTable(sources []config.SourceReport) string {
	return table("SOURCE\tSERVER\tEVENT\tARGUMENTS\tSCOPE\tMODE\tONLY", sources, func(s config.SourceReport) string {
		arguments := "-"
		if s.Arguments != nil {
			arguments = visible(string(s.Arguments))
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s", s.Name, visible(s.Server), visible(s.Event), arguments, visible(s.Scope), s.Mode, orAll(s.Only))
	})
}

func hooksTable(hooks []config.HookReport) string {
	return table("HOOK\tTYPE\tPATH\tSCOPE", hooks, func(h config.HookReport) string {
		return fmt.Sprintf("%s\t%s\t%s\t%s", h.Name, h.Type, h.Path, visible(h.Scope))
	})
}

// orAll writes patterns, of which none grant all.
func orAll(patterns []string) string {
	if len(patterns) == 0 {
		return "all"
	}
	return visible(strings.Join(patterns, ","))
}

// verdict lists warnings and mistakes, or says that there is none of the
// latter.
func verdict(r *config.Report) string {
	var b strings.Builder
	for _, w := range r.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", visible(w.String()))
	}
	for _, m := range r.Mistakes {
		fmt.Fprintf(&b, "mistake: %s\n", visible(m.String()))
	}
	if len(r.Mistakes) == 0 {
		b.WriteString("no mistakes\n")
	}
	return b.String()
}

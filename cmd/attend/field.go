package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// newField builds `attend field`.
func newField(p *process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "field",
		Short: "Read and write the memory that agents share",
		Long: `Read and write a Field: the durable memory that agents share. An agent writes
entries (JSON objects, each with the intent behind it), is attuned to the entries
of others that are relevant to it, and reckons where they contradict each other.

An entry, or a query, is an argument; - reads it from the standard input.`,
		Example: `  attend field register kelp --role 'market analyst'
  attend field write '{"topic":"price","value":"$49/mo"}' --agent kelp --intent 'seen on their pricing page'
  attend field attune --agent writer --topic price
  attend field reckon --agent writer --topic price`,
		Args: takesNone,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, op := range fieldOps() {
		cmd.AddCommand(newFieldOp(p, op))
	}
	cmd.AddCommand(newFieldNames(p))
	return cmd
}

// takesNone refuses a word that is no subcommand.
func takesNone(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
}

// fieldOp is an operation of the protocol as a command.
type fieldOp struct {
	name, short, long string
	example           string
	args              []fieldArg
	optional          bool // the last of args may be left out
	flags             []fieldFlag
	writes            bool
	describe          func(params map[string]any, raw []byte) (string, error)
}

// fieldArg is an argument: what it is called in a command line, and the
// parameter of the protocol that it gives.
type fieldArg struct {
	name, param string
	json        bool // its text is JSON
}

// fieldFlag is a flag and the parameter of the protocol that it gives.
type fieldFlag struct {
	name, param, usage string
	needed             bool // the operation is refused without it
	add                func(cmd *cobra.Command, name, usage string) func() any
}

// newFieldOp builds the command of one operation.
func newFieldOp(p *process, op fieldOp) *cobra.Command {
	call := &fieldCall{op: op, output: outputText, values: make(map[string]func() any)}
	use := op.name
	for i, arg := range op.args {
		name := arg.name
		if op.optional && i == len(op.args)-1 {
			name = "[" + name + "]"
		}
		use += " " + name
	}
	cmd := &cobra.Command{
		Use: use, Short: op.short, Long: op.long, Example: op.example,
		Args: call.checkArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return call.run(p, cmd, args) },
	}
	for _, f := range op.flags {
		call.values[f.name] = f.add(cmd, f.name, f.usage)
	}
	cmd.Flags().StringVar(&call.field, "field", "", "`name` of the Field (default \"default\")")
	call.addOutputFlags(p, cmd)
	return cmd
}

// fieldCall is one call of an operation, as the command line gives it.
type fieldCall struct {
	op     fieldOp
	daemon address
	output outputFlag
	raw    bool
	field  string
	values map[string]func() any // of the flags
}

// addOutputFlags adds what says where the daemon is and what to print.
func (c *fieldCall) addOutputFlags(p *process, cmd *cobra.Command) {
	addAddressFlags(cmd, p, &c.daemon)
	cmd.Flags().VarP(&c.output, "output", "o", "what to print")
	cmd.Flags().BoolVar(&c.raw, "json", false, "the same as --output json: the daemon's answer on one line")
	cmd.MarkFlagsMutuallyExclusive("output", "json")
}

// checkArgs refuses a command line whose arguments are not the operation's.
func (c *fieldCall) checkArgs(cmd *cobra.Command, args []string) error {
	var names []string
	for _, arg := range c.op.args {
		names = append(names, arg.name)
	}
	if c.op.optional && len(args) == len(names)-1 {
		return nil
	}
	return takes(names...)(cmd, args)
}

// run asks the daemon and prints what it answers.
func (c *fieldCall) run(p *process, cmd *cobra.Command, args []string) error {
	params, err := c.params(cmd, args)
	if err != nil {
		return err
	}
	var raw json.RawMessage
	if err := c.ask(p, cmd, http.MethodPost, "/v1/field/"+c.op.name, params, &raw); err != nil {
		return c.explain(cmd, err)
	}
	return c.print(cmd.OutOrStdout(), raw, func() (string, error) { return c.op.describe(params, raw) })
}

// ask makes one request.
func (c *fieldCall) ask(p *process, cmd *cobra.Command, method, path string, params, out any) error {
	client, err := connect(p, &c.daemon)
	if err != nil {
		return err
	}
	defer client.close()
	ctx, cancel := context.WithTimeout(cmd.Context(), callTimeout)
	defer cancel()
	err = client.call(ctx, method, path, nil, params, out)
	if c.op.writes && unanswered(err) {
		return fmt.Errorf("%w; it may have been done all the same: look before doing it again", err)
	}
	return err
}

// explain names the flags whose lack the daemon may have refused: it calls them
// by the protocol's names.
func (c *fieldCall) explain(cmd *cobra.Command, err error) error {
	var refused *problemError
	if !errors.As(err, &refused) || refused.Status != http.StatusBadRequest {
		return err
	}
	for _, f := range c.op.flags {
		if f.needed && !cmd.Flags().Changed(f.name) {
			refused.Detail += "; --" + f.name + " is missing"
		}
	}
	return err
}

// unanswered reports that a request may have reached the daemon, and that no
// answer came back.
func unanswered(err error) bool {
	var refused *problemError
	var network *net.OpError
	switch {
	case err == nil, errors.As(err, &refused):
		return false
	case errors.As(err, &network):
		return network.Op != "dial"
	default:
		return true
	}
}

// print writes an answer as it was asked for.
func (c *fieldCall) print(w io.Writer, raw []byte, describe func() (string, error)) error {
	text, err := "", error(nil)
	if c.raw || c.output == outputJSON {
		text, err = jsonLine(raw)
	} else {
		text, err = describe()
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, text)
	return err
}

// params are the parameters of the protocol, under its names.
func (c *fieldCall) params(cmd *cobra.Command, args []string) (map[string]any, error) {
	params := make(map[string]any)
	if c.field != "" {
		params["field"] = c.field
	}
	for _, f := range c.op.flags {
		if cmd.Flags().Changed(f.name) {
			params[f.param] = c.values[f.name]()
		}
	}
	for i, text := range args {
		arg := c.op.args[i]
		if !arg.json {
			params[arg.param] = text
			continue
		}
		value, err := readJSONArgument(arg.name, text, cmd.InOrStdin())
		if err != nil {
			return nil, err
		}
		params[arg.param] = value
	}
	return params, nil
}

// maxArgumentBytes bounds what is read from the standard input. The daemon
// takes less.
const maxArgumentBytes = 1 << 20

// readJSONArgument reads JSON out of an argument, or from the standard input
// where that is "-". Whether it is an object is the daemon's to say.
func readJSONArgument(name, text string, stdin io.Reader) (json.RawMessage, error) {
	raw := []byte(text)
	if text == "-" {
		var err error
		raw, err = io.ReadAll(io.LimitReader(stdin, maxArgumentBytes+1))
		if err != nil {
			return nil, fmt.Errorf("%s: standard input: %w", name, err)
		}
		if len(raw) > maxArgumentBytes {
			return nil, fmt.Errorf("%s: the standard input holds more than %d bytes", name, maxArgumentBytes)
		}
	}
	var value json.RawMessage
	if err := json.Unmarshal(raw, &value); err != nil {
		return nil, fmt.Errorf(`%s is not JSON: %s; want an object, in quotes for the shell, as '{"topic":"price","value":"$49/mo"}'`, name, notJSON(raw, err))
	}
	return value, nil
}

// notJSON says what is wrong with a text that is not JSON, and where.
func notJSON(raw []byte, err error) string {
	var bad *json.SyntaxError
	switch {
	case len(bytes.TrimSpace(raw)) == 0:
		return "there is nothing"
	case !errors.As(err, &bad):
		return "it cannot be read"
	case strings.HasPrefix(bad.Error(), "unexpected end"):
		return "it ends too early"
	}
	at := min(max(int(bad.Offset)-1, 0), len(raw)-1)
	r, _ := utf8.DecodeRune(raw[at:])
	return fmt.Sprintf("%q cannot stand at byte %d", r, at+1)
}

// newFieldNames builds `attend field names`.
func newFieldNames(p *process) *cobra.Command {
	call := &fieldCall{output: outputText}
	cmd := &cobra.Command{
		Use:     "names",
		Short:   "List the Fields that something was written to",
		Example: `  attend field names`,
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var raw json.RawMessage
			if err := call.ask(p, cmd, http.MethodGet, "/v1/fields", nil, &raw); err != nil {
				return err
			}
			return call.print(cmd.OutOrStdout(), raw, func() (string, error) { return describeFieldNames(raw) })
		},
	}
	call.addOutputFlags(p, cmd)
	return cmd
}

// describeFieldNames lists names, one a line.
func describeFieldNames(raw []byte) (string, error) {
	var answer struct {
		Fields []string `json:"fields"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return "", fmt.Errorf("answer about Fields: %w", err)
	}
	if len(answer.Fields) == 0 {
		return "no Fields", nil
	}
	for i, name := range answer.Fields {
		answer.Fields[i] = visible(name)
	}
	return strings.Join(answer.Fields, "\n"), nil
}

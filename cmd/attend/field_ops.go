package main

import "github.com/spf13/cobra"

// fieldOps is the table of the operations: what a command line says, and the
// parameter of the protocol that each part of it gives. What a parameter must
// be is the daemon's to say: it answers with the protocol's own code.
func fieldOps() []fieldOp {
	return append(fieldWrites(), fieldReads()...)
}

// fieldWrites are the operations that change a Field.
func fieldWrites() []fieldOp {
	agent := fieldArg{name: "AGENT", param: "id"}
	entry := fieldArg{name: "ENTRY", param: "entry", json: true}
	draft := fieldArg{name: "DRAFT", param: "draft_id"}
	author := textFlag("agent", "whose `id` the entry has as its author")
	intent := needed(textFlag("intent", "`why`, in words"))
	return []fieldOp{
		{
			name: "register", short: "Tell a Field of an agent and its role", args: []fieldArg{agent}, writes: true,
			long: `Tell a Field of an agent and its role. Nothing needs it: the role of a writer
counts when others are attuned.`,
			example: `  attend field register kelp --role 'market analyst'`,
			flags: []fieldFlag{
				needed(textFlag("role", "the agent's `role`")),
				{name: "capability", param: "capabilities", usage: "`what` the agent can do; may be repeated", add: addList},
			},
			describe: describeRegister,
		},
		{
			name: "deregister", short: "Let a Field forget an agent's role", args: []fieldArg{agent}, writes: true,
			long:     "Let a Field forget an agent's role. Its entries and drafts stay.",
			describe: describeDone("id", "no longer registered"),
		},
		{
			name: "write", short: "Write an entry that others see", args: []fieldArg{entry}, writes: true,
			long: `Write an entry: any JSON object. Its topic is what others look for; entries of
the same topic that differ in another key contradict each other.`,
			example: `  attend field write '{"topic":"price","value":"$49/mo"}' --agent kelp --intent 'seen on their pricing page'
  jq '.finding' report.json | attend field write - --agent kelp --intent 'the weekly report'`,
			flags:    []fieldFlag{author, intent},
			describe: describeWritten("committed"),
		},
		{
			name: "draft", short: "Write an entry that its author alone sees", args: []fieldArg{entry}, writes: true,
			long:     "Write an entry that its author alone sees, until it is committed or discarded.",
			flags:    []fieldFlag{author, intent},
			describe: describeDraft,
		},
		{
			name: "commit", short: "Let others see a draft", args: []fieldArg{draft}, writes: true,
			long:     "Let others see a draft. It keeps its id.",
			describe: describeWritten("committed"),
		},
		{
			name: "discard", short: "Give a draft up", args: []fieldArg{draft}, writes: true,
			long:     "Give a draft up. It stays readable as retracted, with the reason in place of its intent.",
			flags:    []fieldFlag{textFlag("agent", "`who` discards it"), intent},
			describe: describeDone("draft_id", "discarded"),
		},
		{
			name: "retract", short: "Take an entry back", args: []fieldArg{{name: "ID", param: "id"}}, writes: true,
			long:     "Take an entry back: nobody is attuned to it any more. Its author alone may.",
			flags:    []fieldFlag{needed(textFlag("agent", "`who` takes it back")), intent},
			describe: describeDone("id", "retracted"),
		},
		{
			name: "supersede", short: "Put an entry in the place of another", args: []fieldArg{{name: "ID", param: "superseding_id"}, entry}, writes: true,
			long:     "Put an entry in the place of another, or of the one that stands in its place by now.",
			example:  `  attend field supersede 01KAAA… '{"topic":"price","value":"$39/mo"}' --agent gull --intent 'the price was lowered'`,
			flags:    []fieldFlag{needed(textFlag("agent", "the `author`")), intent},
			describe: describeWritten("committed"),
		},
	}
}

// fieldReads are the operations that only look.
func fieldReads() []fieldOp {
	reader := []fieldFlag{
		needed(textFlag("agent", "`who` asks: its own entries are left out, its own drafts are not")),
		textFlag("topic", "the `topic` it works on"),
		textFlag("role", "its `role`, in place of the one that it registered"),
		{name: "max-units", param: "max_units", usage: "how `many` entries to show at most (default 100; the daemon shows 10,000, and 1,000 of a reckoning)", add: addNumber},
		{name: "only-topic", param: "only_topic", usage: "leave entries of other topics out", add: addToggle},
	}
	return []fieldOp{
		{
			name: "attune", short: "Show what is relevant to an agent, ranked",
			example:  `  attend field attune --agent writer --topic price --max-units 5`,
			long:     "Show what is relevant to an agent now: the most relevant first, each with its score and why.",
			flags:    reader,
			describe: describeAttune,
		},
		{
			name: "reckon", short: "The same, and where entries contradict each other",
			example: `  attend field reckon --agent writer --topic price`,
			long: `Show what is relevant to an agent, as attune does, and every two entries among it
that contradict each other: they have the same topic, and different values
under another key.`,
			flags: append(reader[:len(reader):len(reader)],
				fieldFlag{name: "deep", param: "deep", usage: "compare what stands inside objects too, key by key; lists are not compared", add: addToggle}),
			describe: describeReckon,
		},
		{
			name: "read", short: "Show entries, whatever their status", args: []fieldArg{{name: "QUERY", param: "query", json: true}}, optional: true,
			long: `Show entries in the order in which they were written, superseded and retracted
ones too. A query is a JSON object: an entry matches when it has the same values
under the same keys.`,
			example: `  attend field read
  attend field read '{"topic":"price"}' --caller kelp`,
			flags: []fieldFlag{
				textFlag("caller", "show this `agent`'s drafts as well"),
				{name: "limit", param: "limit", usage: "how `many` entries to show at most (default 1000)", add: addNumber},
				textFlag("after", "go on after the entry with this `id`"),
			},
			describe: describeRead,
		},
	}
}

func textFlag(param, usage string) fieldFlag {
	return fieldFlag{name: param, param: param, usage: usage, add: addText}
}

// needed marks a flag without which the daemon refuses the operation.
func needed(f fieldFlag) fieldFlag {
	f.needed = true
	return f
}

func addText(cmd *cobra.Command, name, usage string) func() any {
	v := cmd.Flags().String(name, "", usage)
	return func() any { return *v }
}

func addList(cmd *cobra.Command, name, usage string) func() any {
	v := cmd.Flags().StringArray(name, nil, usage)
	return func() any { return *v }
}

func addNumber(cmd *cobra.Command, name, usage string) func() any {
	v := cmd.Flags().Int(name, 0, usage)
	return func() any { return *v }
}

func addToggle(cmd *cobra.Command, name, usage string) func() any {
	v := cmd.Flags().Bool(name, false, usage)
	return func() any { return *v }
}

package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"attend/internal/engine"
	"attend/internal/judge/rules"
)

// The keys that say who judges, and what judges are shown.
const (
	keyJudge    = "judge"    // a type, or in attend.yaml an object with its options
	keyJudges   = "judges"   // several of them
	keyRules    = "rules"    // of the judge rules: a file, or the rules themselves
	keyOverride = "override" // of their answers
	keyCapture  = "capture"
)

// Bounds on what an entry may hold.
const (
	maxJudges       = 16
	maxJudgeName    = 64 // it is a label of metrics
	maxModelBytes   = 256
	maxOverrides    = 100
	maxArguments    = 256
	maxVariables    = 256
	maxArgument     = 64 << 10
	maxConcurrency  = 10_000
	maxDailyTokens  = int64(1) << 50
	exampleJudges   = "a list, as [{type: jev, onError: next}, {type: rule}]"
	exampleOne      = "the type of a judge, or an object, as {type: jev, timeoutMs: 2000}"
	exampleEntry    = "the type of a judge, or an object, as {type: jev, onError: next}"
	exampleOverride = `a list, as [{when: 'predicates.asked >= 0.7', then: queue}]`
)

// draft is an entry while it is read: what was given, and where.
type draft struct {
	Judge
	at     string // "judge", "judges[1]"
	where  map[string]spot
	keyEnv string // the variable that was named to hold the key
	source given  // of rules: a file or the rules, where the entry gives them

	unknown []field
	set     *rules.Ruleset // of rules that can be read
}

// spot is where an option was given, for the mistakes about it.
type spot struct {
	place Place
	key   string
}

// has reports whether an option was given.
func (d *draft) has(option string) bool { _, ok := d.where[option]; return ok }

// spot returns where an option stands, else where the entry does.
func (d *draft) spot(option string) spot {
	if s, ok := d.where[option]; ok {
		return s
	}
	return spot{d.Place, d.at}
}

// judgeOption is a key of an entry.
type judgeOption struct {
	name string
	read func(r *reader, n *yaml.Node, key string, d *draft)
}

// judgeOptions is the one table of them.
func judgeOptions() []judgeOption {
	return []judgeOption{
		{"name", func(r *reader, n *yaml.Node, key string, d *draft) { d.Name = r.judgeName(n, key) }},
		{"type", func(r *reader, n *yaml.Node, key string, d *draft) { d.Type = r.judgeType(n, key) }},
		{"when", func(r *reader, n *yaml.Node, key string, d *draft) { d.When = r.condition(n, key, windowCondition) }},
		{"below", func(r *reader, n *yaml.Node, key string, d *draft) { d.Below = r.share(n, key) }},
		{"onError", func(r *reader, n *yaml.Node, key string, d *draft) { d.OnNext = r.onError(n, key) }},
		{"model", func(r *reader, n *yaml.Node, key string, d *draft) { d.Model, _ = r.name(n, key, maxModelBytes) }},
		{"url", func(r *reader, n *yaml.Node, key string, d *draft) { d.URL, _ = r.secretText(n, key) }},
		{"keyEnv", func(r *reader, n *yaml.Node, key string, d *draft) { d.keyEnv = r.variable(n, key) }},
		{"system", func(r *reader, n *yaml.Node, key string, d *draft) { d.System, _ = r.text(n, key, maxTextBytes) }},
		{"instructions", func(r *reader, n *yaml.Node, key string, d *draft) { d.Instructions, _ = r.text(n, key, maxTextBytes) }},
		{"criteria", func(r *reader, n *yaml.Node, key string, d *draft) {
			var s engine.Settings
			readCriteria(r, n, key)(&s)
			d.Criteria = s.Criteria
		}},
		{"longContext", func(r *reader, n *yaml.Node, key string, d *draft) { d.LongContext = r.flag(n, key) }},
		{"images", func(r *reader, n *yaml.Node, key string, d *draft) { d.Images = r.flag(n, key) }},
		{"file", func(r *reader, n *yaml.Node, key string, d *draft) {
			if text, ok := r.text(n, key, maxTextBytes); ok {
				d.source = given{text: text, place: r.place(n), key: key}
			}
		}},
		{"rules", func(r *reader, n *yaml.Node, key string, d *draft) {
			d.source = given{place: r.place(n), key: key, node: n}
			if n.Kind == yaml.ScalarNode {
				var ok bool
				if d.source.text, ok = r.text(n, key, rules.MaxText); !ok {
					d.source = given{}
				}
			}
		}},
		{"command", func(r *reader, n *yaml.Node, key string, d *draft) { d.Command = r.command(n, key) }},
		{"env", func(r *reader, n *yaml.Node, key string, d *draft) { d.Variables = r.variables(n, key) }},
		{"timeoutMs", func(r *reader, n *yaml.Node, key string, d *draft) {
			d.Timeout = time.Duration(r.least(n, key, maxDurationMs)) * time.Millisecond
		}},
		{"concurrency", func(r *reader, n *yaml.Node, key string, d *draft) {
			d.Concurrency = int(r.least(n, key, maxConcurrency))
		}},
		{"perSecond", func(r *reader, n *yaml.Node, key string, d *draft) { d.PerSecond = r.perSecond(n, key) }},
		{"dailyCalls", func(r *reader, n *yaml.Node, key string, d *draft) { d.DailyCalls = r.least(n, key, maxDailyTokens) }},
		{"dailyTokens", func(r *reader, n *yaml.Node, key string, d *draft) { d.DailyTokens = r.least(n, key, maxDailyTokens) }},
	}
}

// readJudges reads the list.
func (r *reader) readJudges(n *yaml.Node) []*draft {
	items := r.items(n, keyJudges, exampleJudges)
	switch {
	case n.Kind == yaml.SequenceNode && len(items) == 0:
		r.fail(n, keyJudges, "is an empty list: name at least one judge, or leave the key out")
	case len(items) > maxJudges:
		r.fail(n, keyJudges, "has %d entries: may have at most %d", len(items), maxJudges)
		items = items[:maxJudges]
	}
	drafts := make([]*draft, 0, len(items))
	for i, item := range items {
		drafts = append(drafts, r.readJudge(item, fmt.Sprintf("%s[%d]", keyJudges, i)))
	}
	return drafts
}

// readJudge reads one entry: a type alone, or an object.
func (r *reader) readJudge(n *yaml.Node, at string) *draft {
	d := &draft{Judge: Judge{Place: r.place(n), Images: true}, at: at, where: make(map[string]spot)}
	if n.Kind == yaml.ScalarNode && !isNull(n) {
		d.Type = r.judgeType(n, at)
		return d
	}
	want := exampleEntry
	if at == keyJudge {
		want = exampleOne
		if n.Kind == yaml.SequenceNode {
			r.fail(n, at, "is a list: several stand in judges, as judges: [{type: jev, onError: next}, {type: rule}]")
			return d
		}
	}
	options := judgeOptions()
	for _, f := range r.fields(n, at, want) {
		key := join(at, label(f.name))
		i := slices.IndexFunc(options, func(o judgeOption) bool { return o.name == f.name })
		if i < 0 {
			d.unknown = append(d.unknown, f) // what to say of it depends on the type
			continue
		}
		if isNull(f.value) {
			continue // "model:" with nothing behind it: not set
		}
		d.where[f.name] = spot{r.place(f.value), key}
		options[i].read(r, f.value, key, d)
	}
	if !d.has("type") && n.Kind == yaml.MappingNode {
		r.fail(n, at, "has no type%s", orList("", judgeTypes()))
	}
	for _, f := range d.unknown {
		r.fail(f.key, join(at, label(f.name)), "%s", unknownOption(f.name, d.Type))
	}
	return d
}

func (r *reader) judgeType(n *yaml.Node, key string) JudgeType {
	if _, known := judgeKindOf(JudgeType(n.Value)); n.Kind != yaml.ScalarNode || !known {
		r.fail(n, key, "is %s: unknown judge%s", describe(n), orList(n.Value, judgeTypes()))
		return ""
	}
	return JudgeType(n.Value)
}

func (r *reader) judgeName(n *yaml.Node, key string) string {
	v, ok := r.text(n, key, maxJudgeName)
	if ok && strings.ContainsFunc(v, func(c rune) bool {
		return c != '_' && c != '-' && c != '.' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
	}) {
		r.fail(n, key, "is %s: must be letters, digits, -, _ and . alone: it names the judge in metrics", quote(v))
	}
	return v
}

// share reads a confidence.
func (r *reader) share(n *yaml.Node, key string) float64 {
	v, ok := r.number(n, key)
	if ok && !(v > 0 && v <= 1) {
		r.fail(n, key, "is %s: must be in (0, 1]", n.Value)
	}
	return v
}

func (r *reader) perSecond(n *yaml.Node, key string) float64 {
	const most = 10_000
	v, ok := r.number(n, key)
	if ok && !(v > 0 && v <= most) {
		r.fail(n, key, "is %s: must be more than 0, and at most %d", n.Value, most)
	}
	return v
}

// least reads a whole number from 1.
func (r *reader) least(n *yaml.Node, key string, most int64) int64 {
	v, ok := r.integer(n, key, most)
	if ok && v < 1 {
		r.fail(n, key, "is %d: must be at least 1; leave the key out for no limit", v)
	}
	return v
}

// flag reads true or false.
func (r *reader) flag(n *yaml.Node, key string) bool {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
		r.fail(n, key, "is %s: must be true or false", describe(n))
		return false
	}
	return strings.EqualFold(n.Value, "true")
}

func (r *reader) onError(n *yaml.Node, key string) bool {
	if n.Kind != yaml.ScalarNode || n.Value != "next" {
		r.fail(n, key, "is %s: must be next; leave the key out to try the same judge again", describe(n))
	}
	return true
}

// readOverrides reads the rules that act on an answer.
func (r *reader) readOverrides(n *yaml.Node) []Override {
	items := r.items(n, keyOverride, exampleOverride)
	if len(items) > maxOverrides {
		r.fail(n, keyOverride, "has %d entries: may have at most %d", len(items), maxOverrides)
		return nil
	}
	names := []string{"name", "when", "then"}
	named := make(map[string]Place)
	var overrides []Override
	for i, item := range items {
		at := fmt.Sprintf("%s[%d]", keyOverride, i)
		o := Override{Place: r.place(item)}
		given := make(map[string]bool)
		for _, f := range r.fields(item, at, "an object with when and then") {
			key := join(at, label(f.name))
			switch f.name {
			case "name":
				o.Name, _ = r.name(f.value, key, maxJudgeName)
				if first, again := named[o.Name]; again {
					r.fail(f.value, key, "%s is given twice, first at %s", quote(o.Name), first)
				}
				named[o.Name] = r.place(f.value)
			case "when":
				o.Place = r.place(f.value)
				o.When = r.condition(f.value, key, rules.CheckOverride)
			case "then":
				o.Then, _ = r.route(f.value, key)
				if o.Then == engine.Wait {
					r.fail(f.value, key, "is wait: only a judge may say so; want interrupt, queue, note, ask or skip")
				}
			default:
				r.fail(f.key, key, "unknown key%s", orList(f.name, names))
			}
			given[f.name] = true
		}
		for _, name := range names[1:] {
			if !given[name] && item.Kind == yaml.MappingNode {
				r.fail(item, at, "has no %s: want %s", name, exampleOverride[strings.Index(exampleOverride, "{"):len(exampleOverride)-1])
			}
		}
		overrides = append(overrides, o)
	}
	return overrides
}

package config

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// Source is an entry of sources: a subscription to a server of MCP Events, and
// where its events go.
type Source struct {
	Place     Place
	Name      string     // unlike that of any other
	URL       string     // of a server over HTTP; "" where Command is one
	Command   []string   // a server that is a program and speaks over stdio
	Variables []Variable // of its environment
	Token     Secret     // sent as a bearer token; "" for none

	Event     string
	Arguments json.RawMessage // a JSON object with its keys sorted; nil for none
	Scope     ScopeTemplate
	Only      []string // patterns of event names; empty takes all

	Mode        string        // "auto", "stream" or "poll"
	MaxAge      time.Duration // 0 for no bound
	MaxEvents   int           // 0 leaves it to the server
	Poll        time.Duration
	MaxBuffered int
	IdleTimeout time.Duration

	plain bool // the file holds the token itself
}

// Server is what people are shown of the server: its address without a query,
// or the program.
func (s *Source) Server() string {
	return shownEnd(s.URL, s.Command)
}

// keySources is the list of them in attend.yaml.
const keySources = "sources"

// Bounds and defaults of a source. The defaults are those of the seed ("MCP
// Events sources", "Options").
const (
	maxSources         = 100
	maxSourceEvent     = 256 // bytes of an event type's name
	maxSourceArguments = 64 << 10
	maxSourcePage      = 100_000
	maxBuffered        = 1_000_000
	minPollMs          = 100

	defaultPollMs        = 10_000
	defaultMaxBuffered   = 1000
	defaultIdleTimeoutMs = 300_000

	exampleSources = `a list, as [{name: ci, url: https://ci.example.com/mcp, event: repo.activity, arguments: {repo: acme/shop}, scope: "repo:{arguments.repo}"}]`
)

// sourceModes lists the modes.
func sourceModes() []string { return []string{"auto", "stream", "poll"} }

// sourceDraft is an entry while it is read.
type sourceDraft struct {
	Source
	at       string
	where    map[string]spot
	tokenEnv string
	scope    *yaml.Node
}

// sourceOption is a key of an entry.
type sourceOption struct {
	name string
	read func(r *reader, n *yaml.Node, key string, d *sourceDraft)
}

// sourceOptions is the one table of them.
func sourceOptions() []sourceOption {
	ms := func(v int64) time.Duration { return time.Duration(v) * time.Millisecond }
	return []sourceOption{
		{"name", func(r *reader, n *yaml.Node, key string, d *sourceDraft) { d.Name = r.sourceName(n, key) }},
		{"url", func(r *reader, n *yaml.Node, key string, d *sourceDraft) { d.URL = r.serverURL(n, key) }},
		{"command", func(r *reader, n *yaml.Node, key string, d *sourceDraft) { d.Command = r.command(n, key) }},
		{"env", func(r *reader, n *yaml.Node, key string, d *sourceDraft) { d.Variables = r.variables(n, key) }},
		{"token", func(r *reader, n *yaml.Node, key string, d *sourceDraft) {
			d.Token, d.plain = r.serverToken(n, key), true
		}},
		{"tokenEnv", func(r *reader, n *yaml.Node, key string, d *sourceDraft) { d.tokenEnv = r.variable(n, key) }},
		{"event", func(r *reader, n *yaml.Node, key string, d *sourceDraft) { d.Event, _ = r.name(n, key, maxSourceEvent) }},
		{"arguments", func(r *reader, n *yaml.Node, key string, d *sourceDraft) { d.Arguments = r.sourceArguments(n, key) }},
		{"scope", func(_ *reader, n *yaml.Node, _ string, d *sourceDraft) { d.scope = n }},
		{"only", func(r *reader, n *yaml.Node, key string, d *sourceDraft) { d.Only = r.globs(n, key) }},
		{"mode", func(r *reader, n *yaml.Node, key string, d *sourceDraft) {
			if d.Mode = n.Value; n.Kind != yaml.ScalarNode || !slices.Contains(sourceModes(), n.Value) {
				r.fail(n, key, "is %s: unknown mode%s", describe(n), orList(n.Value, sourceModes()))
			}
		}},
		{"maxAgeMs", func(r *reader, n *yaml.Node, key string, d *sourceDraft) {
			d.MaxAge = ms(r.least(n, key, maxDurationMs))
		}},
		{"maxEvents", func(r *reader, n *yaml.Node, key string, d *sourceDraft) {
			d.MaxEvents = int(r.least(n, key, maxSourcePage))
		}},
		{"pollMs", func(r *reader, n *yaml.Node, key string, d *sourceDraft) {
			d.Poll = ms(r.between(n, key, minPollMs, maxDurationMs))
		}},
		{"maxBuffered", func(r *reader, n *yaml.Node, key string, d *sourceDraft) {
			d.MaxBuffered = int(r.between(n, key, 1, maxBuffered))
		}},
		{"idleTimeoutMs", func(r *reader, n *yaml.Node, key string, d *sourceDraft) {
			d.IdleTimeout = ms(r.between(n, key, 1, maxDurationMs))
		}},
	}
}

// readSources reads the list.
func (r *reader) readSources(n *yaml.Node) []Source {
	return readNamed(r, n, keySources, exampleSources, maxSources, func(item *yaml.Node, at string) (Source, string) {
		d := r.readSource(item, at)
		return d.Source, d.Name
	})
}

// readNamed reads a list of entries that have names of their own. Those with a
// mistake are left out.
func readNamed[T any](r *reader, n *yaml.Node, list, example string, most int, read func(item *yaml.Node, at string) (entry T, name string)) []T {
	items := r.items(n, list, example)
	if len(items) > most {
		r.fail(n, list, "has %d entries: may have at most %d", len(items), most)
		return nil
	}
	var all []T
	names := make(map[string]Place)
	for i, item := range items {
		before := len(r.mistakes)
		at := fmt.Sprintf("%s[%d]", list, i)
		entry, name := read(item, at)
		if first, again := names[name]; again && name != "" {
			r.fail(item, at, "the name %s is given twice, first at %s", quote(name), first)
		}
		names[name] = r.place(item)
		if len(r.mistakes) == before {
			all = append(all, entry)
		}
	}
	return all
}

// readSource reads one entry.
func (r *reader) readSource(n *yaml.Node, at string) *sourceDraft {
	d := &sourceDraft{at: at, where: make(map[string]spot), Source: Source{
		Place: r.place(n), Mode: sourceModes()[0], Poll: defaultPollMs * time.Millisecond,
		MaxBuffered: defaultMaxBuffered, IdleTimeout: defaultIdleTimeoutMs * time.Millisecond,
	}}
	options := sourceOptions()
	names := make([]string, len(options))
	for i := range options {
		names[i] = options[i].name
	}
	for _, f := range r.fields(n, at, "an object, as {name: ci, url: https://ci.example.com/mcp, event: repo.activity, scope: repo}") {
		key := join(at, label(f.name))
		i := slices.Index(names, f.name)
		if i < 0 {
			r.fail(f.key, key, "unknown key%s", didYouMean(f.name, names))
			continue
		}
		if isNull(f.value) {
			continue // "only:" with nothing behind it: not set
		}
		d.where[f.name] = spot{r.place(f.value), key}
		options[i].read(r, f.value, key, d)
	}
	if n.Kind == yaml.MappingNode {
		r.checkSource(n, d)
	}
	return d
}

// checkSource looks at what no single option shows.
func (r *reader) checkSource(n *yaml.Node, d *sourceDraft) {
	has := func(option string) bool { _, ok := d.where[option]; return ok }
	for _, needed := range []struct{ option, why string }{
		{"name", "it names the source in states and metrics, and its cursor in the store"},
		{"event", "it says which event type of the server is subscribed to"},
		{"scope", `it says where the events go, as "repo:{arguments.repo}"`},
	} {
		if !has(needed.option) {
			r.fail(n, d.at, "has no %s: %s", needed.option, needed.why)
		}
	}
	switch {
	case has("url") == has("command"):
		r.fail(n, d.at, "needs either url or command: a server over HTTP, or a program that speaks over stdio")
	case has("command") && (has("token") || has("tokenEnv")):
		r.fail(n, d.at, "has a token beside command: a program gets what it needs by env")
	case has("url") && has("env"):
		r.fail(n, d.at, "has env beside url: it is for a command")
	}
	if has("token") && has("tokenEnv") {
		r.fail(n, d.at, "has both token and tokenEnv: give one of them, better tokenEnv")
	}
	if d.tokenEnv != "" {
		r.tokenFromEnv(d)
	}
	if d.scope != nil {
		d.Scope = r.scopeTemplate(d.scope, join(d.at, "scope"), d.Arguments)
	}
}

// tokenFromEnv takes the token from the variable that is named.
func (r *reader) tokenFromEnv(d *sourceDraft) {
	at := d.where["tokenEnv"]
	value := r.env[d.tokenEnv]
	problem := ""
	if value == "" && r.keyless {
		return
	}
	if value == "" {
		problem = fmt.Sprintf("names the variable %s, which is not set", d.tokenEnv)
	} else if err := checkToken(value); err != nil {
		problem = fmt.Sprintf("names the variable %s, which %v", d.tokenEnv, err)
	}
	if problem != "" {
		r.mistakes = append(r.mistakes, Mistake{at.place, at.key, problem})
	}
	d.Token = Secret(value)
}

// serverToken reads a token, and quotes none of it.
func (r *reader) serverToken(n *yaml.Node, key string) Secret {
	text, ok := r.secretText(n, key)
	if !ok {
		return ""
	}
	if err := checkToken(text); err != nil {
		r.fail(n, key, "%v", err)
	}
	return Secret(text)
}

// sourceName reads a name: it is a label of metrics, and stands in keys.
func (r *reader) sourceName(n *yaml.Node, key string) string {
	v, ok := r.text(n, key, maxJudgeName)
	if ok && strings.ContainsFunc(v, func(c rune) bool {
		return c > unicode.MaxASCII || !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("-_.", c)
	}) {
		r.fail(n, key, "is %s: must be letters, digits, -, _ and . alone: it stands in metrics", quote(v))
	}
	return v
}

// serverURL reads an address. It may hold a secret, and is not quoted.
func (r *reader) serverURL(n *yaml.Node, key string) string {
	text, ok := r.secretText(n, key)
	if !ok {
		return ""
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		r.fail(n, key, "must be http:// or https:// and a host, as https://ci.example.com/mcp")
	case u.User != nil:
		r.fail(n, key, "holds a user or password: give a token instead")
	case u.Fragment != "":
		r.fail(n, key, "holds a #: no server sees what stands behind it")
	}
	return text
}

// between reads a whole number from least to most.
func (r *reader) between(n *yaml.Node, key string, least, most int64) int64 {
	v, ok := r.integer(n, key, most)
	if ok && v < least {
		r.fail(n, key, "is %d: must be at least %d", v, least)
	}
	return v
}

// warnSources warns of tokens that everyone may read.
func (l *loader) warnSources() {
	if i := slices.IndexFunc(l.c.Sources, func(s Source) bool { return s.plain }); i >= 0 {
		l.warnSecret(keySources, l.c.Sources[i].Place, "use tokenEnv")
	}
}

// SourceReport is a source of events: what it subscribes to, and where its
// events go.
type SourceReport struct {
	Place     Place           `json:"place"`
	Name      string          `json:"name"`
	Server    string          `json:"server"`
	Event     string          `json:"event"`
	Arguments json.RawMessage `json:"arguments"` // null for none
	Scope     string          `json:"scope"`     // as it was written
	Mode      string          `json:"mode"`
	Only      []string        `json:"only"`
}

func reportSource(s *Source) SourceReport {
	return SourceReport{
		Place: s.Place, Name: s.Name, Server: s.Server(), Event: s.Event, Arguments: s.Arguments,
		Scope: s.Scope.String(), Mode: s.Mode, Only: append([]string{}, s.Only...),
	}
}

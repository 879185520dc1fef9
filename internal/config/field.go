package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	rules "attend/internal/field"
)

// Field says how the shared memory of agents behaves. It holds for every named
// Field of the daemon.
type Field struct {
	// Settings are the rules: the table of scores, the least length of an intent.
	Settings rules.Settings
	// Ingest makes an event of each committed entry and each new conflict.
	Ingest bool
	// PushEvery is the least time between two results for one subscription.
	PushEvery time.Duration
}

// Context is what a judge that reads is shown beside the window, besides what a
// hook brings ([Judges.Context]).
type Context struct {
	// Attune are the entries of a Field to show; nil for none.
	Attune *Attune
}

// Attune asks a Field for what is relevant.
type Attune struct {
	Field    string // its name
	Agent    string // in whose place it is asked
	Topic    any    // a string, float64 or bool; nil for none
	Role     string // "" for the one that the agent registered
	MaxUnits int    // entries, from 1
}

// Bounds and defaults of what is asked of a Field.
const (
	defaultFieldName  = "default"
	maxFieldNameBytes = 128
	maxAgentBytes     = rules.MaxName // of a role too
	maxTopicBytes     = 16 << 10
	defaultAttuned    = 20
	maxAttuned        = 1000 // a judge reads no more
	maxMinIntent      = 1000
)

func setFieldScoring(c *Config, text string) error {
	mode, err := rules.ParseMode(text)
	if err != nil {
		return fmt.Errorf("is %s: unknown scoring%s", quote(text), orList(text, []string{rules.Graded.String(), rules.Reference.String()}))
	}
	c.Field.Settings.Mode = mode
	return nil
}

func setFieldMinIntent(c *Config, text string) error {
	v, err := strconv.Atoi(text)
	if err != nil || v < 0 || v > maxMinIntent {
		return fmt.Errorf("is %s: must be a whole number from 0 to %d", quote(text), maxMinIntent)
	}
	c.Field.Settings.MinIntent = v
	return nil
}

func setFieldIngest(c *Config, text string) (err error) {
	if c.Field.Ingest, err = strconv.ParseBool(text); err != nil {
		return fmt.Errorf("is %s: must be true or false", quote(text))
	}
	return nil
}

func setFieldPushEvery(c *Config, text string) error {
	const least, most = 10, int64(time.Hour / time.Millisecond)
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < least || v > most {
		return fmt.Errorf("is %s: must be whole milliseconds from %d to %d", quote(text), least, most)
	}
	c.Field.PushEvery = time.Duration(v) * time.Millisecond
	return nil
}

// scalarsOf names the scalars that stand in a section, without its name; ""
// is the top level.
func scalarsOf(section string) []string {
	var names []string
	for _, s := range scalars() {
		in, name, nested := strings.Cut(s.key, ".")
		switch {
		case nested && in == section:
			names = append(names, name)
		case !nested && section == "":
			names = append(names, s.key)
		}
	}
	return names
}

// readScalars reads a section of scalars into their layer.
func (r *reader) readScalars(section, example string, n *yaml.Node, layer map[string]any) {
	names := scalarsOf(section)
	for _, f := range r.fields(n, section, "an object of settings, as "+example) {
		key := join(section, label(f.name))
		if !slices.Contains(names, f.name) {
			r.fail(f.key, key, "unknown setting%s", didYouMean(f.name, names))
			continue
		}
		if isNull(f.value) {
			continue
		}
		if text, ok := r.scalar(f.value, key); ok {
			layer[key] = given{text: text, place: r.place(f.value), key: key}
		}
	}
}

// keyAttune stands under context, beside the keys of a hook.
const keyAttune = "attune"

// readContext reads what the section context asks of a Field. The rest of it is
// a hook.
func (r *reader) readContext(n *yaml.Node) (c Context) {
	if n = section(n, keyAttune); n != nil && !isNull(n) {
		c.Attune = r.readAttune(n, join(keyContext, keyAttune))
	}
	return c
}

// readAttune reads what to ask a Field for. The agent must be named: it is
// whose own entries are left out.
func (r *reader) readAttune(n *yaml.Node, key string) *Attune {
	a := &Attune{Field: defaultFieldName, MaxUnits: defaultAttuned}
	before := len(r.mistakes)
	names := []string{"field", "agent", "topic", "role", "maxUnits"}
	for _, f := range r.fields(n, key, "an object, as {agent: operator, topic: outage}") {
		at := join(key, label(f.name))
		if !slices.Contains(names, f.name) {
			r.fail(f.key, at, "unknown setting%s", didYouMean(f.name, names))
			continue
		}
		if isNull(f.value) {
			continue
		}
		switch f.name {
		case "field":
			a.Field = r.fieldName(f.value, at)
		case "agent":
			a.Agent, _ = r.name(f.value, at, maxAgentBytes)
		case "role":
			a.Role, _ = r.name(f.value, at, maxAgentBytes)
		case "topic":
			a.Topic = r.topic(f.value, at)
		case "maxUnits":
			a.MaxUnits = r.units(f.value, at)
		}
	}
	if a.Agent == "" && len(r.mistakes) == before {
		r.fail(n, join(key, "agent"), "is missing: name the agent in whose place the Field is asked; its own entries are not shown")
	}
	return a
}

// fieldName reads the name of a Field.
func (r *reader) fieldName(n *yaml.Node, key string) string {
	v, ok := r.name(n, key, maxFieldNameBytes)
	if ok && !utf8.ValidString(v) {
		r.fail(n, key, "is not valid UTF-8")
	}
	return v
}

// topic reads a topic with its type: 7 and "7" are different topics.
func (r *reader) topic(n *yaml.Node, key string) any {
	switch {
	case n.Kind != yaml.ScalarNode:
		r.fail(n, key, "is %s: must be text, a number, true or false", describe(n))
		return nil
	case n.Tag == "!!bool":
		return n.Value == "true" || strings.EqualFold(n.Value, "true")
	case n.Tag == "!!int" || n.Tag == "!!float":
		v, ok := r.number(n, key)
		if !ok || math.IsInf(v, 0) {
			return nil
		}
		return v
	}
	v, ok := r.text(n, key, maxTopicBytes)
	if !ok {
		return nil
	}
	if strings.ContainsFunc(v, unicode.IsControl) {
		r.fail(n, key, "is %s: must not hold control characters", quote(v))
	}
	return v
}

// units reads how many entries a judge is shown.
func (r *reader) units(n *yaml.Node, key string) int {
	v, ok := r.integer(n, key, maxAttuned)
	if ok && v < 1 {
		r.fail(n, key, "is %d: must be at least 1; leave out context.attune to show none", v)
	}
	return int(v)
}

package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"attend/internal/engine"
	"attend/internal/silences"
)

// keySilences is the list of them in attend.yaml.
const keySilences = "silences"

const (
	maxSilences     = silences.MaxActive
	exampleSilences = `a list, as [{scope: "repo:*", why: the migration, until: 2027-01-31T18:00:00Z}]`
)

// silenceKeys are those of an entry.
func silenceKeys() []string { return []string{"scope", "event", "until", "includeFlush", "why"} }

// readSilences reads the list.
func (r *reader) readSilences(n *yaml.Node) []silences.Configured {
	if n == nil || isNull(n) {
		return nil
	}
	items := r.items(n, keySilences, exampleSilences)
	if len(items) > maxSilences {
		r.fail(n, keySilences, "has %d entries: may have at most %d", len(items), maxSilences)
		return nil
	}
	var all []silences.Configured
	seen := make(map[silences.Configured]bool)
	for i, item := range items {
		at := fmt.Sprintf("%s[%d]", keySilences, i)
		if item.Kind != yaml.MappingNode {
			r.fail(item, at, "must be an object with scope, why and, unless it lasts for as long as it stands here, until")
			continue
		}
		c, ok := r.readSilence(item, at)
		if ok && seen[c] {
			r.fail(item, at, "stands in the list twice")
		}
		seen[c] = true
		all = append(all, c)
	}
	return all
}

// readSilence reads one entry; ok when nothing is wrong with it.
func (r *reader) readSilence(item *yaml.Node, at string) (c silences.Configured, ok bool) {
	before := len(r.mistakes)
	c.Until = silences.Forever
	nodes := make(map[string]*yaml.Node)
	for _, f := range r.fields(item, at, "an object") {
		key := join(at, f.name)
		if !slices.Contains(silenceKeys(), f.name) {
			r.fail(f.key, at, "holds an unknown key%s", orList(f.name, silenceKeys()))
			continue
		}
		if isNull(f.value) {
			continue
		}
		nodes[f.name] = f.value
		switch f.name {
		case "scope":
			c.Scope, _ = r.text(f.value, key, maxTextBytes)
		case "event":
			c.Event, _ = r.text(f.value, key, maxTextBytes)
		case "why":
			c.Why, _ = r.text(f.value, key, maxTextBytes)
		case "until":
			c.Until = engine.Time(r.instant(f.value, key).UnixMilli())
		case "includeFlush":
			text, read := r.text(f.value, key, maxTextBytes)
			var err error
			if c.IncludeFlush, err = strconv.ParseBool(text); read && err != nil {
				r.fail(f.value, key, "is %s: must be true or false", quote(text))
			}
		}
	}
	if len(r.mistakes) > before {
		return c, false
	}
	var wrong *silences.Mistake
	if err := silences.Check(c.Scope, c.Event, c.Why); errors.As(err, &wrong) {
		n := nodes[wrong.Field]
		if n == nil {
			n = item
		}
		r.fail(n, join(at, wrong.Field), "%s", wrong.Problem)
	}
	return c, len(r.mistakes) == before
}

package config

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"attend/internal/engine"
)

// Scope is an entry of scopes: settings for the scopes that match a pattern.
type Scope struct {
	Place    Place           `json:"place"`
	Pattern  string          `json:"scope"`
	Settings engine.Settings `json:"settings"` // whole: what the entry leaves out comes from policy
}

// readPolicy overlays the policy section on the settings.
func (r *reader) readPolicy(n *yaml.Node, s *engine.Settings) {
	known := make(map[string]setting)
	var names []string
	for _, set := range settings() {
		known[set.name] = set
		if !set.top {
			names = append(names, set.name)
		}
	}
	for _, f := range r.fields(n, "policy", "an object of settings, as {maxEvents: 200}") {
		key := join("policy", label(f.name))
		switch set, ok := known[f.name]; {
		case !ok:
			r.fail(f.key, key, "unknown setting%s", didYouMean(f.name, names))
		case set.top:
			r.fail(f.key, key, "stands at the top level of the file, beside policy")
		default:
			r.apply(set, f.value, key, s)
		}
	}
}

// readScopes reads the settings of each scope pattern, overlaid on base: a
// setting that is given replaces the whole value, a floor or list too.
func (r *reader) readScopes(n *yaml.Node, base engine.Settings) []Scope {
	items := r.items(n, "scopes", "a list, as [{scope: \"repo:*\", maxEvents: 50}]")
	names := []string{"scope"}
	known := make(map[string]setting)
	for _, set := range settings() {
		known[set.name] = set
		names = append(names, set.name)
	}
	var scopes []Scope
	first := make(map[string]Place)
	for i, item := range items {
		at := fmt.Sprintf("scopes[%d]", i)
		scope, named := Scope{Place: r.place(item), Settings: base}, false
		for _, f := range r.fields(item, at, "an object with scope and settings") {
			key := join(at, label(f.name))
			switch set, ok := known[f.name]; {
			case f.name == "scope":
				scope.Place, named = r.place(f.value), true
				scope.Pattern, _ = r.name(f.value, key, maxPatternBytes)
			case f.name == keyJudge || f.name == keyJudges:
				r.fail(f.key, key, "scopes have no judges of their own: in judges, give one a when, as %s", scopeCondition(item))
			case !ok:
				r.fail(f.key, key, "unknown setting%s", didYouMean(f.name, names))
			default:
				r.apply(set, f.value, key, &scope.Settings)
			}
		}
		if scope.Pattern == "" {
			if !named && (item.Kind == yaml.MappingNode || isNull(item)) {
				r.fail(item, at, `scope is missing: say for which scopes the settings hold, as "repo:*"`)
			}
			continue
		}
		if before, again := first[canonical(scope.Pattern)]; again {
			r.mistakes = append(r.mistakes, Mistake{scope.Place, at, fmt.Sprintf("%s is given twice, first on line %d", quote(scope.Pattern), before.Line)})
			continue
		}
		first[canonical(scope.Pattern)] = scope.Place
		scopes = append(scopes, scope)
	}
	return scopes
}

// scopeCondition is the condition that holds for the scopes of an entry.
func scopeCondition(entry *yaml.Node) string {
	pattern := "repo:*"
	if n := section(entry, "scope"); n != nil && n.Kind == yaml.ScalarNode && n.Value != "" {
		pattern = n.Value
	}
	start, glob := strings.CutSuffix(pattern, "*")
	switch {
	case !isGlob(pattern):
		return "scope == " + quote(pattern)
	case glob && !isGlob(start):
		return fmt.Sprintf("scope.startsWith(%s)", quote(start))
	default:
		return `scope.startsWith("repo:")`
	}
}

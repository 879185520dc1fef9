package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"attend/internal/expr"
	"attend/internal/ingest/hooks"
)

// secretsFromEnv reads the name of a variable that holds a secret, or a list of
// them while one takes the place of another.
func (r *reader) secretsFromEnv(n *yaml.Node, key string) []Secret {
	nodes := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		nodes = r.items(n, key, "a list")
	}
	if len(nodes) == 0 || len(nodes) > maxSecrets {
		r.fail(n, key, "names %d variables: want 1 to %d", len(nodes), maxSecrets)
		return nil
	}
	var all []Secret
	for _, node := range nodes {
		name := r.variable(node, key)
		if name == "" {
			continue
		}
		value, set := r.env[name]
		// A line's end is what a file leaves behind, and no part of the secret.
		value = strings.TrimRight(value, "\r\n")
		switch {
		case value == "" && r.keyless:
		case !set:
			r.fail(node, key, "names the variable %s, which is not set", name)
		case strings.TrimSpace(value) == "":
			r.fail(node, key, "names the variable %s, which is empty", name)
		case strings.TrimSpace(value) != value:
			r.fail(node, key, "names the variable %s, which begins or ends with a blank: no sender would send it so", name)
		case len(value) > 1 && strings.Contains(`"'`, value[:1]) && value[len(value)-1] == value[0]:
			r.fail(node, key, "names the variable %s, which stands in quotes that are a part of it: leave them out where it is set", name)
		case len(value) > maxTokenBytes:
			r.fail(node, key, "names the variable %s, which has %d bytes: may have at most %d", name, len(value), maxTokenBytes)
		default:
			all = append(all, Secret(value))
		}
	}
	return all
}

// readBasic reads a user, and where the password is.
func (r *reader) readBasic(n *yaml.Node, key string, d *inHookDraft) {
	names := []string{"user", "passwordEnv"}
	for _, f := range r.fields(n, key, "an object, as {user: alertmanager, passwordEnv: ALERTS_PASSWORD}") {
		at := join(key, label(f.name))
		switch f.name {
		case "user":
			if d.User, _ = r.name(f.value, at, maxHeader); strings.Contains(d.User, ":") {
				r.fail(f.value, at, "holds a colon, which ends the user")
			}
		case "passwordEnv":
			d.Passwords = r.secretsFromEnv(f.value, at)
		default:
			r.fail(f.key, at, "unknown key%s", secretOr(f.name, names))
		}
	}
	if n.Kind == yaml.MappingNode && len(n.Content) < 4 {
		r.fail(n, key, "needs both user and passwordEnv")
	}
}

// readSignature reads how a sender signs.
func (r *reader) readSignature(n *yaml.Node, key string) hooks.Signature {
	var s hooks.Signature
	before := len(r.mistakes)
	parts := []struct {
		name string
		into *string
		only []string // that it may be; nil for any text
	}{
		{"header", &s.Header, nil},
		{"prefix", &s.Prefix, nil},
		{"algorithm", &s.Algorithm, hooks.Algorithms()},
		{"encoding", &s.Encoding, hooks.Encodings()},
		{"signed", &s.Signed, nil},
		{"timestampHeader", &s.TimestampHeader, nil},
		{"timestampPrefix", &s.TimestampPrefix, nil},
		{"idHeader", &s.IDHeader, nil},
	}
	names := make([]string, len(parts))
	for i := range parts {
		names[i] = parts[i].name
	}
	for _, f := range r.fields(n, key, `an object, as {header: X-Signature, prefix: "sha256="}`) {
		at := join(key, label(f.name))
		i := slices.Index(names, f.name)
		if i < 0 {
			r.fail(f.key, at, "unknown key%s", didYouMean(f.name, names))
			continue
		}
		text, ok := r.name(f.value, at, maxHeader)
		if ok && parts[i].only != nil && !slices.Contains(parts[i].only, text) {
			r.fail(f.value, at, "is %s: unknown %s%s", describe(f.value), f.name, orList(text, parts[i].only))
		}
		*parts[i].into = text
	}
	if len(r.mistakes) == before {
		if err := s.Check(); err != nil {
			r.fail(n, key, "%v", err)
		}
	}
	return s
}

// readMapping reads the expressions that make an event.
func (r *reader) readMapping(n *yaml.Node, key string) hooks.Mapping {
	var m hooks.Mapping
	into := map[string]*string{
		"scope": &m.Scope, "name": &m.Name, "id": &m.ID, "at": &m.At, "text": &m.Text, "data": &m.Data, "challenge": &m.Challenge,
	}
	parts := m.Parts()
	names := make([]string, len(parts))
	for i := range parts {
		names[i] = parts[i].Name
	}
	env, err := expr.New(expr.Hook)
	if err != nil {
		r.fail(n, key, "%v", err)
		return m
	}
	for _, f := range r.fields(n, key, `an object, as {scope: '"shop:" + body.shop', name: 'body.type'}`) {
		at := join(key, label(f.name))
		i := slices.Index(names, f.name)
		if i < 0 {
			r.fail(f.key, at, "unknown key%s", didYouMean(f.name, names))
			continue
		}
		text, ok := r.text(f.value, at, maxCondition)
		if !ok {
			continue
		}
		*into[f.name] = text
		if slip := hookSlip(text); slip != "" {
			r.fail(f.value, at, "%s", slip)
			continue
		}
		_, err := env.CompileTo(parts[i].Result, text)
		if wrong, is := errors.AsType[*expr.Error](err); is {
			for _, one := range wrong.Mistakes {
				r.mistakes = append(r.mistakes, Mistake{r.placeIn(f.value, one.Line, one.Column), at, one.Problem})
			}
		} else if err != nil {
			r.fail(f.value, at, "%v", err)
		}
	}
	return m
}

// hookSlip says what is meant where an expression is a template, or names a header
// in a way that never finds one; "" for neither. What stands in a text literal may
// look the same, which is rare, and written in another way then.
func hookSlip(text string) string {
	if found := regexp.MustCompile(`\{\s*([A-Za-z_][\w.?]*)\s*\}`).FindStringSubmatch(text); found != nil {
		path := found[1]
		if first, _, _ := strings.Cut(path, "."); first != "body" && first != "headers" && first != "query" {
			path = "body." + path
		}
		return fmt.Sprintf(`is an expression, not a template: write %s without braces, and join texts as in "shop:" + body.shop`, clip(path))
	}
	for _, found := range regexp.MustCompile(`\bheaders\s*(?:\[\s*\??["']([^"']+)["']\s*\]|\.\??([A-Za-z][\w]*(?:-[A-Za-z]\w*)*))`).FindAllStringSubmatch(text, -1) {
		indexed, dotted := found[1], found[2]
		name := indexed + dotted
		lower := strings.ToLower(name)
		switch {
		case new(hooks.Signature).Hides(name):
			return fmt.Sprintf("looks at the header %s, which no mapping is shown: whom a request comes from would stand in the log", lower)
		case strings.Contains(dotted, "-"), lower != name:
			return fmt.Sprintf("names of headers are in lower case, in brackets and quotes where they hold a dash: write headers[%q]", lower)
		}
	}
	return ""
}

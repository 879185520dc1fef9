package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// hookKeys are those of a hook.
func hookKeys() []string { return []string{"http", "keyEnv", "command", "env"} }

// hookDraft is a hook while it is read.
type hookDraft struct {
	Hook
	at     string
	where  map[string]spot
	keyEnv string
}

// readHook reads a hook: what is asked over HTTP, or run. Keys that others read
// (attune, under context) are left to them.
func (r *reader) readHook(n *yaml.Node, section, want string, others ...string) *hookDraft {
	h := &hookDraft{at: section, where: make(map[string]spot)}
	names := slices.Concat(hookKeys(), others)
	if n != nil && n.Kind == yaml.ScalarNode && !isNull(n) {
		r.fail(n, section, "is a value: must be %s", want) // it may be an address, which may hold a secret
		return h
	}
	for _, f := range r.fields(n, section, want) {
		key := join(section, label(f.name))
		if !slices.Contains(names, f.name) {
			r.fail(f.key, key, "%s", unknownOfHook(section, f.name, names))
			continue
		}
		if isNull(f.value) || slices.Contains(others, f.name) {
			continue
		}
		h.where[f.name] = spot{r.place(f.value), key}
		switch f.name {
		case "http":
			h.Place = r.place(f.value)
			h.URL, _ = r.secretText(f.value, key)
		case "keyEnv":
			h.keyEnv = r.variable(f.value, key)
		case "command":
			h.Place = r.place(f.value)
			h.Command = r.command(f.value, key)
		case "env":
			h.Variables = r.variables(f.value, key)
		}
	}
	return h
}

// unknownOfHook says of a key that no hook has where what is meant by it stands.
func unknownOfHook(section, name string, names []string) string {
	switch plain(name) {
	case "url", "endpoint", "baseurl", "address":
		return "unknown setting: write http"
	case "timeoutms", "timeout":
		return fmt.Sprintf("unknown setting: it is %sTimeoutMs, under policy", section)
	case "apikey", "key", "token", "apitoken", "bearer", "secret":
		return "keys stand in variables: name one in keyEnv"
	default:
		return "unknown setting" + didYouMean(name, names)
	}
}

// command reads a program and its arguments. No shell takes them apart.
func (r *reader) command(n *yaml.Node, key string) []string {
	if n.Kind == yaml.ScalarNode {
		r.fail(n, key, "must be a list, as [./judge, --fast]: no shell takes it apart")
		return nil
	}
	items := r.items(n, key, "a list, as [./judge, --fast]")
	switch {
	case n.Kind == yaml.SequenceNode && len(items) == 0:
		r.fail(n, key, "is an empty list: name the program")
	case len(items) > maxArguments:
		r.fail(n, key, "has %d entries: may have at most %d", len(items), maxArguments)
		return nil
	}
	command := make([]string, 0, len(items))
	for i, item := range items {
		switch {
		case item.Kind != yaml.ScalarNode || isNull(item):
			r.fail(item, key, "holds %s: must be a list of texts", kindOfNode(item))
		case len(item.Value) > maxArgument:
			r.fail(item, key, "holds an argument of %d bytes: may have at most %d", len(item.Value), maxArgument)
		case strings.ContainsRune(item.Value, 0):
			r.fail(item, key, "holds an argument with a NUL in it")
		case i == 0 && strings.TrimSpace(item.Value) == "":
			r.fail(item, key, "names no program")
		default:
			command = append(command, item.Value)
		}
	}
	if len(command) > 0 {
		command[0] = r.program(command[0])
	}
	return command
}

// program makes a path that is relative to the file absolute. A name without a
// slash is looked for in PATH.
func (r *reader) program(name string) string {
	if filepath.IsAbs(name) || !strings.ContainsRune(filepath.ToSlash(name), '/') {
		return name
	}
	if path, err := filepath.Abs(filepath.Join(filepath.Dir(r.source), name)); err == nil {
		return path
	}
	return name
}

// variables reads what a command finds in its environment. A value may be a
// secret, and is never quoted; $NAME is that variable of the daemon.
func (r *reader) variables(n *yaml.Node, key string) []Variable {
	if n.Kind != yaml.MappingNode {
		r.fail(n, key, "is %s: must be an object of variables, as {LANG: C.UTF-8, TOKEN: $TOKEN}", kindOfNode(n))
		return nil
	}
	fields := r.fields(n, key, "an object")
	if len(fields) > maxVariables {
		r.fail(n, key, "has %d entries: may have at most %d", len(fields), maxVariables)
		return nil
	}
	all := make([]Variable, 0, len(fields))
	for _, f := range fields {
		at := join(key, label(f.name))
		switch {
		case !isVariable(f.name):
			r.fail(f.key, at, "must be letters, digits and _ alone, and begin with no digit")
		case f.value.Kind != yaml.ScalarNode:
			r.fail(f.value, at, "is %s: must be text", kindOfNode(f.value))
		case len(f.value.Value) > maxArgument || strings.ContainsRune(f.value.Value, 0):
			r.fail(f.value, at, "must have at most %d bytes, and no NUL", maxArgument)
		case isNull(f.value):
			all = append(all, Variable{Name: f.name})
		default:
			value, ok := r.expand(f.value, at)
			if ok {
				all = append(all, Variable{f.name, value})
			}
		}
	}
	return all
}

// expand reads a value: as it stands, or $NAME for a variable of the daemon.
func (r *reader) expand(n *yaml.Node, key string) (Secret, bool) {
	name, refers := strings.CutPrefix(n.Value, "$")
	if !refers {
		return Secret(n.Value), true
	}
	if !isVariable(name) {
		r.fail(n, key, "begins with $: must be the name of a variable alone, as $TOKEN")
		return "", false
	}
	value, set := r.env[name]
	if !set && !r.keyless {
		r.fail(n, key, "names the variable %s, which is not set", clip(name))
	}
	return Secret(value), set
}

// variable reads the name of a variable that holds a key. Whatever else stands
// there may be the key itself, and is not quoted.
func (r *reader) variable(n *yaml.Node, key string) string {
	if n.Kind != yaml.ScalarNode || !isVariable(n.Value) || strings.ToUpper(n.Value) != n.Value || len(n.Value) > maxJudgeName {
		r.fail(n, key, "must be the name of a variable in capitals, as MY_API_KEY: a key itself does not stand in a file")
		return ""
	}
	return n.Value
}

// isVariable reports whether a name can be that of a variable.
func isVariable(s string) bool {
	return s != "" && (s[0] < '0' || s[0] > '9') && !strings.ContainsFunc(s, func(c rune) bool {
		return c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
	})
}

// kindOfNode says what a node is without its value, which may be a secret.
func kindOfNode(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode && !isNull(n) {
		return "a value"
	}
	return describe(n)
}

package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"

	"attend/internal/engine"
	"attend/internal/judge/rules"
)

// DefaultFile is read when neither --config nor ATTEND_CONFIG names a file
// and the working directory has one of this name.
const DefaultFile = "attend.yaml"

const variableOfFile = "ATTEND_CONFIG"

// Load reads the configuration from the flags that were set (fs may be nil),
// the environment (as [os.Environ] gives it) and attend.yaml. The error is
// [Mistakes]: all of them.
//
// A path in attend.yaml is relative to the folder of that file, one in a flag
// or variable to the working directory; the files of a store and of a socket
// are relative to the working directory always.
func Load(flags *pflag.FlagSet, env []string) (*Config, error) {
	c, mistakes := load(flags, env)
	if err := mistakes.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// LoadToShow reads the configuration as [Load] does, for whoever reads the store,
// or shows what would be sent, and sends nothing: a variable with a key that is
// not set is no mistake.
func LoadToShow(flags *pflag.FlagSet, env []string) (*Config, error) {
	c, mistakes := loadWith(&loader{keyless: true}, flags, env)
	if err := mistakes.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// LoadAgain reads the configuration as [Load] does, in a daemon that runs. What is
// no regular file, as a pipe, is a mistake: it could be waited for without an end.
func LoadAgain(flags *pflag.FlagSet, env []string) (*Config, error) {
	c, mistakes := loadWith(&loader{again: true}, flags, env)
	if err := mistakes.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// loader gathers what the sources give, and all their mistakes.
type loader struct {
	c        *Config
	values   *viper.Viper // scalar key → given
	env      map[string]string
	mistakes Mistakes
	unread   bool // attend.yaml is there and could not be read
	keyless  bool // no key is needed: nothing is sent
	again    bool // the daemon runs: nothing may be waited for
	alone    bool // --rules is given, and is to be tried
}

// given is a scalar as it was written, with where: a mistake names the flag,
// variable or line. Viper keeps it whole and decides which one counts.
type given struct {
	text  string
	place Place
	key   string     // how the mistake names it; "" when the place does already
	node  *yaml.Node // in attend.yaml
	dir   string     // what a relative path is relative to; "" for the working directory
}

// load returns what could be read beside every mistake, so that a report can
// go on.
func load(flags *pflag.FlagSet, env []string) (*Config, Mistakes) {
	return loadWith(new(loader), flags, env)
}

func loadWith(l *loader, flags *pflag.FlagSet, env []string) (*Config, Mistakes) {
	l.c = &Config{Settings: engine.Defaults()}
	l.env = environment(env)
	l.values = viper.NewWithOptions(viper.KeyDelimiter("\x00")) // a dot in a key is a part of it
	l.alone = rulesAlone(flags)
	root, r := l.readFile(l.path(flags, env))
	l.layer(flags, env, root, r)
	l.sections(root, r)
	l.scalars()
	l.c.Scopes = r.readScopes(section(root, "scopes"), l.c.Settings)
	l.readJudges(root, r)
	l.mistakes = append(l.mistakes, r.mistakes...)
	before := len(l.mistakes)
	l.readKinds()
	l.crossCheck(len(l.mistakes) == before && !l.unread)
	return l.c, l.mistakes.sorted()
}

// path says which file to read; explicit when it must be there.
func (l *loader) path(flags *pflag.FlagSet, env []string) (path string, explicit bool) {
	if flags != nil && flags.Changed(keyConfig) {
		path, _ = flags.GetString(keyConfig)
		return path, true
	}
	for _, entry := range env {
		if name, value, _ := strings.Cut(entry, "="); name == variableOfFile && value != "" {
			path, explicit = value, true
		}
	}
	if explicit {
		return path, true
	}
	return DefaultFile, false
}

// readFile reads attend.yaml. The root is nil when there is nothing to read.
func (l *loader) readFile(path string, explicit bool) (*yaml.Node, *reader) {
	r := &reader{source: path, env: l.env, keyless: l.keyless}
	if _, err := os.Stat(path); !explicit && errors.Is(err, fs.ErrNotExist) {
		return nil, r
	}
	b, err := readFile(path, l.again)
	if err != nil {
		l.mistakes = append(l.mistakes, Mistake{Place: Place{Source: path}, Problem: err.Error()})
		l.unread = true
		return nil, r
	}
	l.c.Files = append(l.c.Files, path)
	r.doc = rules.NewDocument(string(bytes.TrimPrefix(b, []byte("\ufeff"))))
	root, mistakes := parse(path, b)
	l.mistakes = append(l.mistakes, mistakes...)
	l.unread = len(mistakes) > 0
	return root, r
}

// fromDefault is the source of what nobody gave.
const fromDefault = "default"

// layer puts the scalars of every source into viper, the weakest first.
func (l *loader) layer(flags *pflag.FlagSet, env []string, root *yaml.Node, r *reader) {
	for _, s := range scalars() {
		l.values.SetDefault(s.key, given{text: s.fallback, place: Place{Source: fromDefault}, key: s.key})
	}
	l.merge(l.fromFile(root, r))
	l.merge(l.fromEnv(env))
	for _, s := range scalars() {
		if flags == nil || s.usage == "" {
			continue
		}
		if f := flags.Lookup(s.flag()); f != nil && f.Changed && f.Value.String() != "" {
			l.values.Set(s.key, given{text: f.Value.String(), place: Place{Source: "--" + s.flag()}})
		}
	}
}

// merge cannot fail: what it merges is a map of one level.
func (l *loader) merge(layer map[string]any) { _ = l.values.MergeConfigMap(layer) }

// fromFile takes the scalars of attend.yaml and reports unknown keys.
func (l *loader) fromFile(root *yaml.Node, r *reader) map[string]any {
	names := slices.Concat(sections(), scalarsOf(""))
	layer := make(map[string]any)
	for _, f := range r.fields(root, "", "an object of keys, as {port: 8787}") {
		switch {
		case !slices.Contains(names, f.name):
			r.fail(f.key, label(f.name), "%s", unknownKey(f.name, names))
		case f.name == keyField:
			r.readScalars(keyField, "{scoring: graded}", f.value, layer)
		case f.name == keyRetention:
			r.readScalars(keyRetention, "{eventsMs: 604800000}", f.value, layer)
		case f.name == keyWebhook:
			r.readScalars(keyWebhook, "{allow: [10.0.0.0/8]}", f.value, layer)
		case slices.Contains(sections(), f.name) || isNull(f.value):
		case f.name == keyKinds || f.name == keyRules || f.name == keyJudge:
			layer[f.name] = given{text: f.value.Value, place: r.place(f.value), key: f.name, node: f.value, dir: filepath.Dir(r.source)}
		default:
			if text, ok := r.scalar(f.value, f.name); ok {
				layer[f.name] = given{text: text, place: r.place(f.value), key: f.name}
			}
		}
	}
	return layer
}

// unknownKey says where a key belongs, or which one was meant.
func unknownKey(name string, names []string) string {
	for _, set := range settings() {
		if set.name == name {
			return "is a setting of policy: write it under policy"
		}
	}
	if slices.Contains(scalarsOf(keyField), name) {
		return "is a setting of the Field: write it under field"
	}
	if slices.Contains(scalarsOf(keyRetention), name) {
		return "is a setting of retention: write it under retention"
	}
	if slices.Contains(scalarsOf(keyWebhook), name) {
		return "is a setting of webhooks: write it under webhook"
	}
	return "unknown key" + didYouMean(name, names)
}

// scalar reads a value as text. A list of words is joined as a variable
// would write it.
func (r *reader) scalar(n *yaml.Node, key string) (string, bool) {
	isList := slices.Contains([]string{"allowedHosts", "allowedOrigins", "webhook.allow", "webhook.receivers"}, key)
	switch {
	case isList && n.Kind == yaml.SequenceNode:
	case n.Kind == yaml.ScalarNode:
		return r.text(n, key, maxTextBytes)
	default:
		r.fail(n, key, "is %s: must be one value", describe(n))
		return "", false
	}
	var all []string
	for _, item := range n.Content {
		text, ok := r.text(resolve(item), key, maxTextBytes)
		if !ok {
			return "", false
		}
		all = append(all, text)
	}
	return strings.Join(all, ","), true
}

// fromEnv takes the scalars of the environment and reports unknown ATTEND_
// variables. An empty variable counts as unset.
func (l *loader) fromEnv(env []string) map[string]any {
	known := map[string]scalar{variableOfFile: {}}
	names := []string{variableOfFile}
	for _, s := range scalars() {
		known[s.variable()] = s
		names = append(names, s.variable())
	}
	layer := make(map[string]any)
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "ATTEND_") || value == "" {
			continue
		}
		switch s, ok := known[name]; {
		case !ok && !otherVariable(name):
			l.mistakes = append(l.mistakes, Mistake{Place: Place{Source: name}, Problem: unknownVariable(name, names)})
		case s.key != "":
			layer[s.key] = given{text: value, place: Place{Source: name}}
		}
	}
	return layer
}

// unknownVariable says which variable was meant, or that a setting has none.
func unknownVariable(name string, names []string) string {
	for _, set := range settings() {
		of := scalar{key: set.name}.variable()
		if !set.top && (name == of || name+"_MS" == of) {
			return fmt.Sprintf("there is no such variable: %s stands in attend.yaml, under policy", set.name)
		}
	}
	return "unknown variable" + didYouMean(name, names)
}

// environment makes a map of what [os.Environ] gives. The last of a name counts.
func environment(env []string) map[string]string {
	m := make(map[string]string, len(env))
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		m[name] = value
	}
	return m
}

// otherVariable knows the variables that are not the daemon's: those of the
// commands that talk to one, and those that Kubernetes sets in every pod for a
// Service named attend.
func otherVariable(name string) bool {
	return name == "ATTEND_URL" || strings.HasPrefix(name, "ATTEND_SERVICE_") ||
		strings.HasPrefix(name, "ATTEND_PORT_")
}

// sections reads the maps of attend.yaml. Scopes come last, over all else.
func (l *loader) sections(root *yaml.Node, r *reader) {
	r.readPolicy(section(root, "policy"), &l.c.Settings)
	for _, set := range settings() {
		if n := section(root, set.name); n != nil && slices.Contains(sections(), set.name) {
			r.apply(set, n, set.name, &l.c.Settings)
		}
	}
	l.c.Tokens = r.readTokens(section(root, keyTokens))
	l.c.Sources = r.readSources(section(root, keySources))
	l.c.Hooks = r.readHooks(section(root, keyHooks))
	l.c.Sinks = r.readSinks(section(root, keySinks))
	l.c.DeadLetters = r.readLetters(section(root, keyDeadLetters))
	l.c.Context = r.readContext(section(root, keyContext))
	l.c.Silences = r.readSilences(section(root, keySilences))
}

// section returns the value of a top-level key, nil when there is none.
func section(root *yaml.Node, name string) *yaml.Node {
	if root == nil || root.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if resolve(root.Content[i]).Value == name {
			return resolve(root.Content[i+1])
		}
	}
	return nil
}

// scalars sets every scalar to the value that counts.
func (l *loader) scalars() {
	for _, s := range scalars() {
		v := l.value(s.key)
		if s.set == nil || v.text == "" {
			continue
		}
		if err := s.set(l.c, v.text); err != nil {
			l.mistakes = append(l.mistakes, Mistake{v.place, v.key, err.Error()})
		}
	}
}

// value returns the scalar that counts, wherever it was given.
func (l *loader) value(key string) given {
	v, _ := l.values.Get(key).(given)
	return v
}

// readKinds reads the kinds from wherever they are given.
func (l *loader) readKinds() {
	v := l.value(keyKinds)
	if v.node != nil && v.node.Kind == yaml.MappingNode {
		r := &reader{source: v.place.Source}
		l.c.Kinds = r.readKinds(v.node, keyKinds)
		l.mistakes = append(l.mistakes, r.mistakes...)
		return
	}
	if v.node != nil && v.node.Kind != yaml.ScalarNode {
		l.mistakes = append(l.mistakes, Mistake{v.place, v.key, "is a list: must be an object of event names and kinds, or the path of a file"})
		return
	}
	if v.text == "" {
		return
	}
	if v.node != nil && strings.HasPrefix(strings.TrimSpace(v.text), "{") {
		l.mistakes = append(l.mistakes, Mistake{v.place, v.key, "is text: write the object itself, without quotes around it"})
		return
	}
	kinds, mistakes := loadKinds(v, l.again)
	l.c.Kinds = kinds
	l.mistakes = append(l.mistakes, mistakes...)
	if kinds.Source != "" && kinds.Source != v.place.Source {
		l.c.Files = append(l.c.Files, kinds.Source)
	}
}

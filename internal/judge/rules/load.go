package rules

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"attend/internal/engine"
	"attend/internal/expr"
)

// Limits of a rules file.
const (
	MaxText  = 256 << 10 // bytes
	MaxRules = 500
)

// Mistake is one thing that must be mended in a rules file, and where. Lines and
// columns count from 1, columns in characters; Column is 0 where it is not known.
type Mistake struct {
	Line    int    `json:"line"`
	Column  int    `json:"column,omitempty"`
	Problem string `json:"problem"`
}

// Mistakes are all of a file, in the order of its text.
type Mistakes []Mistake

// Error writes one mistake a line.
func (ms Mistakes) Error() string {
	lines := make([]string, len(ms))
	for i, m := range ms {
		lines[i] = fmt.Sprintf("line %d, column %d: %s", m.Line, m.Column, m.Problem)
		if m.Column == 0 {
			lines[i] = fmt.Sprintf("line %d: %s", m.Line, m.Problem)
		}
	}
	return strings.Join(lines, "\n")
}

// Check reports everything that is wrong with the text of a rules file.
func Check(text string) Mistakes {
	_, mistakes := Load(text)
	return mistakes
}

// Load compiles the text of a rules file, YAML or JSON. With mistakes there is
// no ruleset.
func Load(text string) (*Ruleset, Mistakes) {
	if len(text) > MaxText {
		return nil, Mistakes{{Line: 1, Column: 1, Problem: fmt.Sprintf("is %d bytes long: at most %d", len(text), MaxText)}}
	}
	env, err := expr.New(expr.Window)
	if err != nil {
		return nil, mistakesOf(err)
	}
	root, bad := parse(text)
	if bad != nil {
		return nil, Mistakes{*bad}
	}
	l := newLoader(NewDocument(text), env)
	s := l.file(root)
	if len(l.mistakes) > 0 {
		return nil, l.sorted()
	}
	return s, nil
}

// CheckIn reports everything that is wrong with rules that stand within a
// larger document, as an object of it: each where it stands in that document.
func CheckIn(doc *Document, n *yaml.Node) Mistakes {
	env, err := expr.New(expr.Window)
	if err != nil {
		return mistakesOf(err)
	}
	l := newLoader(doc, env)
	l.file(resolved(n))
	return l.sorted()
}

func parse(text string) (*yaml.Node, *Mistake) {
	d := yaml.NewDecoder(strings.NewReader(text))
	var doc, second yaml.Node
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, &Mistake{Line: 1, Column: 1, Problem: "the file is empty: it holds rules and a default"}
	case err != nil:
		return nil, syntax(err)
	}
	switch err := d.Decode(&second); {
	case errors.Is(err, io.EOF):
		return doc.Content[0], nil
	case err != nil:
		return nil, syntax(err)
	default:
		return nil, &Mistake{Line: second.Line, Column: second.Column, Problem: "a second document starts here: one file holds one document"}
	}
}

func syntax(err error) *Mistake {
	m := Mistake{Line: 1, Problem: strings.TrimPrefix(err.Error(), "yaml: ")}
	if found := regexp.MustCompile(`(?s)^line (\d+): (.*)$`).FindStringSubmatch(m.Problem); found != nil {
		m.Line, _ = strconv.Atoi(found[1])
		m.Problem = found[2]
	}
	m.Problem = "not valid YAML: " + m.Problem
	return &m
}

type loader struct {
	doc      *Document
	env      *expr.Env
	labels   map[string]*yaml.Node
	mistakes Mistakes
}

func newLoader(doc *Document, env *expr.Env) *loader {
	return &loader{doc: doc, env: env, labels: make(map[string]*yaml.Node)}
}

// sorted are the mistakes in the order of the text.
func (l *loader) sorted() Mistakes {
	slices.SortStableFunc(l.mistakes, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return l.mistakes
}

func (l *loader) fail(n *yaml.Node, format string, args ...any) {
	l.mistakes = append(l.mistakes, Mistake{Line: n.Line, Column: n.Column, Problem: fmt.Sprintf(format, args...)})
}

func (l *loader) file(root *yaml.Node) *Ruleset {
	s := new(Ruleset)
	keys := l.object(root, "the file", "rules", "default")
	if keys == nil {
		return s
	}
	if n := keys["default"]; n == nil {
		l.fail(root, `default is missing: the route of a window that meets no rule, as "default: queue"`)
	} else if s.fallback = l.route(n, "default"); s.fallback == engine.Wait {
		l.fail(n, "default cannot be wait, which is not always on offer")
	}
	list := keys["rules"]
	switch {
	case list == nil:
		l.fail(root, "rules is missing: a list of conditions and routes")
	case list.Kind != yaml.SequenceNode:
		l.fail(list, "rules must be a list")
	case len(list.Content) > MaxRules:
		l.fail(list, "holds %d rules: at most %d", len(list.Content), MaxRules)
	default:
		for i, n := range list.Content {
			s.rules = append(s.rules, l.rule(resolved(n), i+1))
		}
	}
	return s
}

func (l *loader) rule(n *yaml.Node, number int) rule {
	r := rule{label: fmt.Sprintf("rule %d", number)}
	keys := l.object(n, r.label, "name", "when", "then", "confidence", "predicates")
	if keys == nil {
		return r
	}
	if at := keys["name"]; at != nil {
		r.label = l.name(at, r.label)
	}
	if at := keys["when"]; at == nil {
		l.fail(n, `when is missing: the condition of %s; "true" is always met`, r.label)
	} else {
		r.when = l.condition(at)
	}
	if at := keys["then"]; at == nil {
		l.fail(n, "then is missing: the route of a window that meets %s", r.label)
	} else {
		r.then = l.route(at, "then")
	}
	if at := keys["confidence"]; at != nil {
		r.confidence = l.share(at, "confidence")
	}
	if at := keys["predicates"]; at != nil {
		r.predicates = l.predicates(at)
	}
	return r
}

// object returns the values of a mapping by key. It is nil when the node is no
// mapping.
func (l *loader) object(n *yaml.Node, what string, known ...string) map[string]*yaml.Node {
	if n.Kind != yaml.MappingNode {
		l.fail(n, "%s must be an object with %s", what, strings.Join(known, ", "))
		return nil
	}
	keys := make(map[string]*yaml.Node)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], resolved(n.Content[i+1])
		switch {
		case known != nil && !slices.Contains(known, key.Value):
			l.fail(key, "%q is no key of %s: there are %s%s", key.Value, what, strings.Join(known, ", "), meant(key.Value))
		case keys[key.Value] != nil:
			l.fail(key, "%s is given twice", key.Value)
		default:
			keys[key.Value] = value
		}
	}
	return keys
}

// meant helps with the words of other places.
func meant(key string) string {
	switch key {
	case "route":
		return "; the route stands in then"
	case "if", "condition":
		return "; the condition stands in when"
	case "else", "otherwise":
		return "; what no rule matches gets the default"
	default:
		return ""
	}
}

func (l *loader) name(n *yaml.Node, label string) string {
	text, ok := l.text(n, "name")
	switch {
	case !ok:
		return label
	case text == "" || len(text) > 64 || text == Default || engine.EscapeLine(text) != text:
		l.fail(n, `name must be 1 to 64 plain characters, and not "default"`)
	case l.labels[text] != nil:
		l.fail(n, "the name %q is given twice, first in line %d", text, l.labels[text].Line)
	default:
		l.labels[text] = n
	}
	return text
}

func (l *loader) condition(n *yaml.Node) *expr.Program {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!bool" && n.Style == 0 {
		n.Tag = "!!str" // when: true
	}
	text, ok := l.text(n, "when")
	if !ok {
		return nil
	}
	p, err := l.env.Compile(text)
	for _, m := range mistakesOf(err) {
		line, column := l.doc.Place(n, m.Line, m.Column)
		l.mistakes = append(l.mistakes, Mistake{Line: line, Column: column, Problem: m.Problem})
	}
	return p
}

func (l *loader) text(n *yaml.Node, key string) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		l.fail(n, "%s must be text", key)
		return "", false
	}
	return n.Value, true
}

func (l *loader) route(n *yaml.Node, key string) engine.Route {
	text, ok := l.text(n, key)
	if !ok {
		return 0
	}
	r, err := engine.ParseRoute(text)
	if err != nil {
		l.fail(n, "%s: %v", key, err)
	}
	return r
}

func (l *loader) share(n *yaml.Node, key string) *float64 {
	var x float64
	if n.Kind != yaml.ScalarNode || n.Decode(&x) != nil || !(x >= 0 && x <= 1) {
		l.fail(n, "%s must be a number from 0 to 1", key)
		return nil
	}
	return &x
}

func (l *loader) predicates(n *yaml.Node) map[string]float64 {
	shares := make(map[string]float64)
	for name, at := range l.object(n, "predicates") { //arch:sorted each by itself; mistakes are sorted
		if x := l.share(at, "the predicate "+strconv.Quote(name)); x != nil {
			shares[name] = *x
		}
	}
	return shares
}

// resolved follows an alias to what it stands for.
func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"attend/internal/judge/rules"
)

// readJudges reads who judges: one judge by its type or as an object, or the
// list of several; and what may change their answer.
func (l *loader) readJudges(root *yaml.Node, r *reader) {
	drafts, listed := l.chosen(root, r)
	l.oneJudgeOptions(drafts, listed)
	l.readRules(drafts, r)
	for _, d := range drafts {
		l.finish(d)
	}
	l.checkJudgeNames(drafts)
	l.checkOrder(drafts)
	for _, d := range drafts {
		d.command = d.spot("command").place
		l.c.Judges.Entries = append(l.c.Judges.Entries, d.Judge)
	}
	if n := section(root, keyOverride); n != nil {
		l.c.Judges.Overrides = r.readOverrides(n)
	}
	capture := r.readHook(section(root, keyCapture), keyCapture, "an object, as {http: http://127.0.0.1:9000/capture}")
	context := r.readHook(section(root, keyContext), keyContext, "an object, as {http: http://127.0.0.1:9000/context}", keyAttune)
	l.c.Judges.Capture, l.c.Judges.Context = l.finishHook(capture), l.finishHook(context)
	l.warnUnbrought(drafts)
}

// chosen returns the judges that count: a flag or variable puts one in place of
// whatever the file holds. listed says that they are those of the list.
func (l *loader) chosen(root *yaml.Node, r *reader) (drafts []*draft, listed bool) {
	v := l.value(keyJudge)
	one, list := present(root, keyJudge), present(root, keyJudges)
	if one != nil && list != nil {
		r.fail(list, keyJudges, "cannot stand beside judge (line %d): make that judge an entry of the list", one.Line)
	}
	var single *draft
	if one != nil {
		single = r.readJudge(one, keyJudge)
	}
	if list != nil {
		drafts = r.readJudges(list)
	}
	if l.alone && !takeRules(append(drafts, single)) {
		v = given{text: string(JudgeRules), place: l.value(keyRules).place}
	}
	switch {
	case v.node != nil && v.node == one:
		return []*draft{single}, false
	case v.place.Source == fromDefault && list != nil:
		return drafts, true
	}
	kind, known := judgeKindOf(JudgeType(v.text))
	if !known {
		l.mistakes = append(l.mistakes, Mistake{v.place, v.key, fmt.Sprintf("is %s: unknown judge%s", quote(v.text), orList(v.text, judgeTypes()))})
	}
	if single != nil && single.Type == kind.name {
		return []*draft{single}, false // its options are still meant
	}
	for _, ignored := range []struct {
		node *yaml.Node
		key  string
	}{{one, keyJudge}, {list, keyJudges}} {
		if ignored.node != nil {
			l.warn(r.place(ignored.node), WarnIgnored, "%s: %s is given instead, and what stands here is not used", ignored.key, v.place)
		}
	}
	d := &draft{Judge: Judge{Place: v.place, Type: kind.name, Images: true}, at: v.key, where: make(map[string]spot)}
	return []*draft{d}, false
}

// takeRules reports whether a judge takes the rules of the top level.
func takeRules(drafts []*draft) bool {
	return slices.ContainsFunc(drafts, func(d *draft) bool {
		return d != nil && d.Type == JudgeRules && !d.has("file") && !d.has("rules")
	})
}

// present returns the value of a top-level key, nil when nothing stands there.
func present(root *yaml.Node, key string) *yaml.Node {
	if n := section(root, key); n != nil && !isNull(n) {
		return n
	}
	return nil
}

func (l *loader) warn(at Place, code WarningCode, format string, args ...any) {
	l.c.Warnings = append(l.c.Warnings, Warning{at, code, fmt.Sprintf(format, args...)})
}

// oneJudgeOptions gives judgeModel and judgeUrl to the one judge.
func (l *loader) oneJudgeOptions(drafts []*draft, listed bool) {
	for _, o := range []struct{ key, option string }{{"judgeModel", "model"}, {"judgeUrl", "url"}} {
		v := l.value(o.key)
		if v.text == "" {
			continue
		}
		if listed {
			l.mistakes = append(l.mistakes, Mistake{v.place, v.key, fmt.Sprintf("is for one judge: write %s in the entries of judges", o.option)})
			continue
		}
		d := drafts[0]
		if kind, known := judgeKindOf(d.Type); known && !slices.Contains(kind.options, o.option) && strength(v.place) < strength(d.Place) {
			l.warn(v.place, WarnIgnored, "%s: the judge is %s (%s), which takes none", o.key, d.Type, d.Place)
			continue
		}
		if d.has(o.option) && v.place.Line > 0 {
			l.mistakes = append(l.mistakes, Mistake{v.place, v.key, fmt.Sprintf("is given twice, first as %s", d.spot(o.option).key)})
			continue
		}
		d.where[o.option] = spot{v.place, v.key}
		if o.option == "url" {
			d.URL = v.text
			continue
		}
		if d.Model = v.text; len(v.text) > maxModelBytes {
			l.mistakes = append(l.mistakes, Mistake{v.place, v.key, fmt.Sprintf("has %d bytes: may have at most %d", len(v.text), maxModelBytes)})
		}
	}
}

// strength orders sources: a flag wins over a variable, a variable over a file.
func strength(p Place) int {
	switch {
	case strings.HasPrefix(p.Source, "--"):
		return 3
	case p.Line > 0:
		return 1
	case p.Source == fromDefault:
		return 0
	default:
		return 2
	}
}

// readRules reads the rules of each judge that has some: its own, else those of
// the top level.
func (l *loader) readRules(drafts []*draft, r *reader) {
	shared, used := l.value(keyRules), false
	for _, d := range drafts {
		if d.Type != JudgeRules {
			continue
		}
		v := d.source
		switch {
		case d.has("file") && d.has("rules"):
			l.fail(d.spot("rules"), "cannot stand beside file: leave one of them out")
			continue
		case v.text == "" && v.node == nil && shared.text == "" && shared.node == nil:
			if !d.has("file") && !d.has("rules") { // what is wrong with those was said
				l.fail(d.spot("type"), "the judge rules needs rules: name their file in rules, or write them there")
			}
			continue
		case v.text == "" && v.node == nil:
			v, used = shared, true
		default:
			v.dir = filepath.Dir(r.source)
		}
		d.Rules, d.set = l.rulesText(v, r)
	}
	if used || shared.text == "" && shared.node == nil || len(drafts) == 0 {
		return
	}
	if d := drafts[0]; strength(shared.place) < strength(d.Place) {
		l.warn(shared.place, WarnIgnored, "rules: no judge here is rules (%s), so they are not used", d.Place)
		return
	}
	l.mistakes = append(l.mistakes, Mistake{shared.place, shared.key, "no judge uses them: write judge: rules, or leave them out"})
}

// rulesText reads rules from wherever they were given, and checks them.
func (l *loader) rulesText(v given, r *reader) (string, *rules.Ruleset) {
	inline := strings.TrimSpace(v.text)
	switch {
	case v.node != nil && v.node.Kind == yaml.MappingNode:
		return l.rulesWithin(v, r)
	case v.node != nil && v.node.Kind != yaml.ScalarNode:
		l.mistakes = append(l.mistakes, Mistake{v.place, v.key, "is a list: must be an object with rules and default, or the path of a file"})
		return "", nil
	case strings.HasPrefix(inline, "{"):
		return l.checkRules(v.text, v.key, func(m rules.Mistake) Place {
			if v.node != nil {
				return r.placeIn(v.node, m.Line, m.Column)
			}
			return Place{v.place.Source, m.Line, m.Column}
		})
	}
	path := inline
	if v.dir != "" && !filepath.IsAbs(path) {
		path = filepath.Join(v.dir, path)
	}
	b, err := readFile(path, l.again)
	if err != nil {
		l.mistakes = append(l.mistakes, Mistake{v.place, v.key, fmt.Sprintf("file %s %v", quote(path), err)})
		return "", nil
	}
	l.c.Files = append(l.c.Files, path)
	return l.checkRules(string(b), "", func(m rules.Mistake) Place { return Place{path, m.Line, m.Column} })
}

// rulesWithin reads rules that are an object of attend.yaml.
func (l *loader) rulesWithin(v given, r *reader) (string, *rules.Ruleset) {
	found := rules.CheckIn(r.doc, v.node)
	for _, m := range found {
		l.mistakes = append(l.mistakes, Mistake{Place{r.source, m.Line, m.Column}, v.key, m.Problem})
	}
	text, err := yaml.Marshal(v.node)
	if err != nil {
		l.mistakes = append(l.mistakes, Mistake{v.place, v.key, "cannot be read: " + err.Error()})
	}
	if len(found) > 0 || err != nil {
		return "", nil
	}
	return l.checkRules(string(text), v.key, func(rules.Mistake) Place { return v.place }) // an alias may lead out of them
}

// checkRules says what is wrong with rules, each where it stands.
func (l *loader) checkRules(text, key string, place func(rules.Mistake) Place) (string, *rules.Ruleset) {
	set, found := rules.Load(text)
	for _, m := range found {
		l.mistakes = append(l.mistakes, Mistake{place(m), key, m.Problem})
	}
	return text, set
}

func (l *loader) fail(at spot, format string, args ...any) {
	l.mistakes = append(l.mistakes, Mistake{at.place, at.key, fmt.Sprintf(format, args...)})
}

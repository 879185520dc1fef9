package config

import (
	"fmt"
	"slices"

	"attend/internal/expr"
	"attend/internal/program"
)

// warnUnbrought warns of conditions that look at what nobody brings: facts
// without a hook, predicates that are not asked.
func (l *loader) warnUnbrought(drafts []*draft) {
	hook := !l.c.Judges.Context.IsZero()
	if !hook && l.c.Context.Attune == nil {
		for _, d := range drafts {
			when, err := expr.Compile(expr.Window, d.When)
			if d.When != "" && err == nil && when.Uses("facts") {
				l.warn(d.spot("when").place, WarnNoFacts, "%s: looks at facts, and nothing brings any: name a hook in context", d.spot("when").key)
			}
			if d.set != nil && d.set.Facts() {
				l.warn(d.Place, WarnNoFacts, "%sthe rules look at facts, and nothing brings any: name a hook in context", named(d.at))
			}
		}
	}
	if !hook { // one may ask questions of its own
		l.warnUnasked(drafts)
	}
}

// warnUnasked warns of overrides that look for the answer to a question that
// nobody is asked.
func (l *loader) warnUnasked(drafts []*draft) {
	var asked []string
	for _, p := range l.c.Settings.Predicates {
		asked = append(asked, p.Name)
	}
	for i := range l.c.Scopes {
		for _, p := range l.c.Scopes[i].Settings.Predicates {
			asked = append(asked, p.Name)
		}
	}
	for _, d := range drafts {
		if d.set != nil {
			asked = append(asked, d.set.Predicates()...)
		}
	}
	for i, o := range l.c.Judges.Overrides {
		when, err := expr.Compile(expr.Verdict, o.When)
		if err != nil {
			continue // that was said
		}
		for _, name := range when.Keys("predicates") {
			if slices.Contains(asked, name) {
				continue
			}
			hint := didYouMean(name, asked)
			if hint == "" {
				hint = ": write its question in predicates"
			}
			l.warn(o.Place, WarnNoPredicate, "%s[%d].when: nobody is asked %s%s", keyOverride, i, quote(name), hint)
		}
	}
}

// unfinished is what the daemon would refuse of the programs that the
// configuration names. It is asked where a configuration is checked, and not
// where it is read: a command for people may read it on another machine.
func (c *Config) unfinished(env []string) Mistakes {
	var found Mistakes
	look := func(at Place, whose string, command []string, variables []Variable) {
		if len(command) == 0 {
			return
		}
		named := make(map[string]string, len(variables))
		for _, v := range variables {
			named[v.Name] = v.Value.Reveal()
		}
		if _, err := program.New(program.Options{Command: command, Env: named}, env); err != nil {
			found = append(found, Mistake{at, whose + "command", err.Error()})
		}
	}
	for i := range c.Judges.Entries {
		j := &c.Judges.Entries[i]
		look(j.command, fmt.Sprintf("judge %s: ", j.Name), j.Command, j.Variables)
	}
	look(c.Judges.Context.Place, "context.", c.Judges.Context.Command, c.Judges.Context.Variables)
	look(c.Judges.Capture.Place, "capture.", c.Judges.Capture.Command, c.Judges.Capture.Variables)
	for i := range c.Sources {
		look(c.Sources[i].Place, fmt.Sprintf("source %s: ", c.Sources[i].Name), c.Sources[i].Command, c.Sources[i].Variables)
	}
	for i := range c.Sinks {
		look(c.Sinks[i].Place, fmt.Sprintf("sink %s: ", c.Sinks[i].Name), c.Sinks[i].Command, c.Sinks[i].Variables)
	}
	if c.DeadLetters != nil {
		look(c.DeadLetters.Place, "deadLetters.", c.DeadLetters.Command, c.DeadLetters.Variables)
	}
	return found
}

package engine_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"attend/internal/engine"
	"attend/internal/replay"
)

var update = flag.Bool("update", false, "rewrite the traces of testdata/history; commit the difference only if you understand it")

// A history is a txtar file: the rule that it guards in words, what comes in
// ("input"), and the whole log with what each record did ("trace"). Times are
// virtual milliseconds.
//
// An input is one command a line. Without a time, before everything:
//
//	policy KEY=JSON ...         settings of the first policy
//	policy SCOPE: KEY=JSON ...  settings of the scopes that a glob matches
//	kinds NAME=KIND ...         kinds of the first policy
//	judge pure NAME             rule (the default), waits, notes, fails or reads
//	override WORD=ROUTE         for windows in which an event says WORD
//	judge ROUTE [after MS] [ROUTE=P ...] [confidence=C] [ask.NAME=P ...]
//	judge error TEXT [after MS] [permanent | held] [retry-after MS]
//	judge never                 answers of a scripted judge, in the order of its
//	                            calls; each may end in: times N
//	sinks ROUTE=NAME ...        sinks of the first policy; letters=NAME is the
//	                            handler of dead letters
//	sink ok | error TEXT | never [after MS] [permanent] [retry-after MS]
//	                            how deliveries end, in their order, as for a judge;
//	                            then they arrive at once
//
// With the time at which it happens:
//
//	MS event KIND NAME ID [text=TEXT] [scope=S]   KIND ? asks the policy
//	MS flush [scope=S]
//	MS gap [scope=S]
//	MS policy KEY=JSON ...      a new policy: the one before it with changes
//	MS judge pure NAME          a new policy with another judge
//	MS override WORD=ROUTE      a new policy with another override
//	MS sinks [ROUTE=NAME ...]   a new policy with other sinks
//	MS silence ID [scope=GLOB] [event=GLOB] until=MS [flush]
//	MS unsilence ID
//	MS requeue LABEL            a dead letter
//	MS pause | crash | stop     the owner lags, dies, ends in good order
//	MS start                    and is back
//	MS show                     writes what the scope holds
//	&  ...                      in the same body as the line before
func TestHistory(t *testing.T) {
	files, err := filepath.Glob("testdata/history/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no histories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			archive := txtar.Parse(raw)
			if len(archive.Comment) < 20 {
				t.Error("the file does not open with the rule that it guards")
			}
			input, want := section(archive, "input"), section(archive, "trace")
			told := tell(t, string(input))
			told.rec.checkRefold(t)
			got := told.trace()
			if *update && !bytes.Equal(got, want) {
				archive.Files = []txtar.File{{Name: "input", Data: input}, {Name: "trace", Data: got}}
				if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); diff != "" {
				t.Errorf("trace (-want +got):\n%s", diff)
			}
		})
	}
}

func section(a *txtar.Archive, name string) []byte {
	for _, f := range a.Files {
		if f.Name == name {
			return f.Data
		}
	}
	return nil
}

// teller runs one history.
type teller struct {
	t      tester
	idle   bool // nothing is due any more
	world  *replay.World
	rec    recorder
	script replay.Script
	sinks  replay.Script
	policy engine.Policy
	labels map[string]string
	ids    map[string]string // label → id
	counts map[byte]int
	out    bytes.Buffer
	body   []replay.Input
	bodyAt engine.Time
}

// tell runs an input to its end and holds the laws against its log.
func tell(t tester, input string) *teller {
	t.Helper()
	s := &teller{
		t: t, labels: make(map[string]string), ids: make(map[string]string), counts: make(map[byte]int),
		policy: engine.Policy{Number: 1, Default: engine.Defaults(), Judge: "rule", Kinds: map[string]engine.Kind{}},
	}
	history := &replay.History{Out: &s.out, Label: s.label, Events: true, Home: "s"}
	s.rec.pure = pureJudges()
	s.world = replay.New(replay.Options{Compile: compile(s.rec.pure), Script: &s.script, Sinks: &s.sinks, Emit: func(rec *engine.Record, out *engine.Outcome) {
		s.rec.emit(rec, out)
		history.Record(rec, out)
	}})
	started := false
	for n, line := range strings.Split(input, "\n") {
		if i := strings.Index(line, "#"); i >= 0 {
			line = line[:i]
		}
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		at, err := strconv.ParseInt(words[0], 10, 64)
		switch {
		case words[0] == "&":
			s.command(n, s.bodyAt, words[1:])
		case err != nil:
			s.setting(n, words)
		default:
			s.endBody()
			if !started {
				started = true
				s.install(0)
			}
			s.bodyAt = engine.Time(at)
			s.command(n, engine.Time(at), words[1:])
		}
	}
	s.endBody()
	s.idle = s.world.Drain(1 << 40)
	s.rec.check(t)
	return s
}

// trace is the log as text, with what is left at the end.
func (s *teller) trace() []byte {
	s.end(s.idle)
	return s.out.Bytes()
}

// label gives windows the names w1, w2, ... and dead letters d1, d2, ...
func (s *teller) label(id string) string {
	if l, ok := s.labels[id]; ok {
		return l
	}
	c := byte('w')
	for i := len(s.rec.log) - 1; i >= 0; i-- {
		if st := s.rec.log[i].Step; st != nil && st.DeadLetter != nil && st.DeadLetter.ID == id {
			c = 'd'
		}
	}
	s.counts[c]++
	l := string(c) + strconv.Itoa(s.counts[c])
	s.labels[id], s.ids[l] = l, id
	return l
}

// end writes what is left when nothing is due any more.
func (s *teller) end(idle bool) {
	if !idle {
		s.out.WriteString("         the owner is away\n")
	}
	for _, name := range s.world.Scopes() {
		st := s.world.State(name)
		if n := len(st.Open.Events); n > 0 || st.Open.Dropped > 0 || st.Open.Gap {
			fmt.Fprintf(&s.out, "   at end  %d open", n)
			if name != "s" {
				fmt.Fprintf(&s.out, " in %s", name)
			}
			if st.Open.Dropped > 0 {
				fmt.Fprintf(&s.out, ", dropped %d", st.Open.Dropped)
			}
			if st.Open.Gap {
				s.out.WriteString(", gap")
			}
			s.out.WriteString("\n")
		}
		s.endLanes(st)
	}
}

// show writes what a scope holds.
func (s *teller) show(st *engine.State) {
	fmt.Fprintf(&s.out, "%8d  = open %d", s.world.Now(), len(st.Open.Events))
	for _, d := range st.Open.Deadlines() {
		fmt.Fprintf(&s.out, ", %s at %d", d.Reason, d.At)
	}
	if st.Held != nil {
		fmt.Fprintf(&s.out, "; held %s until %d", s.label(st.Held.Settled.Window), st.Held.Until)
	}
	if st.Slot != nil {
		fmt.Fprintf(&s.out, "; judging %s", s.label(st.Slot.Settled.Window))
	}
	for _, v := range st.Recent {
		fmt.Fprintf(&s.out, "; recent %s %s", s.label(v.Window), v.Route)
		if v.JudgedRoute != v.Route {
			fmt.Fprintf(&s.out, " (judged %s)", v.JudgedRoute)
		}
	}
	s.showLanes(st)
	s.out.WriteString("\n")
}

func (s *teller) fail(line int, format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("input line %d: %s", line+1, fmt.Sprintf(format, args...))
}

// install appends the policy as it now stands.
func (s *teller) install(at engine.Time) {
	s.t.Helper()
	p := s.policy
	p.Scopes = append([]engine.ScopeSettings(nil), p.Scopes...)
	if err := s.world.Take(at, replay.Input{Step: &engine.Step{Kind: engine.StepPolicy, Policy: &p}}); err != nil {
		s.t.Fatalf("%v", err)
	}
	s.policy.Number++
}

// setting takes a command without a time.
func (s *teller) setting(n int, words []string) {
	s.t.Helper()
	switch words[0] {
	case "policy":
		s.settings(n, words[1:])
	case "override":
		s.override(n, words[1])
	case "kinds":
		for _, w := range words[1:] {
			name, kind, _ := strings.Cut(w, "=")
			k, err := engine.ParseKind(kind)
			if err != nil {
				s.fail(n, "%v", err)
			}
			s.policy.Kinds[name] = k
		}
	case "judge":
		if words[1] == "pure" {
			s.policy.Judge = words[2]
			return
		}
		s.policy.Judge = "script"
		s.answers(n, &s.script, words[1:])
	case "sinks":
		s.lanes(n, words[1:])
	case "sink":
		if words[1] == "ok" {
			words[1] = "skip"
		}
		s.answers(n, &s.sinks, words[1:])
	default:
		s.fail(n, "%q is no command", words[0])
	}
}

func (s *teller) settings(n int, words []string) {
	s.t.Helper()
	set := &s.policy.Default
	if len(words) > 0 && strings.HasSuffix(words[0], ":") {
		own := s.policy.Default
		s.policy.Scopes = append(s.policy.Scopes, engine.ScopeSettings{Scope: strings.TrimSuffix(words[0], ":"), Settings: own})
		set = &s.policy.Scopes[len(s.policy.Scopes)-1].Settings
		words = words[1:]
	}
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		d := json.NewDecoder(strings.NewReader(fmt.Sprintf("{%q:%s}", key, value)))
		d.DisallowUnknownFields()
		if f := reflect.ValueOf(set).Elem(); key == "floor" { // decoding into a map would add to it
			f.FieldByName("Floor").SetZero()
		}
		if err := d.Decode(set); err != nil {
			s.fail(n, "%s: %v", w, err)
		}
	}
}

// answers adds to a script what its words say, as often as they say.
func (s *teller) answers(n int, to *replay.Script, words []string) {
	s.t.Helper()
	times := 1
	if i := len(words) - 2; i > 0 && words[i] == "times" {
		times, _ = strconv.Atoi(words[i+1])
		words = words[:i]
	}
	for range times {
		to.Add(s.answer(n, words))
	}
}

// options reads KEY=VALUE words.
func (s *teller) options(n int, words []string, keys ...string) map[string]string {
	s.t.Helper()
	o := make(map[string]string)
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		known := false
		for _, k := range keys {
			known = known || k == key
		}
		if !known {
			s.fail(n, "%q: want one of %v", w, keys)
		}
		o[key] = value
	}
	return o
}

func (s *teller) endBody() {
	s.t.Helper()
	if len(s.body) == 0 {
		return
	}
	if err := s.world.Take(s.bodyAt, s.body...); err != nil {
		s.t.Fatalf("%v", err)
	}
	s.body = nil
}

func (s *teller) add(scope string, e *engine.Event, st *engine.Step) {
	if scope == "" {
		scope = "s"
	}
	s.body = append(s.body, replay.Input{Scope: scope, Event: e, Step: st})
}

// command takes a command with a time.
func (s *teller) command(n int, at engine.Time, words []string) {
	s.t.Helper()
	args := words[1:]
	switch words[0] {
	case "event":
		if len(args) < 3 {
			s.fail(n, "event wants KIND NAME ID")
		}
		o := s.options(n, args[3:], "text", "scope")
		e := &engine.Event{ID: args[2], Name: args[1], Text: o["text"]}
		if args[0] != "?" {
			k, err := engine.ParseKind(args[0])
			if err != nil {
				s.fail(n, "%v", err)
			}
			e.Kind, e.Policy = k, s.policy.Number-1
		}
		s.add(o["scope"], e, nil)
	case "flush", "gap":
		s.add(s.options(n, args, "scope")["scope"], nil, &engine.Step{Kind: engine.StepKind(words[0])})
	case "silence":
		o := s.options(n, args[1:], "scope", "event", "until", "flush")
		until, err := strconv.ParseInt(o["until"], 10, 64)
		if err != nil {
			s.fail(n, "until: %v", err)
		}
		_, flush := o["flush"]
		scope := o["scope"]
		if scope == "" {
			scope = "*"
		}
		s.add("", nil, &engine.Step{Kind: engine.StepSilence, Silence: &engine.Silence{
			ID: args[0], Scope: scope, Event: o["event"], Until: engine.Time(until), IncludeFlush: flush,
		}})
	case "unsilence":
		s.add("", nil, &engine.Step{Kind: engine.StepSilence, Silence: &engine.Silence{ID: args[0], Ended: true}})
	default:
		s.endBody()
		s.act(n, at, words[0], args)
	}
}

// act takes a command that is no input.
func (s *teller) act(n int, at engine.Time, verb string, args []string) {
	s.t.Helper()
	switch verb {
	case "policy":
		s.settings(n, args)
		s.install(at)
	case "judge":
		s.policy.Judge = args[1]
		s.install(at)
	case "override":
		s.override(n, args[0])
		s.install(at)
	case "sinks":
		s.lanes(n, args)
		s.install(at)
	case "requeue":
		s.world.Run(at)
		id := s.ids[args[0]]
		if args[0] == "?" { // the last there is, if there is one
			if id = s.lastDeadLetter(); id == "" {
				return
			}
		}
		if err := s.world.Requeue(at, id); err != nil {
			s.fail(n, "%v", err)
		}
	case "show":
		s.world.Run(at)
		s.show(s.world.State("s"))
	case "pause":
		s.world.Pause(at)
	case "crash":
		s.world.Crash(at)
	case "stop":
		s.world.Stop(at)
	case "start":
		s.world.Start(at)
	default:
		s.fail(n, "%q is no command", verb)
	}
}

func (s *teller) lastDeadLetter() string {
	for i := len(s.rec.log) - 1; i >= 0; i-- {
		if st := s.rec.log[i].Step; st != nil && st.DeadLetter != nil {
			return st.ID
		}
	}
	return ""
}

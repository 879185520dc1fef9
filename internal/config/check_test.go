package config

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
)

func TestCheck_SaysWhatNamesResolveToAndWhy(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "kinds.json", `{"message.created": "flush",
"build.*": "consequence", "build.failed": "closing", "never.*": "context"}`)
	write(t, DefaultFile, "kinds: kinds.json\nscopes:\n  - scope: \"repo:*\"\n    maxEvents: 5\n")
	names := []NameCount{{"build.failed", 3}, {"build.started", 2}, {"build.ended", 1}, {"stray", 4}, {"message.created", 0}}
	got := Check(flagsOf(t), nil, names)
	at := func(line, column int) Place { return Place{"kinds.json", line, column} }
	want := Report{
		Files: []string{"attend.yaml", "kinds.json"},
		Kinds: []KindReport{
			{KindEntry{at(1, 2), "message.created", engine.Flush}, WhyExact, 1, 0},
			{KindEntry{at(2, 1), "build.*", engine.Consequence}, WhyGlob, 2, 3},
			{KindEntry{at(2, 27), "build.failed", engine.Closing}, WhyExact, 1, 3},
			{KindEntry{at(2, 54), "never.*", engine.Context}, WhyGlob, 0, 0},
		},
		Names: []NameReport{
			{"build.failed", engine.Closing, WhyExact, "build.failed", 3},
			{"build.started", engine.Consequence, WhyGlob, "build.*", 2},
			{"build.ended", engine.Consequence, WhyGlob, "build.*", 1},
			{"stray", engine.Consequence, WhyDefault, "", 4},
			{"message.created", engine.Flush, WhyExact, "message.created", 0},
		},
		Scopes: []ScopeReport{{Place{"attend.yaml", 3, 12}, "repo:*"}},
		Judges: []JudgeReport{{Place: Place{Source: fromDefault}, Name: "rule", Type: JudgeRule}},
		Tokens: []TokenReport{}, Sources: []SourceReport{}, Hooks: []HookReport{}, Sinks: []SinkReport{}, Asked: []AskedReport{}, Overrides: []OverrideReport{},
		Warnings: []Warning{{
			Place{Source: "kinds.json"},
			WarnUnmapped,
			`1 of 5 names match no pattern and are consequences, which never wake anyone: "stray"`,
		}},
		Mistakes: Mistakes{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

// A program that the daemon would not find is a mistake, with its place; whoever
// reads the configuration for another purpose needs none.
func TestCheck_ProgramsThatAreNotThere(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, "text", "not a program")
	write(t, DefaultFile, `kinds: {a: flush}
judges:
  - {type: command, onError: next, command: [attend-no-such-program]}
  - {type: command, name: there, onError: next, command: [sh]}
  - rule
context: {command: [./text]}
deadLetters: {command: [/nowhere/at/all]}
`)
	env := []string{"PATH=/usr/bin:/bin"}
	if _, err := Load(flagsOf(t), env); err != nil {
		t.Fatalf("to be read no program need be there: %v", err)
	}
	got := Check(flagsOf(t), env, nil)
	want := []string{
		"attend.yaml:3:45: judge command: command: find the command attend-no-such-program in PATH: file does not exist: install it, or name it by its whole path",
		"attend.yaml:6:20: context.command: " + filepath.Join(dir, "text") + " is not executable: give it to a program that runs it, or chmod +x: permission denied",
		"attend.yaml:7:14: deadLetters.command: the command /nowhere/at/all is not there: file does not exist",
	}
	var told []string
	for _, m := range got.Mistakes {
		told = append(told, m.String())
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("mistakes (-want +got):\n%s", diff)
	}
}

// A mistake in one place does not keep the report from the rest.
func TestCheck_GoesOnAfterMistakes(t *testing.T) {
	t.Chdir(t.TempDir())
	got := Check(flagsOf(t, "--port=x", `--kinds={"good": "flush", "bad": "flsh"}`), nil, []NameCount{{"good", 1}})
	if len(got.Mistakes) != 2 || len(got.Names) != 1 || got.Names[0].Kind != engine.Flush {
		t.Errorf("report: %+v", got)
	}
}

func TestCountNames(t *testing.T) {
	in := "\ufeff" + `{"name":"b","data":{"name":"x"}}` + "\r\n\n" + `{"name":"a"}` + "\n" + `{"name":"b","id":1,"id":2}` + "\n" +
		`{"name":` + "\n" + `["b"]` + "\n" + `{"name":7}` + "\n" + `{"Name":"b"}` + "\n" + `{"name":""}` + "\n" + `{"name":"c"} {"name":"d"}` + "\n" + `{"name":"last"}`
	names, mistakes, err := CountNames("events.ndjson", strings.NewReader(in))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]NameCount{{"b", 2}, {"a", 1}, {"last", 1}}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	want := `events.ndjson:5: not valid JSON
events.ndjson:6: not an event: want an object with a name, as {"name": "message.created"}
events.ndjson:7: not an event: want an object with a name, as {"name": "message.created"}
events.ndjson:8: an event without a name
events.ndjson:9: an event without a name
events.ndjson:10: not valid JSON`
	if diff := cmp.Diff(want, mistakes.Error()); diff != "" {
		t.Errorf("mistakes (-want +got):\n%s", diff)
	}
}

func TestCountNames_Fails(t *testing.T) {
	broken := errors.New("disk gone")
	if _, _, err := CountNames("x", iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("a reader's error became %v", err)
	}
	long := `{"name":"a"}` + "\n" + `{"name":"` + strings.Repeat("x", 17<<20)
	if _, _, err := CountNames("x", strings.NewReader(long)); err == nil || !strings.Contains(err.Error(), "line 2 has more than") {
		t.Errorf("a line without end: %v", err)
	}
}

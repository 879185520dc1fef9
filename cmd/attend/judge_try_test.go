package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"attend/internal/config"
	"attend/internal/judge/judgetest"
)

const (
	tryKey    = "marker/of-a-key-7f3a"
	tryEvents = `{"scope":"repo:api","name":"ci.log","id":"a","at":1700000000000,"text":"step 3 failed"}
{"scope":"repo:api","name":"build.failed","id":"b","at":1700000001000,"text":"disk is full\u001b[31m","data":{"n":1}}
{"scope":"chat:1","name":"message.created","id":"c","at":1700000009000,"text":"hi there"}
`
	trySkip = `{"model":"jev-1.13.0","answers":{"route":{"type":"choice","choice":"skip","confidence":0.9,` +
		`"probabilities":{"skip":0.6,"queue":0.4}},"0":{"type":"noul","noul":0.92}},"usage":{"input_tokens":43,"output_tokens":0}}`
)

// tryIn makes a working directory with events and a configuration.
func tryIn(t *testing.T, config string) {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	for name, content := range map[string]string{ //arch:sorted each by itself
		"events.ndjson": tryEvents,
		"attend.yaml":   "kinds: {build.failed: closing, message.created: flush, \"*\": consequence}\n" + config,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// try runs the command. Whatever comes of it, no key is shown.
func try(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	env := append(withoutAttend(os.Environ()), "MY_KEY="+tryKey)
	code, stdout, stderr = runMain(t, env, append([]string{"judge", "try", "events.ndjson"}, args...)...)
	if strings.Contains(stdout+stderr, tryKey) {
		t.Errorf("the key is shown:\n%s\n%s", stdout, stderr)
	}
	return code, stdout, stderr
}

func TestJudgeTry_ShowsWhatWasSaidAndWhatComesOfIt(t *testing.T) {
	host := judgetest.SystemOne(t, judgetest.Answer{Body: trySkip, Header: map[string]string{"X-Typesafe-Request-Id": "req-1", "X-Echo": tryKey}})
	tryIn(t, `
predicates: {asked: "Did somebody ask?"}
judge: {type: jev, url: "`+host.URL+`", keyEnv: MY_KEY}
override: [{name: asked, when: 'route == "skip" && predicates.asked >= 0.7', then: note}]
floor: {closing: queue}
`)
	code, stdout, stderr := try(t)
	if code != exitOK {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	asked := host.Asked()
	if len(asked) != 1 || asked[0].Header.Get("Authorization") != "Bearer "+tryKey {
		t.Fatalf("the host was asked %d times, with %v", len(asked), asked)
	}
	for _, line := range []string{
		"window 1: repo:api, closing, 2 events, settled 2023-11-14T22:13:23.000Z",
		"judge jev: POST " + host.URL + "/v1/systemone",
		"  Authorization: [hidden]",
		"  " + string(asked[0].Body),
		"answer: 200 after ",
		"  X-Typesafe-Request-Id: req-1",
		"  X-Echo: [key]",
		"  " + trySkip,
		"judged: skip by jev, jev-1.13.0",
		"  probabilities: interrupt 0, queue 0.4, note 0, ask 0, skip 0.6, wait 0",
		"  predicate asked: 0.92",
		", 43 tokens in, 0 out",
		"decided: queue",
		"  changed by override asked, floor",
	} {
		if !strings.Contains(stdout, line) {
			t.Errorf("nothing says %q in\n%s", line, stdout)
		}
	}
}

func TestJudgeTry_JSON(t *testing.T) {
	host := judgetest.SystemOne(t, judgetest.Answer{Body: trySkip})
	tryIn(t, `
predicates: {asked: "Did somebody ask?"}
judges:
  - {type: rule, when: reason == "flush"}
  - {type: jev, name: cheap, url: "`+host.URL+`", keyEnv: MY_KEY, onError: next}
  - {type: rule, name: last}
`)
	var got judgeTried
	code, stdout, stderr := try(t, "--output", "json", "--window", "2")
	if err := json.Unmarshal([]byte(stdout), &got); code != exitOK || err != nil {
		t.Fatalf("exit %d, %v: %s", code, err, stderr)
	}
	if got.Input.Scope != "chat:1" || got.Decision.Route.String() != "interrupt" || got.Judge.Name != "rule" || len(got.Exchanges) != 0 {
		t.Errorf("the second window is a flush, and the rule's: got %s", stdout)
	}
	code, stdout, _ = try(t, "--output", "json", "--window", "2", "--only", "cheap", "--act-threshold", "0.5")
	if err := json.Unmarshal([]byte(stdout), &got); code != exitOK || err != nil {
		t.Fatalf("exit %d, %v", code, err)
	}
	if got.Judge.Name != "cheap" || got.Judge.Model != "jev-1.13.0" || len(got.Exchanges) != 1 || got.Exchanges[0].Status != 200 || got.Exchanges[0].Output != trySkip {
		t.Errorf("got %s", stdout)
	}
	if d := got.Decision; d.JudgedRoute.String() != "skip" || d.Route.String() != "queue" || len(d.Changed) != 1 || d.Changed[0] != "floor" {
		t.Errorf("decided %+v", d)
	}
}

func TestJudgeTry_DryRunSendsNothing(t *testing.T) {
	host := judgetest.SystemOne(t, judgetest.Answer{Body: trySkip})
	tryIn(t, `
judge: {type: jev, url: "`+host.URL+`", keyEnv: MY_KEY}
context: {command: [/no/such/command], env: {KEY: $MY_KEY}}
`)
	if code, _, stderr := try(t, "--dry-run"); code != exitFailed || !strings.Contains(stderr, "/no/such/command is not there") {
		t.Errorf("a hook that is not there: exit %d, %s", code, stderr)
	}
	tryIn(t, `
judge: {type: jev, url: "`+host.URL+`", keyEnv: MY_KEY}
context: {command: [sh, -c, "touch ran"]}
`)
	code, stdout, stderr := try(t, "--dry-run")
	if _, err := os.Stat("ran"); err == nil || len(host.Asked()) != 0 {
		t.Error("something was sent or run")
	}
	if code != exitOK || !strings.Contains(stdout, "POST "+host.URL) || !strings.HasSuffix(stdout, "nothing was sent\n") {
		t.Errorf("exit %d: %s\n%s", code, stdout, stderr)
	}
}

// A dry run needs no key, whose model is that of the check; a judge that asks
// nobody answers in it.
func TestJudgeTry_DryRunWithoutAKey(t *testing.T) {
	tryIn(t, `
judges:
  - {type: jev, onError: next}
  - {type: anthropic, keyEnv: NOT_SET, onError: next}
  - rule
context: {http: "http://127.0.0.1:1", keyEnv: NOT_SET_EITHER}
`)
	report := config.Check(nil, []string{"TYPESAFE_API_KEY=k", "NOT_SET=k", "NOT_SET_EITHER=k"}, nil)
	if len(report.Mistakes) > 0 {
		t.Fatal(report.Mistakes)
	}
	code, stdout, stderr := try(t, "--dry-run")
	for i, host := range []string{"judge jev: POST https://api.typesafe.ai/", "judge anthropic: POST https://api.anthropic.com/"} {
		model := `"model":"` + report.Judges[i].Model + `"`
		if code != exitOK || !strings.Contains(stdout, host) || !strings.Contains(stdout, model) || !strings.HasSuffix(stdout, "\nnothing was sent\n") {
			t.Errorf("exit %d, want %s and %s in\n%s%s", code, host, model, stdout, stderr)
		}
	}
	tryIn(t, "rules: {rules: [{name: broken, when: 'reason == \"closing\"', then: ask}], default: skip}\n")
	code, stdout, stderr = try(t, "--dry-run", "--judge", "rules")
	if want := "\nnothing was sent: the judge asks nobody\njudged: ask by rules, broken\n"; code != exitOK || !strings.Contains(stdout, want) || strings.Contains(stdout, "probabilities") {
		t.Errorf("exit %d, want %q and no probabilities in\n%s%s", code, want, stdout, stderr)
	}
}

// A judge that fails is shown as it failed, and nothing that it echoes.
func TestJudgeTry_Failures(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer judgetest.Answer
		want   []string
	}{
		{"a key that is not taken, as PHP writes it", judgetest.Answer{Status: 401, Body: `{"detail":"no such key: ` + strings.ReplaceAll(tryKey, "/", `\/`) + `"}`}, []string{"no such key: [key]"}},
		{"a key that is not taken", judgetest.Answer{Status: 401, Body: `{"detail":"no such key: ` + tryKey + `"}`}, []string{"answer: 401", "no such key: [key]", "failed: ", "(permanent)"}},
		{"too many requests", judgetest.Answer{Status: 429, Header: map[string]string{"Retry-After": "7"}, Body: `{}`}, []string{"Retry-After: 7", "(error)"}},
		{"no answer", judgetest.Answer{Fault: judgetest.Reset}, []string{"no answer after", "(error)"}},
		{"no JSON", judgetest.Answer{Body: "<html>"}, []string{"<html>", "(malformed)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			host := judgetest.SystemOne(t, c.answer)
			tryIn(t, `judge: {type: jev, url: "`+host.URL+`", keyEnv: MY_KEY}`)
			code, stdout, stderr := try(t)
			if code != exitFailed || !strings.Contains(stderr, "the judge did not answer") {
				t.Errorf("exit %d: %s", code, stderr)
			}
			for _, want := range c.want {
				if !strings.Contains(stdout, want) {
					t.Errorf("nothing says %q in\n%s", want, stdout)
				}
			}
		})
	}
}

// An answer that comes after the timeout is none, as in the daemon.
func TestJudgeTry_AnswersTooLate(t *testing.T) {
	// It ends in time, and what it leaves behind holds its output open for longer.
	tryIn(t, "policy: {judgeTimeoutMs: 60}\njudge: {type: command, command: [sh, -c, 'echo ''{\"route\":\"note\"}''; sleep 60 &']}\n")
	code, stdout, stderr := try(t)
	if code != exitFailed || strings.Contains(stdout, "decided") || !strings.Contains(stdout, "no answer within judgeTimeoutMs (60)") {
		t.Errorf("exit %d:\n%s\n%s", code, stdout, stderr)
	}
}

func TestJudgeTry_Command(t *testing.T) {
	for script, want := range map[string][]string{ //arch:sorted each by itself
		`cat > input; echo '{"route":"note","confidence":0.7}'`: {"answer: exit 0 after", `{"route":"note","confidence":0.7}`, "judged: note by command"},
		`echo "the key is $KEY" >&2; exit 65`:                   {"no answer after", "the key is [hidden]", "(permanent)"},
	} {
		tryIn(t, "judge:\n  type: command\n  command: [sh, -c, '"+strings.ReplaceAll(script, "'", "''")+"']\n  env: {KEY: $MY_KEY}\n")
		_, stdout, stderr := try(t)
		for _, line := range append(want, "judge command: run sh -c ", `{"scope":"repo:api","now":1700000003000,`) {
			if !strings.Contains(stdout, line) {
				t.Errorf("%s: nothing says %q in\n%s\n%s", script, line, stdout, stderr)
			}
		}
	}
}

// Hooks are asked as the daemon asks them: a question that is asked already, and
// facts that are too long for the log, never reach the judge.
func TestJudgeTry_HooksAreBoundedAsInTheDaemon(t *testing.T) {
	host := judgetest.SystemOne(t, judgetest.Answer{Body: trySkip})
	tryIn(t, `
predicates: {asked: "Did somebody ask?"}
judge: {type: jev, url: "`+host.URL+`", keyEnv: MY_KEY}
context: {command: [sh, context]}
`)
	script := `printf '{"facts":{"long":"%070000d"},"predicates":{"asked":"Again?","late":"Is it late?"}}' 1` + "\n"
	if err := os.WriteFile("context", []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := try(t, "--output", "json")
	var got struct {
		Input struct {
			Facts      json.RawMessage
			Predicates []struct{ Name string }
		}
		Hooks    []string
		Decision struct{ Changed []string }
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exitOK {
		t.Fatalf("exit %d, %v: %s", code, err, stderr)
	}
	if len(got.Input.Facts) != 0 || len(got.Input.Predicates) != 2 || got.Input.Predicates[1].Name != "late" {
		t.Errorf("the judge was shown %d bytes of facts and asked %v", len(got.Input.Facts), got.Input.Predicates)
	}
	if all := strings.Join(got.Hooks, "\n"); len(got.Hooks) != 2 || !strings.Contains(all, "context: the facts have 70011 bytes") || !strings.Contains(all, `asks "asked", which is asked already`) {
		t.Errorf("of the hooks it says %q", got.Hooks)
	}
	if got.Decision.Changed == nil {
		t.Error("changed is null, and is a list")
	}
}

func TestJudgeTry_Mistakes(t *testing.T) {
	tryIn(t, "judge: rule")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--window", "3"}, "there is no window 3: 2 settled"},
		{[]string{"--scope", "repo:*", "--window", "2"}, "there is no window 2: 1 settled"},
		{[]string{"--only", "cheap"}, "there is no judge cheap: there is rule"},
		{[]string{"--kinds", `{"a": "flush"}`}, "no window settles under these kinds"},
		{[]string{"--scope", "nope"}, "no window settles in scopes that match nope: 2 settled in others"},
		{[]string{"--judge", "jev"}, "needs a key"},
	} {
		if code, _, stderr := try(t, c.args...); code != exitFailed || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit %d, %s; want %q", c.args, code, stderr, c.want)
		}
	}
	for _, window := range []string{"0", "x", "1.5"} {
		if code, _, stderr := try(t, "--window", window); code != exitUsage || !strings.Contains(stderr, `for "--window" flag: want a whole number from 1, as 3`) {
			t.Errorf("--window %s: exit %d, %s", window, code, stderr)
		}
	}
	if code, stdout, _ := try(t, "--scope", "chat:*"); code != exitOK || !strings.Contains(stdout, "judged: interrupt by rule") {
		t.Errorf("exit %d: %s", code, stdout)
	}
}

package config

import (
	"fmt"
	"slices"
	"strings"
)

// judgeKind is what a type of judge takes, needs and talks to.
type judgeKind struct {
	name    JudgeType
	options []string // keys of an entry besides those of every type
	needs   []string // of them, those without which it cannot work
	host    string   // that it calls unless url says otherwise, "" for none
	model   string   // that it asks unless model says otherwise, "" for none
	// variable holds its key. The hosts of the vendors want one; other hosts may.
	variable string
}

// judgeKinds is the one table of them, in the order in which they are explained.
func judgeKinds() []judgeKind {
	asked := []string{"below", "onError", "timeoutMs", "concurrency", "perSecond", "dailyCalls", "dailyTokens"}
	hosted := append([]string{"model", "url", "keyEnv", "criteria", "images"}, asked...)
	with := func(keys []string, more ...string) []string { return slices.Concat(keys, more) }
	return []judgeKind{
		{name: JudgeRule},
		{name: JudgeRules, options: []string{"file", "rules", "below", "onError"}},
		{name: JudgeJev, options: with(hosted, "instructions", "longContext"), host: "https://api.typesafe.ai", model: "jev-latest", variable: "TYPESAFE_API_KEY"},
		{name: JudgeDecisions, options: with(hosted, "instructions"), needs: []string{"model"}, host: "https://api.openai.com", variable: "OPENAI_API_KEY"},
		{name: JudgeAnthropic, options: with(hosted, "system"), host: "https://api.anthropic.com", model: "claude-haiku-5-5", variable: "ANTHROPIC_API_KEY"},
		{name: JudgeOpenAI, options: with(hosted, "system"), needs: []string{"model"}, host: "https://api.openai.com", variable: "OPENAI_API_KEY"},
		{name: JudgeGemini, options: with(hosted, "system"), needs: []string{"model"}, host: "https://generativelanguage.googleapis.com", variable: "GEMINI_API_KEY"},
		{name: JudgeChat, options: with(hosted, "system"), needs: []string{"model", "url"}, variable: "OPENAI_API_KEY"},
		{name: JudgeHTTP, options: with(asked, "url", "keyEnv"), needs: []string{"url"}},
		{name: JudgeCommand, options: with(asked, "command", "env"), needs: []string{"command"}},
	}
}

// judgeKindOf finds a type by name.
func judgeKindOf(name JudgeType) (judgeKind, bool) {
	kinds := judgeKinds()
	i := slices.IndexFunc(kinds, func(k judgeKind) bool { return k.name == name })
	if i < 0 {
		return judgeKind{}, false
	}
	return kinds[i], true
}

// judgeTypes names them all.
func judgeTypes() []string {
	kinds := judgeKinds()
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k.name)
	}
	return names
}

// unknownOption says of a key that no judge has where what is meant by it stands.
func unknownOption(name string, of JudgeType) string {
	kind, known := judgeKindOf(of)
	takes := func(option string) bool { return !known || slices.Contains(kind.options, option) }
	switch plain(name) {
	case "apikey", "key", "token", "apitoken", "authtoken", "bearer", "secret", "authorization":
		switch {
		case !takes("keyEnv"):
			return fmt.Sprintf("unknown key: the judge %s sends none", of)
		case kind.variable != "":
			return fmt.Sprintf("keys stand in variables: set %s, or name one in keyEnv", kind.variable)
		default:
			return "keys stand in variables: name one in keyEnv"
		}
	case "endpoint", "baseurl", "host", "address", "server":
		if takes("url") {
			return "unknown key; did you mean url?"
		}
	case "prompt", "systemprompt":
		if takes("system") {
			return "unknown key; did you mean system?"
		}
	}
	if !known {
		var all []string
		for _, o := range judgeOptions() {
			all = append(all, o.name)
		}
		return "unknown key" + didYouMean(name, all)
	}
	all := slices.Concat(commonOptions(), kind.options)
	if near := didYouMean(name, all); near != "" {
		return "unknown key" + near
	}
	return fmt.Sprintf("unknown key: the judge %s takes %s", of, strings.Join(all, ", "))
}

// takers names the types that take an option.
func takers(option string) []string {
	var names []string
	for _, k := range judgeKinds() {
		if slices.Contains(k.options, option) {
			names = append(names, string(k.name))
		}
	}
	return names
}

package config

import "slices"

// judgeKind is what a type of judge takes, needs and talks to.
type judgeKind struct {
	name    JudgeType
	options []string // keys of an entry besides those of every type
	needs   []string // of them, those without which it cannot work
	host    string   // that it calls unless url says otherwise, "" for none
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
		{name: JudgeJev, options: with(hosted, "instructions", "longContext"), host: "https://api.typesafe.ai", variable: "TYPESAFE_API_KEY"},
		{name: JudgeDecisions, options: with(hosted, "instructions"), needs: []string{"model"}, host: "https://api.openai.com", variable: "OPENAI_API_KEY"},
		{name: JudgeAnthropic, options: with(hosted, "system"), host: "https://api.anthropic.com", variable: "ANTHROPIC_API_KEY"},
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

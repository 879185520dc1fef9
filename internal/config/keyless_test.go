package config

import "testing"

// Whoever reads the store needs none of the keys that the daemon has.
func TestLoadToShow_NeedsNoKeys(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, DefaultFile, `
kinds: {a: flush}
judges:
- {name: model, type: openai, model: m, keyEnv: MODEL_KEY}
sources:
- {name: ci, url: "https://ci.example.com/mcp", tokenEnv: CI_TOKEN, event: repo.activity, scope: repo}
- {name: chat, command: [/bin/chat], env: {TOKEN: $CHAT_TOKEN}, event: x, scope: x}
sinks:
- {name: agent, routes: [interrupt, queue, note, ask], url: "https://agent.example.com", secretEnv: AGENT_SECRET}
hooks:
- {name: github, type: github, secretEnv: HOOK_SECRET}
- {name: alerts, type: alertmanager, bearerEnv: ALERTS_TOKEN}
`)
	if _, err := Load(nil, nil); err == nil {
		t.Error("the daemon starts without them")
	}
	if _, err := LoadToShow(nil, nil); err != nil {
		t.Errorf("to show it: %v", err)
	}
}

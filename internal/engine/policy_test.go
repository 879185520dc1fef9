package engine_test

import (
	"testing"

	"attend/internal/engine"
)

// Design, section 5 "Kinds": the exact name first, then the glob with the
// longest literal prefix (ties: the longer pattern, then byte order), then "*".
func TestPolicy_KindOf(t *testing.T) {
	p := engine.Policy{Default: engine.Defaults(), Kinds: map[string]engine.Kind{
		"message.created": engine.Flush, "message.*": engine.Closing, "message.?*": engine.Passive,
		"*.created": engine.Continuous, "?": engine.Context, "*": engine.Consequence, `lit\*`: engine.Flush,
	}}
	if err := p.Compile(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"message.created": "message.created", "message.x": "message.?*", "message.": "message.*",
		"a.created": "*.created", "x": "?", "xy": "*", "": "*", "lit*": `lit\*`, "literal": "*",
	} {
		if kind, got := p.KindOf(name); got != want || kind != p.Kinds[want] {
			t.Errorf("KindOf(%q) = %s by %q, want by %q", name, kind, got, want)
		}
	}
	none := engine.Policy{Default: engine.Defaults()}
	if err := none.Compile(); err != nil {
		t.Fatal(err)
	}
	if kind, pattern := none.KindOf("x"); kind != engine.Consequence || pattern != "" {
		t.Errorf("without kinds: %s by %q, want consequence by none", kind, pattern)
	}
}

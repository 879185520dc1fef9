package config

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
)

func TestLoad_Sinks(t *testing.T) {
	const secret = "whsec_YSBzZWNyZXQgb2YgdGhpcnR5LXR3byBieXRlcyEh"
	t.Chdir(t.TempDir())
	write(t, DefaultFile, `
kinds: {a: flush}
policy: {deliveryTimeoutMs: 5000}
sinks:
  - name: agent
    routes: [interrupt, queue]
    url: http://agent.example.com/wake?key=hidden
    secret: `+secret+`
    timeoutMs: 6000
  - name: none
    routes: [note]
  - name: chip
    routes: ask
    command: [./chip, --fast]
deadLetters: {command: [alert]}
`)
	if err := os.Chmod(DefaultFile, 0o644); err != nil { //nolint:gosec // that is what is warned of
		t.Fatal(err)
	}
	c, err := Load(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := c.Policy()
	want := map[engine.Route]string{engine.Interrupt: "agent", engine.Queue: "agent", engine.Ask: "chip"}
	if diff := cmp.Diff(want, p.Sinks); diff != "" || p.Letters != SinkLetters {
		t.Errorf("letters go to %q; sinks (-want +got):\n%s", p.Letters, diff)
	}
	if err := p.Compile(); err != nil {
		t.Error(err)
	}
	if got := c.Sinks[0].Key.Reveal(); got != "a secret of thirty-two bytes!!" {
		t.Errorf("the key is %q", got)
	}
	var codes []WarningCode
	for _, w := range c.Warnings {
		codes = append(codes, w.Code)
	}
	if diff := cmp.Diff([]WarningCode{WarnWorldReadable, WarnPlainHTTP, WarnIgnored}, codes); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	report := fmt.Sprintf("%+v %+v", Check(nil, nil, nil), c)
	for _, hidden := range []string{secret, "thirty-two"} {
		if strings.Contains(report, hidden) {
			t.Errorf("%q is shown", hidden)
		}
	}
	if shown := fmt.Sprint(Check(nil, nil, nil).Sinks); strings.Contains(shown, "hidden") || !strings.Contains(shown, "http://agent.example.com/wake") {
		t.Errorf("the report shows %s", shown)
	}
}

// A sink without a name is one mistake, and has a place.
func TestCheck_NamelessSink(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, DefaultFile, `kinds: {a: flush}
sinks: [{routes: [interrupt, queue, note, ask], url: http://127.0.0.1:1, secret: whsec_YSBzZWNyZXQgb2YgdGhpcnR5LXR3byBieXRlcyEh}]`)
	if got := Check(nil, nil, nil).Mistakes; len(got) != 1 || got[0].Place.Line != 2 {
		t.Errorf("mistakes: %v", got)
	}
}

package app_test

import (
	"strings"
	"testing"
)

// Sinks that are commands outlive reloads that leave them and that change them,
// and a stop behind those.
func TestReload_CommandSinks(t *testing.T) {
	config := `sinks: [{name: agent, routes: [interrupt, queue, note, ask], command: ["true"]}]
deadLetters: {command: ["true"], timeoutMs: 1000}
`
	d, file := withFile(t, config)
	for range 3 {
		d.reload()
	}
	reconfigure(t, file, adminToken+strings.ReplaceAll(config, `["true"]`, `["true", again]`))
	for range 2 {
		d.reload()
	}
	if err := d.stop(); err != nil {
		t.Errorf("the stop: %v", err)
	}
}

package app_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An event without text is read by its name and its data, over HTTP and by a
// sink; over MCP by its name alone, since raw events never cross it.
func TestNotice_HasDataWhereItMayBeRead(t *testing.T) {
	type received struct{ ID, Notice string }
	sunk := make(chan received, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var d received
		if b, err := io.ReadAll(r.Body); err != nil || json.Unmarshal(b, &d) != nil {
			t.Errorf("the sink gets %s: %v", b, err)
		}
		sunk <- d
	}))
	defer receiver.Close()
	file := filepath.Join(t.TempDir(), "attend.yaml")
	text := "sinks:\n- {name: agent, routes: [interrupt], url: " + receiver.URL + ", secretEnv: AGENT_SECRET}\n- {name: none, routes: [queue, note, ask]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d := run(t, []string{"AGENT_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYqr"}, "--config", file, "--kinds", `{"*":"flush"}`)
	const wait = `{"consumer":"agent","timeoutMs":0}`
	var answer json.RawMessage
	d.tool("attend_wait", wait, &answer) // it begins now
	d.ask(http.MethodPost, "/v1/ingest", `{"scope":"x","name":"build.failed","id":"1","data":{ "build": 7 }}`).want(http.StatusOK, nil)

	const want = `build.failed {"build":7}`
	listed, _ := d.next("")
	if listed[0].Notice != want {
		t.Errorf("the list has %q", listed[0].Notice)
	}
	var whole decision
	if d.ask(http.MethodGet, "/v1/decisions/"+listed[0].ID, "").want(http.StatusOK, &whole); whole.Notice != want {
		t.Errorf("the decision has %q", whole.Notice)
	}
	if got := <-sunk; got.Notice != want || got.ID != listed[0].ID {
		t.Errorf("the sink gets %+v", got)
	}
	for tool, arguments := range map[string]string{"attend_wait": wait, "attend_decision": `{"id":"` + listed[0].ID + `"}`} {
		d.tool(tool, arguments, &answer)
		if got := string(answer); !strings.Contains(got, `"notice":"build.failed"`) || strings.Contains(got, `build\":7`) || strings.Contains(got, `"build"`) {
			t.Errorf("%s answers %s", tool, got)
		}
	}
}

package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/config"
)

// reloaded is the answer to a reload.
type reloaded struct {
	Policy                uint32
	Changed, NeedsRestart []string
	Warnings              []any
}

// reconfigure puts another attend.yaml in the place of one, whole at each instant.
func reconfigure(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// reload has the daemon load its configuration again.
func (d *running) reload() (got reloaded) {
	d.t.Helper()
	d.ask(http.MethodPost, "/v1/reload", "").want(http.StatusOK, &got)
	return got
}

const adminToken = "tokens: [{name: admin, token: " + everyRight + ", rights: [ingest, read, admin]}]\n"

// withFile starts a daemon whose admin may reload; its file has more in it.
func withFile(t *testing.T, more string, args ...string) (d *running, file string) {
	t.Helper()
	file = writeConfig(t, adminToken+more)
	d = run(t, []string{"CI_SECRET=a-secret-that-is-long-enough-for-it"}, append([]string{"--config", file}, args...)...)
	d.token = everyRight
	return d, file
}

// driveReloads brings about the answers of POST /v1/reload.
func driveReloads(t *testing.T) *contract {
	d, file := withFile(t, "")
	c := hold(d)
	d.reload()
	d.ask(http.MethodPost, "/v1/reload?x=1", "").problem(400, "invalidParameter")
	d.ask(http.MethodPost, "/v1/reload", "", as("nobody")).problem(401, "unauthorized")
	reconfigure(t, file, strings.Replace(adminToken, ", admin]", "]", 1))
	d.reload()
	d.ask(http.MethodPost, "/v1/reload", "").problem(403, "forbidden")
	broken, path := withFile(t, "")
	b := hold(broken)
	reconfigure(t, path, "policy: {maxEvents: 0, maxEvent: 1}\n")
	got := broken.ask(http.MethodPost, "/v1/reload", "")
	got.problem(422, "invalidConfig")
	if strings.Count(got.body, `"problem":`) != 2 || !strings.Contains(got.body, "attend.yaml") {
		t.Errorf("it says %s", got.body)
	}
	for what := range b.seen {
		c.seen[what] = true
	}
	return c
}

// Each part that has changed is in force, and what needs a restart is told.
func TestReload_PutsInForceWhatHasChanged(t *testing.T) {
	d, file := withFile(t, "policy: {closingGraceMs: 1}\n")
	if got := d.reload(); got.Policy != 1 || len(got.Changed)+len(got.NeedsRestart)+len(got.Warnings) != 0 {
		t.Errorf("nothing has changed: %+v", got)
	}
	reconfigure(t, file, "\n\n"+adminToken+"policy: {closingGraceMs: 1}\n# it only moved\n")
	if got := d.reload(); len(got.Changed) != 0 {
		t.Errorf("nothing but places has changed: %+v", got)
	}
	reconfigure(t, file, strings.Replace(adminToken, "}]", `}, {name: more, token: token-of-reader-long-enough, rights: [read]}]`, 1)+
		"policy: {closingGraceMs: 2}\nguidance: be kind\nsilences: [{scope: 'quiet:*', includeFlush: true, why: it is quiet}]\nshutdownGraceMs: 9000\nlogLevel: debug\n"+
		"override: [{when: 'route == \"queue\"', then: note}]\nhooks: [{name: ci, type: github, secretEnv: CI_SECRET, scope: ci}]\n")
	want := reloaded{
		Policy: 2, Changed: []string{"policy", "override", "tokens", "hooks", "silences"}, NeedsRestart: []string{"logLevel", "shutdownGraceMs"}, Warnings: []any{},
	}
	if diff := cmp.Diff(want, d.reload()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	d.ask(http.MethodGet, "/v1/decisions", "", as("reader")).want(http.StatusOK, nil)
	d.ask(http.MethodPost, "/v1/hooks/ci", "{}").want(http.StatusUnauthorized, nil) // it is there
	var list struct{ Silences []silenced }
	d.ask(http.MethodGet, "/v1/silences", "").want(http.StatusOK, &list)
	if len(list.Silences) != 1 || list.Silences[0].Who != "attend.yaml" || !list.Silences[0].Active {
		t.Errorf("silences: %+v", list.Silences)
	}
	d.ingest(`{"scope":"a","id":"1","name":"build.failed"}`, `{"scope":"quiet:1","id":"1","name":"message.created"}`)
	routes := make(map[string]string)
	for cursor := ""; len(routes) < 2; {
		var page []decision
		page, cursor = d.next(cursor)
		for _, one := range page {
			routes[one.Scope] = one.Route
		}
	}
	if diff := cmp.Diff(map[string]string{"a": "note", "quiet:1": "skip"}, routes); diff != "" {
		t.Errorf("the override and the silence (-want +got):\n%s", diff)
	}

	reconfigure(t, file, adminToken+"policy: {closingGraceMs: 1}\n")
	if got := d.reload(); got.Policy != 3 || len(got.NeedsRestart) != 0 {
		t.Errorf("back: %+v", got)
	}
	d.ask(http.MethodGet, "/v1/decisions", "", as("reader")).problem(http.StatusUnauthorized, "unauthorized")
	d.ask(http.MethodPost, "/v1/hooks/ci", "{}").problem(http.StatusNotFound, "notFound")
	d.ask(http.MethodGet, "/v1/silences?all", "").want(http.StatusOK, &list)
	if len(list.Silences) != 1 || list.Silences[0].Active || list.Silences[0].EndedBy == nil {
		t.Errorf("silences: %+v", list.Silences)
	}
}

// With a mistake anywhere nothing changes, whatever else is right.
func TestReload_WithAMistakeChangesNothing(t *testing.T) {
	d, file := withFile(t, "policy: {closingGraceMs: 1}\n")
	for name, wrong := range map[string]string{
		"in the policy":                     "policy: {closingGraceMs: 2, maxEvents: none}",
		"not YAML":                          "policy: {",
		"a command that is not there":       "judge: {type: command, command: [/no/such/judge]}",
		"a source's program is not there":   "sources: [{name: x, command: [/no/such/source], event: e, scope: x}]",
		"a sink's command is not there":     "sinks: [{name: x, routes: [interrupt, queue, note, ask], command: [/no/such/sink]}]",
		"an unknown key beside a new token": "kind: {}",
	} {
		t.Run(name, func(t *testing.T) {
			reconfigure(t, file, "tokens: [{name: other, token: token-of-other-long-enough, rights: [admin]}]\nguidance: other\n"+wrong+"\n")
			d.ask(http.MethodPost, "/v1/reload", "").problem(http.StatusUnprocessableEntity, "invalidConfig")
			d.ask(http.MethodGet, "/v1/scopes", "", as("other")).problem(http.StatusUnauthorized, "unauthorized")
		})
	}
	reconfigure(t, file, adminToken+"policy: {closingGraceMs: 1}\n")
	if got := d.reload(); got.Policy != 1 || len(got.Changed) != 0 {
		t.Errorf("something had changed: %+v", got)
	}
}

// With the first token, whoever came without one is out: its streams end.
func TestReload_TheFirstTokenEndsWhatIsOpenToAll(t *testing.T) {
	file := writeConfig(t, "")
	d := run(t, nil, "--config", file)
	open := d.stream("")
	d.ask(http.MethodPost, "/v1/reload", "").problem(http.StatusForbidden, "forbidden")
	reconfigure(t, file, adminToken)
	if _, err := d.app.Reload(t.Context(), "SIGHUP"); err != nil {
		t.Fatal(err)
	}
	open.want("end", `"revoked"`)
	d.ask(http.MethodGet, "/v1/scopes", "").problem(http.StatusUnauthorized, "unauthorized")
	reconfigure(t, file, "")
	done, err := d.app.Reload(t.Context(), "SIGHUP")
	if err != nil {
		t.Fatal(err)
	}
	if len(done.Warnings) != 1 || done.Warnings[0].Code != config.WarnNoTokens || !strings.Contains(d.log.String(), "code=noTokens") {
		t.Errorf("it warns of %v", done.Warnings)
	}
	if done, err = d.app.Reload(t.Context(), "SIGHUP"); err != nil || len(done.Warnings) != 0 {
		t.Errorf("once there are none: %v, %v", done, err)
	}
	again := d.stream("")
	d.ingest(`{"scope":"a","id":"1","name":"message.created"}`)
	again.want("decision", `"scope":"a"`)
}

// A hundred reloads of what is unchanged, under load: every event is decided
// once, no policy and no silence is written, and nobody's stream ends.
func TestReload_AHundredUnderLoad(t *testing.T) {
	d, _ := withFile(t, "silences: [{scope: 'quiet:*', why: it is quiet}]\n")
	stream := d.stream("", "Authorization", "Bearer "+everyRight)
	const events = 400
	var load sync.WaitGroup
	for producer := range 4 {
		load.Go(func() {
			for i := range events / 4 {
				body := fmt.Sprintf(`{"scope":"s:%d","id":"%d-%d","name":"message.created"}`+"\n", i%7, producer, i)
				if r, err := d.send(http.MethodPost, "/v1/ingest", body); err != nil || r.status != http.StatusOK {
					t.Errorf("ingest: %v %s", err, r.body)
					return
				}
			}
		})
	}
	for range 100 {
		if got := d.reload(); got.Policy != 1 || len(got.Changed) != 0 {
			t.Fatalf("nothing has changed, and it says %+v", got)
		}
	}
	load.Wait()
	seen := make(map[string]int)
	for total := 0; total < events; {
		var got decision
		if _, event, data, err := stream.next(); err != nil || event != "decision" || json.Unmarshal([]byte(data), &got) != nil {
			t.Fatalf("the stream brings %s %s (%v)", event, data, err)
		}
		for _, e := range got.Events {
			seen[e.ID]++
			total++
		}
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s is in %d decisions", id, n)
		}
	}
	if len(seen) != events {
		t.Errorf("%d events are decided, of %d", len(seen), events)
	}
	var list struct{ Silences []silenced }
	d.ask(http.MethodGet, "/v1/silences?all", "").want(http.StatusOK, &list)
	if len(list.Silences) != 1 {
		t.Errorf("silences: %+v", list.Silences)
	}
}

// The streams of a token that is gone, or may do less, end at once; those of the
// others go on.
func TestReload_TokensLoseTheirStreamsAtOnce(t *testing.T) {
	token := func(name, rights string) string {
		return "- {name: " + name + ", token: token-of-" + name + "-long-enough, rights: [" + rights + "]}\n"
	}
	admin := "tokens:\n- {name: admin, token: " + everyRight + ", rights: [ingest, read, admin]}\n"
	file := writeConfig(t, admin+token("gone", "read")+token("less", "read, ingest")+token("same", "read"))
	d := run(t, nil, "--config", file)
	d.token = everyRight
	streams := make(map[string]*stream)
	for _, name := range []string{"gone", "less", "same"} {
		streams[name] = d.stream("", "Authorization", "Bearer token-of-"+name+"-long-enough")
	}
	reconfigure(t, file, admin+token("less", "read")+token("same", "read"))
	if got := d.reload(); !slices.Equal(got.Changed, []string{"tokens"}) {
		t.Errorf("changed: %v", got.Changed)
	}
	streams["gone"].want("end", `"revoked"`)
	streams["less"].want("end", `"revoked"`)
	d.ingest(`{"scope":"a","id":"1","name":"message.created"}`)
	streams["same"].want("decision", `"scope":"a"`)
}

package app_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"attend/internal/app"
	"attend/internal/source"
)

// sourced starts a daemon with the sources of a configuration file.
func sourced(t *testing.T, env []string, sources string, args ...string) *running {
	t.Helper()
	file := filepath.Join(t.TempDir(), "attend.yaml")
	if err := os.WriteFile(file, []byte("sources:\n"+sources), 0o600); err != nil {
		t.Fatal(err)
	}
	return run(t, env, append([]string{"--config", file}, args...)...)
}

// sources returns what the daemon shows of its sources.
func (d *running) sources() []source.Status {
	d.t.Helper()
	var answer struct{ Sources []source.Status }
	d.ask(http.MethodGet, "/v1/sources", "").want(http.StatusOK, &answer)
	return answer.Sources
}

// comes waits until a source is as it is wanted.
func (d *running) comes(what string, holds func(s *source.Status) bool) source.Status {
	d.t.Helper()
	for end := time.Now().Add(patience); ; {
		all := d.sources()
		if len(all) > 0 && holds(&all[0]) {
			return all[0]
		}
		if time.Now().After(end) {
			d.t.Fatalf("it never came to be that %s: %+v, %+v", what, all, all[0].LastError)
		}
		time.Sleep(2 * time.Millisecond) //arch:sleep the poll of a condition
	}
}

// decided waits for decisions until so many ids are found in them.
func (d *running) decided(n int, ids func(*decision) []string) (all []string) {
	d.t.Helper()
	for cursor := ""; len(all) < n; {
		var decisions []decision
		decisions, cursor = d.next(cursor)
		for i := range decisions {
			all = append(all, ids(&decisions[i])...)
		}
	}
	return all
}

const tokenOfA = "secret-of-the-first-daemon"

// follows is a source that takes the decisions of a daemon, each into a scope
// named after its own.
func follows(d *running, more string) string {
	return fmt.Sprintf("- {name: a, url: %q, tokenEnv: A_TOKEN, event: attention.decision, scope: \"a:{data.scope}\"%s}\n", d.url+"/mcp", more)
}

// The decisions of one daemon are events of another, whether they are streamed
// or polled; neither the token nor an address's query is to be seen.
func TestSources_OfAnotherDaemon(t *testing.T) {
	for mode, want := range map[string]source.State{"auto": source.Streaming, "stream": source.Streaming, "poll": source.Polling} {
		t.Run(mode, func(t *testing.T) {
			a := run(t, []string{"ATTEND_TOKEN=" + tokenOfA})
			b := sourced(t, []string{"A_TOKEN=" + tokenOfA}, follows(a, `, pollMs: 100, mode: `+mode), "--kinds", `{"attention.*":"flush"}`)
			b.comes("it follows", func(s *source.Status) bool { return s.State == want && s.Cursor })
			a.ask(http.MethodPost, "/v1/ingest", `{"scope":"x","name":"message.a","id":"1"}
{"scope":"x","name":"message.b","id":"2"}
{"scope":"x","name":"message.c","id":"3"}
`).want(http.StatusOK, nil)
			s := b.comes("three events have come", func(s *source.Status) bool { return s.Counts.Accepted == 3 })
			if s.LastEventAt == 0 || s.LastError != nil || s.Server != a.url+"/mcp" || s.Scope != "" {
				t.Errorf("it stands as %+v", s)
			}
			theirs := a.decided(3, func(d *decision) []string { return []string{d.ID} })
			ours := b.decided(3, func(d *decision) (ids []string) {
				if d.Scope != "a:x" {
					t.Errorf("a decision is of scope %q", d.Scope)
				}
				for _, e := range d.Events {
					ids = append(ids, e.ID)
				}
				return ids
			})
			if diff := cmp.Diff(theirs, ours); diff != "" {
				t.Errorf("events (-decisions of the first +events of the second):\n%s", diff)
			}
			if log := b.log.String(); strings.Contains(log, tokenOfA) {
				t.Error("the token is in the log")
			}
		})
	}
}

// driveSources has the document's Source seen in several states.
func driveSources(t *testing.T) *contract {
	a := run(t, []string{"ATTEND_TOKEN=" + tokenOfA})
	b := sourced(t, []string{"A_TOKEN=wrong", "ATTEND_TOKEN=" + everyRight}, follows(a, ""))
	c := hold(b)
	b.comes("it is not let in", func(s *source.Status) bool { return s.State == source.BackingOff && s.LastError != nil })

	refused := sourced(t, []string{"A_TOKEN=" + tokenOfA}, strings.Replace(follows(a, ""), "attention.decision", "no.such", 1))
	s := refused.comes("it has ended", func(s *source.Status) bool { return s.State == source.Ended })
	if !strings.Contains(s.LastError.Message, "NotFound (-32023)") || s.LastError.Kind != "refused" {
		t.Errorf("it ended with %+v", s.LastError)
	}
	return c
}

// A program that is not there keeps the daemon from starting, as everything
// does that only people can mend.
func TestSources_AProgramMustBeThere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "attend.yaml")
	if err := os.WriteFile(file, []byte("sources:\n- {name: gone, command: [/no/such/program], event: x, scope: x}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := app.New(t.Context(), configure(t, nil, "--config", file), app.Options{})
	if err == nil || !strings.Contains(err.Error(), "source gone: the command /no/such/program is not there") {
		t.Errorf("it says %v", err)
	}
}

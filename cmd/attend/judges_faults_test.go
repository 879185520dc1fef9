package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// badly answers in turn in each way in which a host can fail, and repeats the
// key wherever a host can write. Of failures that open the breaker there are
// fewer than it takes.
func badly(t *testing.T, key func(*http.Request) string) (host *httptest.Server, ways int) {
	t.Helper()
	answers := []func(w http.ResponseWriter, key string){
		func(w http.ResponseWriter, key string) { fail(w, http.StatusUnauthorized, key) },
		func(w http.ResponseWriter, key string) { fail(w, http.StatusForbidden, key) },
		func(w http.ResponseWriter, key string) { fail(w, http.StatusBadRequest, key) },
		func(w http.ResponseWriter, key string) { fail(w, http.StatusUnprocessableEntity, key) },
		func(w http.ResponseWriter, key string) { fail(w, http.StatusTooManyRequests, key) },
		func(w http.ResponseWriter, key string) { fail(w, http.StatusInternalServerError, key) },
		func(w http.ResponseWriter, key string) {
			w.Header().Set("Location", "/elsewhere?key="+key)
			w.WriteHeader(http.StatusTemporaryRedirect)
		},
		func(w http.ResponseWriter, key string) { fmt.Fprintf(w, "<html>%s</html>", key) },
		func(w http.ResponseWriter, key string) { fmt.Fprintf(w, `{"route":%q,"model":%q}`, key, key) },
		func(w http.ResponseWriter, key string) { fmt.Fprintf(w, `{%q:`, key) },
		func(http.ResponseWriter, string) { panic(http.ErrAbortHandler) },
	}
	var asked atomic.Int64
	host = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if r.URL.Path != "/facts" {
			sent = key(r)
		}
		if sent != daemonKey {
			t.Errorf("%s was asked with the key %q", r.URL.Path, sent)
		}
		w.Header().Set("X-Request-Id", sent)
		w.Header().Set("X-Key", sent)
		answers[int(asked.Add(1)-1)%len(answers)](w, sent)
	}))
	t.Cleanup(host.Close)
	return host, len(answers)
}

// fail answers as hosts word errors, with the key in each field.
func fail(w http.ResponseWriter, status int, key string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":{"type":%q,"code":%q,"message":"bad key %s","status":%q},"detail":{"error_type":%q},"request_id":%q}`, key, key, key, key, key, key)
}

// However a judge fails, and whatever it repeats, its key is shown nowhere, and
// each window comes to one end.
func TestJudges_KeysAreNowhereWhateverFails(t *testing.T) {
	bearer := func(r *http.Request) string { return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") }
	header := func(name string) func(*http.Request) string {
		return func(r *http.Request) string { return r.Header.Get(name) }
	}
	for name, key := range map[string]func(*http.Request) string{ //arch:sorted each by itself
		"jev": bearer, "decisions": bearer, "openai": bearer, "chat": bearer, "http": bearer,
		"anthropic": header("X-Api-Key"), "gemini": header("X-Goog-Api-Key"),
	} {
		t.Run(name, func(t *testing.T) {
			host, ways := badly(t, key)
			model := ", model: m-1"
			if name == "http" {
				model = ""
			}
			d := withJudges(t, "policy: {retryBackoffMs: []}\n"+
				"judge: {type: "+name+model+", url: \""+host.URL+"/v1\", keyEnv: MY_KEY}\n"+
				"context: {http: \""+host.URL+"/facts\", keyEnv: MY_KEY}\n"+
				"capture: {command: [sh, -c, 'echo $KEY >&2; echo $KEY; exit 1'], env: {KEY: $MY_KEY}}\n")
			d.allFail(t, ways)
		})
	}
	t.Run("command", func(t *testing.T) {
		script := `echo "the key is $KEY" >&2; read line; case $line in *way:0*) exit 65;; *way:1*) echo $KEY; exit 0;; *) echo "{\"route\":\"$KEY\"}";; esac`
		d := withJudges(t, "policy: {retryBackoffMs: []}\n"+
			"judge: {type: command, command: [sh, -c, '"+script+"'], env: {KEY: $MY_KEY}}\n")
		d.allFail(t, 3)
	})
}

// allFail sends a window for each way to fail, one after the other.
func (d *judged) allFail(t *testing.T, ways int) {
	t.Helper()
	var windows []string
	for i := range ways {
		d.send([2]string{fmt.Sprintf("way:%d", i), "stop"})
		got := d.finals(i + 1)[i]
		if got.Kind != "deadLetter" || got.Stage != "judge" || got.Attempts != 1 {
			t.Errorf("way %d: a %s, %d attempts: %s", i, got.Kind, got.Attempts, got.Message)
		}
		windows = append(windows, got.WindowID)
	}
	for _, id := range windows {
		if status, body := d.call(http.MethodGet, "/v1/decisions/"+id, ""); status != http.StatusOK || !strings.Contains(body, `"failed"`) {
			t.Errorf("the story of a window that failed: status %d, %s", status, body)
		}
	}
	d.keepsTheKey(windows...)
}

package main

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// hostToken is the daemon's, and the host's after it has put it in.
const hostToken = "secret-of-sixteen-bytes"

// hostEntry is how a host's configuration names a server.
type hostEntry struct {
	Type    string            `json:"type"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`

	// Codex's own.
	BearerTokenEnvVar string   `json:"bearer_token_env_var"`
	EnvVars           []string `json:"env_vars"`
	ToolTimeout       int      `json:"tool_timeout_sec"`
}

// readHostJSON reads a configuration of most hosts.
func readHostJSON(t *testing.T, text string) hostEntry {
	t.Helper()
	var file struct {
		MCPServers map[string]hostEntry `json:"mcpServers"`
		Servers    map[string]hostEntry `json:"servers"`
		Inputs     []struct {
			Type, ID, Description string
			Password              bool
		} `json:"inputs"`
	}
	strict := json.NewDecoder(strings.NewReader(text))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&file); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	entry, found := file.MCPServers["attend"]
	if !found {
		entry, found = file.Servers["attend"]
	}
	if !found {
		t.Fatalf("no server attend in\n%s", text)
	}
	// What a host asks for must be asked for.
	for _, m := range regexp.MustCompile(`\$\{input:([^}]*)\}`).FindAllStringSubmatch(text, -1) {
		if len(file.Inputs) != 1 || file.Inputs[0].ID != m[1] || !file.Inputs[0].Password {
			t.Errorf("the input %s is not asked for in\n%s", m[1], text)
		}
	}
	return entry
}

// readHostTOML reads Codex's configuration: one table, whose values are also
// JSON.
func readHostTOML(t *testing.T, text string) hostEntry {
	t.Helper()
	body, found := strings.CutPrefix(text, "[mcp_servers.attend]\n")
	if !found {
		t.Fatalf("no server attend in\n%s", text)
	}
	members := make(map[string]json.RawMessage)
	for line := range strings.Lines(body) {
		key, value, _ := strings.Cut(line, "=")
		members[strings.TrimSpace(key)] = json.RawMessage(strings.TrimSpace(value))
	}
	b, err := json.Marshal(members)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	var entry hostEntry
	strict := json.NewDecoder(strings.NewReader(string(b)))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&entry); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return entry
}

// transport is what the host makes of an entry.
func (e *hostEntry) transport(t *testing.T) mcp.Transport {
	t.Helper()
	if e.Command != "attend" {
		headers := http.Header{}
		for name, value := range e.Headers {
			headers.Set(name, value)
		}
		if e.BearerTokenEnvVar == "ATTEND_TOKEN" {
			headers.Set("Authorization", "Bearer "+hostToken)
		}
		return &mcp.StreamableClientTransport{Endpoint: e.URL, HTTPClient: &http.Client{Transport: withHeaders{headers}}}
	}
	bin, err := exec.LookPath("attend")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, e.Args...)
	cmd.Env = append(withoutAttend(os.Environ()), raceSleepsNot)
	for name, value := range e.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	for _, name := range e.EnvVars {
		cmd.Env = append(cmd.Env, name+"="+hostToken) // it names no other
	}
	return &mcp.CommandTransport{Command: cmd}
}

// withHeaders sends headers with every request.
type withHeaders struct{ headers http.Header }

func (w withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name := range w.headers {
		r.Header.Set(name, w.headers.Get(name))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// What docs/mcp.md says to write into a host's configuration, done as the host
// would, against a daemon with a token.
func TestMCP_HostConfigurations(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "mcp.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Connect a host\n")
	section, _, _ = strings.Cut(section, "\n## ")
	snippets := regexp.MustCompile("(?s)```([a-z]+)\n(.*?)```").FindAllStringSubmatch(section, -1)
	if len(snippets) != 7 {
		t.Fatalf("%d snippets, want seven:\n%s", len(snippets), section)
	}

	env := append(withoutAttend(os.Environ()), "ATTEND_PORT=0", "ATTEND_TOKEN="+hostToken)
	daemon, err := serve(t.TempDir(), env, "--store", "memory", "--kinds", `{"message.*":"flush"}`)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = daemon.end(os.Kill) })
	put := strings.NewReplacer(
		"http://127.0.0.1:8787", daemon.url, "<token>", hostToken,
		"${ATTEND_TOKEN}", hostToken, "${env:ATTEND_TOKEN}", hostToken, "${input:attend-token}", hostToken,
	)
	for _, snippet := range snippets {
		language, text := snippet[1], snippet[2]
		name, _, _ := strings.Cut(text, "\n")
		t.Run(language+" "+name, func(t *testing.T) {
			var entry hostEntry
			switch language {
			case "json":
				readHostJSON(t, text) // inputs are asked for
				entry = readHostJSON(t, put.Replace(text))
			case "toml":
				entry = readHostTOML(t, put.Replace(text))
			default:
				t.Fatalf("a snippet of %s", language)
			}
			session, err := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil).Connect(t.Context(), entry.transport(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			tools, err := session.ListTools(t.Context(), nil)
			if err != nil || len(tools.Tools) < 3 {
				t.Fatalf("tools: %+v, %v", tools, err)
			}
		})
	}
}

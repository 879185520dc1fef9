package main

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// hostServer is one server in a host's configuration.
type hostServer struct {
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
}

// Each configuration of docs/mcp.md that is JSON is done by a client: it
// connects as written, with the daemon's address and token put in.
func TestMCP_HostConfigurations(t *testing.T) {
	page, err := os.ReadFile("../../docs/mcp.md")
	if err != nil {
		t.Fatal(err)
	}
	env := append(withoutAttend(os.Environ()), "ATTEND_TOKEN=host-secret", "ATTEND_PORT=0", "ATTEND_STORE=memory")
	s, err := serve(t.TempDir(), env)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.end(os.Interrupt) }()
	filled := strings.NewReplacer("http://127.0.0.1:8787", s.url, "<token>", "host-secret").Replace(string(page))
	servers := hostServers(t, filled)
	if len(servers) != 4 {
		t.Fatalf("%d configurations in docs/mcp.md, want 4", len(servers))
	}
	for _, server := range servers {
		session, err := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil).Connect(t.Context(), server.transport(), nil)
		if err != nil {
			t.Fatalf("%+v: %v", server, err)
		}
		tools, err := session.ListTools(t.Context(), nil)
		if err != nil || len(tools.Tools) < 3 {
			t.Errorf("%+v: tools %v, %v", server, tools, err)
		}
		if err := session.Close(); err != nil {
			t.Errorf("%+v: %v", server, err)
		}
	}
}

// hostServers reads the server named attend in each JSON block.
func hostServers(t *testing.T, page string) (found []hostServer) {
	t.Helper()
	for _, block := range strings.Split(page, "```json\n")[1:] {
		text, _, _ := strings.Cut(block, "```")
		var config struct {
			MCPServers, Servers map[string]hostServer
		}
		if err := json.Unmarshal([]byte(text), &config); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		for _, servers := range []map[string]hostServer{config.MCPServers, config.Servers} {
			if server, ok := servers["attend"]; ok {
				found = append(found, server)
			}
		}
	}
	return found
}

func (h *hostServer) transport() mcp.Transport {
	if h.Command == "" {
		return &mcp.StreamableClientTransport{Endpoint: h.URL, HTTPClient: &http.Client{Transport: headers(h.Headers)}}
	}
	cmd := exec.Command(h.Command, h.Args...) // the test binary, under the command's name
	cmd.Env = withoutAttend(os.Environ())
	for name, value := range h.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return &mcp.CommandTransport{Command: cmd}
}

// headers adds header fields to every request.
type headers map[string]string

func (h headers) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range h {
		r.Header.Set(name, value)
	}
	return http.DefaultTransport.RoundTrip(r)
}

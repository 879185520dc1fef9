package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"attend/internal/source"
)

// A server that does not let go takes a part of the time in which the daemon
// stops, and not all of it.
func TestSources_AServerThatDoesNotLetGo(t *testing.T) {
	hangs := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			<-hangs
			return
		}
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		w.Header().Set("Content-Type", "application/json")
		switch m.Method {
		case "initialize":
			w.Header().Set("Mcp-Session-Id", "s1")
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`, m.ID)
		case "events/poll":
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"events":[],"cursor":"c"}}`, m.ID)
		case "server/discover":
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	defer server.Close()
	defer close(hangs)
	d := sourced(t, []string{"ATTEND_SHUTDOWN_GRACE_MS=3000"}, "- {name: held, url: "+server.URL+", event: x, scope: x, mode: poll}\n")
	d.comes("it polls", func(s *source.Status) bool { return s.State == source.Polling })
	if err := d.stop(); err != nil {
		t.Errorf("it stops with %v", err)
	}
}

package mcpserve

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFront_HTTP(t *testing.T) {
	d := newDaemon(t, settings{})
	const list = `{"jsonrpc":"2.0","id":1,"method":"events/list"}`
	for _, c := range []struct {
		name, method string
		header       http.Header
		body         string
		status       int
	}{
		{"PUT", http.MethodPut, nil, list, 405},
		{"HEAD", http.MethodHead, nil, "", 405},
		{"no session to end", http.MethodDelete, nil, "", 400},
		{"another type", http.MethodPost, headers("Content-Type", "text/plain"), list, 415},
		{"a type with a parameter", http.MethodPost, headers("Content-Type", "application/json; charset=utf-8"), list, 200},
		{"too large", http.MethodPost, nil, `"` + strings.Repeat("x", maxBodyBytes) + `"`, 413},
		{"as large as may be", http.MethodPost, nil, list + strings.Repeat(" ", maxBodyBytes-len(list)), 200},
		{"an answer to nothing", http.MethodPost, nil, `{"jsonrpc":"2.0","id":1,"result":{}}`, 202},
		{"a notification", http.MethodPost, nil, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202},
		{"an unknown notification", http.MethodPost, nil, `{"jsonrpc":"2.0","method":"events/poll"}`, 202},
		{"no params", http.MethodPost, nil, list, 200},
		{"no Accept", http.MethodPost, headers("Accept", ""), list, 200},
		{"an old revision", http.MethodPost, headers(headerVersion, "2025-06-18"), list, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := d.send(t.Context(), c.method, c.header, c.body)
			if err != nil {
				t.Fatal(err)
			}
			if r.status != c.status {
				t.Errorf("status %d, want %d: %s", r.status, c.status, r.body)
			}
			if c.status == 405 && r.header.Get("Allow") != "DELETE, GET, POST" {
				t.Errorf("Allow is %q", r.header.Get("Allow"))
			}
		})
	}
}

func TestFront_Messages(t *testing.T) {
	d := newDaemon(t, settings{})
	for _, c := range []struct {
		name, body string
		code       int64
	}{
		{"a batch", `[{"jsonrpc":"2.0","id":1,"method":"events/list"},{"jsonrpc":"2.0","id":2,"method":"ping"}]`, -32600},
		{"an empty batch", ` [ ]`, -32600},
		{"a batch of a stream", `[{"jsonrpc":"2.0","id":1,"method":"events/stream","params":{"name":"attention.decision"}}]`, -32600},
		{"half a value", `{"jsonrpc":"2.0"`, -32700},
		{"nothing", ``, -32700},
		{"two values", `{"jsonrpc":"2.0","id":1,"method":"ping"} {}`, -32700},
		{"a string", `"events/list"`, -32600},
		{"another version", `{"jsonrpc":"1.0","id":1,"method":"events/list"}`, -32600},
		{"id null", `{"jsonrpc":"2.0","id":null,"method":"events/list"}`, -32600},
		{"id a fraction", `{"jsonrpc":"2.0","id":1.5,"method":"events/list"}`, -32600},
		{"id too large to keep", `{"jsonrpc":"2.0","id":9007199254740993,"method":"events/list"}`, -32600},
		{"id a list", `{"jsonrpc":"2.0","id":[1],"method":"events/list"}`, -32600},
	} {
		for _, era := range []string{legacy, modern} {
			t.Run(c.name+" in "+era, func(t *testing.T) {
				r := d.post(headers(headerVersion, era), c.body)
				if r.status != 400 || r.msg.Error == nil || r.msg.Error.Code != c.code {
					t.Fatalf("status %d: %s; want 400 and %d", r.status, r.body, c.code)
				}
				if !strings.Contains(r.body, `"id":null`) {
					t.Errorf("the id of an unreadable message is null: %s", r.body)
				}
			})
		}
	}
}

func TestFront_IDsComeBackAsTheyWere(t *testing.T) {
	d := newDaemon(t, settings{})
	for _, id := range []string{`1`, `0`, `-7`, `9007199254740992`, `"1"`, `"a b"`, `""`} {
		for _, method := range []string{"events/list", "tools/list", "nosuch/method"} {
			h, body := requestID(legacy, method, "", id)
			if r := d.post(h, body); string(r.msg.ID) != id {
				t.Errorf("%s: id %s came back as %s: %s", method, id, r.msg.ID, r.body)
			}
		}
	}
}

func TestFront_UnknownMethods(t *testing.T) {
	d := newDaemon(t, settings{})
	for _, method := range []string{"events/nosuch", "prompts/list", "resources/list", "completion/complete", "logging/setLevel", "nosuch"} {
		for era, status := range map[string]int{legacy: 200, modern: 404} {
			r := d.call(era, method, "")
			if r.status != status || r.msg.Error == nil || r.msg.Error.Code != -32601 {
				t.Errorf("%s in %s: status %d: %s", method, era, r.status, r.body)
			}
		}
	}
	if r := d.call(legacy, "server/discover", ""); r.msg.Error == nil || r.msg.Error.Code != -32601 {
		t.Errorf("server/discover in %s: %s", legacy, r.body)
	}
	if r := d.call(modern, "ping", ""); r.status != 404 {
		t.Errorf("ping in %s: status %d", modern, r.status)
	}
}

// What is wrong with a request's headers is found whoever answers its method,
// with the same status and code.
func TestFront_EraRulesAreThoseOfTheSDK(t *testing.T) {
	d := newDaemon(t, settings{})
	meta := func(members string) string { return `"_meta":{` + members + `}` }
	const (
		version = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
		caps    = `"io.modelcontextprotocol/clientCapabilities":{}`
	)
	for _, c := range []struct {
		name, version, method string // headers; method "=" is the right one
		params                string
		status                int
		code                  int64
	}{
		{"right", modern, "=", meta(version + "," + caps), 200, 0},
		{"no method header", modern, "", meta(version + "," + caps), 400, -32020},
		{"another method", modern, "ping", meta(version + "," + caps), 400, -32020},
		{"no _meta", modern, "=", ``, 400, -32602},
		{"an empty _meta", modern, "=", meta(``), 400, -32602},
		{"no capabilities", modern, "=", meta(version), 400, -32602},
		{"capabilities that are none", modern, "=", meta(version + `,"io.modelcontextprotocol/clientCapabilities":7`), 400, -32602},
		{"another version in _meta", modern, "=", meta(`"io.modelcontextprotocol/protocolVersion":"2025-11-25",` + caps), 400, -32020},
		{"no version header", "", "=", meta(version + "," + caps), 400, -32020},
		{"a version of the future", "2099-01-01", "=", meta(`"io.modelcontextprotocol/protocolVersion":"2099-01-01",` + caps), 400, -32022},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, method := range []string{"events/list", "tools/list"} {
				h := headers()
				if c.version != "" {
					h.Set(headerVersion, c.version)
				}
				if c.method == "=" {
					h.Set(headerMethod, method)
				} else if c.method != "" {
					h.Set(headerMethod, c.method)
				}
				r := d.post(h, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, method, c.params))
				code := int64(0)
				if r.msg.Error != nil {
					code = r.msg.Error.Code
				}
				if r.status != c.status || code != c.code {
					t.Errorf("%s: status %d, code %d; want %d, %d: %s", method, r.status, code, c.status, c.code, r.body)
				}
			}
		})
	}
}

func TestFront_UnsupportedVersionSaysWhatIs(t *testing.T) {
	d := newDaemon(t, settings{})
	r := d.post(headers(headerVersion, "2099-01-01", headerMethod, "events/list"), `{"jsonrpc":"2.0","id":1,"method":"events/list"}`)
	if r.msg.Error == nil {
		t.Fatal(r.body)
	}
	supported, _ := r.msg.Error.Data["supported"].([]any)
	if len(supported) == 0 || r.msg.Error.Data["requested"] != "2099-01-01" {
		t.Errorf("data is %v", r.msg.Error.Data)
	}
	if r := d.post(headers(headerVersion, "2019-01-01"), `{"jsonrpc":"2.0","id":1,"method":"events/list"}`); r.msg.Error == nil || r.msg.Error.Code != -32022 {
		t.Errorf("a revision that never was: %s", r.body)
	}
}

func TestFront_CapabilitiesInBothErasAndSpellings(t *testing.T) {
	d := newDaemon(t, settings{})
	want := map[string]any{"listChanged": true}
	for method, r := range map[string]*reply{
		"initialize":      d.call(legacy, "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}`),
		"server/discover": d.call(modern, "server/discover", ""),
	} {
		caps, _ := r.msg.Result["capabilities"].(map[string]any)
		extensions, _ := caps["extensions"].(map[string]any)
		if diff := cmp.Diff(want, extensions[extensionName]); diff != "" {
			t.Errorf("%s, extension: %s", method, diff)
		}
		if diff := cmp.Diff(want, caps["events"]); diff != "" {
			t.Errorf("%s, older spelling: %s", method, diff)
		}
		for _, absent := range []string{"prompts", "resources", "logging", "completions"} {
			if caps[absent] != nil {
				t.Errorf("%s declares %s, which is not there", method, absent)
			}
		}
		if text, _ := r.msg.Result["instructions"].(string); !strings.Contains(text, "attend_wait") {
			t.Errorf("%s: instructions are %q", method, text)
		}
	}
	for _, version := range []string{"2025-06-18", "2025-11-25"} {
		h, body := request(legacy, "initialize", fmt.Sprintf(`"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"t","version":"0"}`, version))
		h.Del(headerVersion) // as the first request comes
		if r := d.post(h, body); r.msg.Result["protocolVersion"] != version {
			t.Errorf("asked for %s, got %v", version, r.msg.Result["protocolVersion"])
		}
	}
}

func TestFront_EveryResultIsComplete(t *testing.T) {
	d := newDaemon(t, settings{})
	check := func(what string, r *reply, named bool) {
		t.Helper()
		if r.msg.Result["resultType"] != "complete" {
			t.Errorf("%s: resultType is %v: %.300s", what, r.msg.Result["resultType"], r.body)
		}
		if n := strings.Count(r.body, `"resultType"`); n != 1 {
			t.Errorf("%s: resultType stands there %d times", what, n)
		}
		meta, _ := r.msg.Result["_meta"].(map[string]any)
		server, _ := meta["io.modelcontextprotocol/serverInfo"].(map[string]any)
		if named && (server["name"] != "attend" || server["version"] != "1.2.3") {
			t.Errorf("%s: the server's name is %v", what, server)
		}
	}
	check("initialize", d.call(legacy, "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}`), false)
	check("server/discover", d.call(modern, "server/discover", ""), true)
	for _, era := range []string{legacy, modern} {
		named := era == modern
		check("events/list in "+era, d.call(era, "events/list", ""), named)
		check("events/poll in "+era, d.call(era, "events/poll", `"name":"attention.decision"`), named)
		check("tools/list in "+era, d.call(era, "tools/list", ""), named)
		check("attend_wait in "+era, d.tool(era, "attend_wait", `{"timeoutMs":0}`), named)
		check("a refused call in "+era, d.tool(era, "attend_wait", `{"timeoutMs":-1}`), named)
	}
	if r := d.call(legacy, "ping", ""); len(r.msg.Result) != 0 {
		t.Errorf("the answer to a ping is empty, got %v", r.msg.Result)
	}
}

func TestFront_LogsNothingOfARequest(t *testing.T) {
	d := newDaemon(t, settings{})
	for _, era := range []string{legacy, modern} {
		d.call(era, "tools/list", "")
		d.tool(era, "attend_wait", `{"timeoutMs":0}`)
		d.call(era, "events/list", "")
	}
	if got := d.log.String(); got != "" {
		t.Errorf("logged: %s", got)
	}
}

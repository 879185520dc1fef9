package app_test

import (
	"net/http"
	"strings"
	"testing"
)

// routes is every route with a method that it has.
func routes() [][2]string {
	return [][2]string{
		{http.MethodGet, "/healthz"},
		{http.MethodGet, "/readyz"},
		{http.MethodGet, "/metrics"},
		{http.MethodGet, "/openapi.json"},
		{http.MethodPost, "/v1/ingest"},
		{http.MethodGet, "/mcp"},
		{http.MethodPost, "/mcp"},
		{http.MethodDelete, "/mcp"},
		{http.MethodGet, "/v1/decisions"},
		{http.MethodGet, "/v1/decisions/x"},
		{http.MethodHead, "/v1/decisions/stream"},
		{http.MethodPost, "/v1/flush"},
		{http.MethodPost, "/v1/scopes/x/flush"},
		{http.MethodGet, "/v1/scopes"},
		{http.MethodGet, "/v1/scopes/x"},
		{http.MethodGet, "/v1/deadletters"},
		{http.MethodGet, "/v1/deadletters/x"},
		{http.MethodPost, "/v1/deadletters/x/requeue"},
		{http.MethodGet, "/v1/consumers"},
		{http.MethodGet, "/v1/consumers/x"},
		{http.MethodDelete, "/v1/consumers/x"},
		{http.MethodGet, "/v1/sources"},
		{http.MethodPost, "/v1/field/write"},
		{http.MethodPost, "/v1/field/attune"},
		{http.MethodPost, "/v1/field/x"},
		{http.MethodGet, "/v1/fields"},
		{http.MethodGet, "/nothing"},
		{http.MethodPut, "/v1/flush"},
		{http.MethodOptions, "/v1/ingest"},
		{http.MethodHead, "/readyz"},
	}
}

func host(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func TestAccess_AWebPageReachesNoRoute(t *testing.T) {
	for name, env := range map[string][]string{"without a token": nil, "with a token": {"ATTEND_TOKEN=secret-of-sixteen-bytes"}} {
		t.Run(name, func(t *testing.T) {
			d := run(t, env)
			for _, route := range routes() {
				for what, change := range map[string]func(*http.Request){
					"hostNotAllowed":   host("evil.example"),
					"originNotAllowed": header("Origin", "https://evil.example"),
				} {
					r := d.ask(route[0], route[1], "", change)
					if r.status != http.StatusForbidden || route[0] != http.MethodHead && !strings.Contains(r.body, what) {
						t.Errorf("%s %s: status %d, want 403 %s: %s", route[0], route[1], r.status, what, r.body)
					}
				}
			}
		})
	}
}

func TestAccess_HostsAndOrigins(t *testing.T) {
	d := run(t, []string{"ATTEND_ALLOWED_HOSTS=attend.internal,named:81", "ATTEND_ALLOWED_ORIGINS=https://ops.example.com"})
	port := d.url[strings.LastIndex(d.url, ":"):]
	for _, c := range []struct {
		name   string
		change []func(*http.Request)
		ok     bool
	}{
		{"the address itself", nil, true},
		{"localhost", []func(*http.Request){host("localhost" + port)}, true},
		{"LOCALHOST", []func(*http.Request){host("LOCALHOST" + port)}, true},
		{"IPv6 loopback", []func(*http.Request){host("[::1]" + port)}, true},
		{"a configured host, any port", []func(*http.Request){host("attend.internal:9")}, true},
		{"a configured host in capitals", []func(*http.Request){host("Attend.Internal")}, true},
		{"a host configured with its port", []func(*http.Request){host("named:81")}, true},
		{"the same with another port", []func(*http.Request){host("named:82")}, false},
		{"a name that ends alike", []func(*http.Request){host("evilattend.internal")}, false},
		{"a name that begins with localhost", []func(*http.Request){host("localhost.evil.example")}, false},
		{"an address of another machine", []func(*http.Request){host("192.0.2.1" + port)}, false},

		{"its own page", []func(*http.Request){header("Origin", d.url)}, true},
		{"a page of another local program", []func(*http.Request){header("Origin", "http://localhost:3000")}, true},
		{"a configured origin", []func(*http.Request){header("Origin", "https://ops.example.com")}, true},
		{"the same over http", []func(*http.Request){header("Origin", "http://ops.example.com")}, false},
		{"a page of a configured host", []func(*http.Request){header("Origin", "http://attend.internal")}, true},
		{"an opaque origin", []func(*http.Request){header("Origin", "null")}, false},
		{"no origin at all", []func(*http.Request){header("Origin", "")}, false},
		{"a file", []func(*http.Request){header("Origin", "file://")}, false},
		{"a local page to a remote name", []func(*http.Request){host("attend.internal"), header("Origin", "http://localhost:3000")}, false},
		{"two origins, one bad", []func(*http.Request){func(r *http.Request) {
			r.Header["Origin"] = []string{"http://localhost:1", "http://evil.example"}
		}}, false},
		{"an image on a page", []func(*http.Request){header("Sec-Fetch-Site", "cross-site")}, false},
		{"typed into the browser", []func(*http.Request){header("Sec-Fetch-Site", "none")}, true},
		{"a script of its own page", []func(*http.Request){header("Sec-Fetch-Site", "same-origin")}, true},
	} {
		want := http.StatusForbidden
		if c.ok {
			want = http.StatusOK
		}
		if r := d.ask(http.MethodGet, "/v1/decisions", "", c.change...); r.status != want {
			t.Errorf("%s: status %d, want %d: %s", c.name, r.status, want, r.body)
		}
	}
}

func TestAccess_WithAToken(t *testing.T) {
	d := run(t, []string{"ATTEND_TOKEN=secret-of-sixteen-bytes"})
	bare := func(r *http.Request) { r.Header.Del("Authorization") }
	for _, route := range routes() {
		open := route[1] == "/healthz" || route[1] == "/readyz"
		for what, change := range map[string]func(*http.Request){
			"no token":       bare,
			"a wrong one":    header("Authorization", "Bearer secret-of-sixteen-bytez"),
			"a part of it":   header("Authorization", "Bearer secret-of-sixteen"),
			"an empty one":   header("Authorization", "Bearer "),
			"another scheme": header("Authorization", "Basic secret-of-sixteen-bytes"),
			"two of them": func(r *http.Request) {
				r.Header["Authorization"] = []string{"Bearer secret-of-sixteen-bytes", "Bearer other"}
			},
		} {
			r := d.ask(route[0], route[1], "", change)
			if open {
				if r.status != http.StatusOK {
					t.Errorf("%s %s with %s: status %d", route[0], route[1], what, r.status)
				}
				continue
			}
			if r.status != http.StatusUnauthorized || !strings.HasPrefix(r.header.Get("WWW-Authenticate"), "Bearer ") {
				t.Errorf("%s %s with %s: status %d, WWW-Authenticate %q", route[0], route[1], what, r.status, r.header.Get("WWW-Authenticate"))
			}
		}
		if r := d.ask(route[0], route[1], ""); r.status == http.StatusUnauthorized || r.status == http.StatusForbidden {
			t.Errorf("%s %s with the token: status %d", route[0], route[1], r.status)
		}
	}
	d.ask(http.MethodGet, "/v1/scopes", "", bare).problem(http.StatusUnauthorized, "unauthorized")
	d.ask(http.MethodGet, "/v1/scopes", "", header("Authorization", "bearer secret-of-sixteen-bytes")).want(http.StatusOK, nil)
	if strings.Contains(d.log.String(), "secret-of") {
		t.Error("the token is in the log")
	}
}

func TestAccess_WithoutAToken(t *testing.T) {
	d := run(t, nil)
	for _, route := range routes() {
		admin := strings.HasSuffix(route[1], "/requeue") || route[0] == http.MethodDelete && route[1] != "/mcp"
		r := d.ask(route[0], route[1], "")
		if admin {
			if r.problem(http.StatusForbidden, "forbidden"); !strings.Contains(r.body, "ATTEND_TOKEN") {
				t.Errorf("it does not say how: %s", r.body)
			}
			continue
		}
		if r.status == http.StatusForbidden || r.status == http.StatusUnauthorized {
			t.Errorf("%s %s: status %d", route[0], route[1], r.status)
		}
	}
}

func TestRoutes_UnknownAndWrongMethods(t *testing.T) {
	d := run(t, nil)
	for _, path := range []string{"/", "/v1", "/v1/", "/v1/decisions/", "/v1/decisions/a/b", "/v1//decisions", "/v1/scopes/a/b/flush", "/V1/scopes"} {
		d.ask(http.MethodGet, path, "").problem(http.StatusNotFound, "noSuchRoute")
	}
	for _, c := range []struct{ method, path, allow string }{
		{http.MethodPost, "/healthz", "GET, HEAD"},
		{http.MethodPut, "/v1/decisions", "GET, HEAD"},
		{http.MethodGet, "/v1/flush", "POST"},
		{http.MethodGet, "/v1/scopes/x/flush", "POST"},
		{http.MethodPost, "/v1/consumers/x", "GET, HEAD, DELETE"},
		{http.MethodPut, "/mcp", "GET, HEAD, POST, DELETE"},
		{http.MethodGet, "/v1/ingest", "POST"},
		{"BREW", "/v1/scopes", "GET, HEAD"},
	} {
		r := d.ask(c.method, c.path, "").problem(http.StatusMethodNotAllowed, "methodNotAllowed")
		if got := r.header.Get("Allow"); got != c.allow {
			t.Errorf("%s %s: Allow %q, want %q", c.method, c.path, got, c.allow)
		}
	}
	d.ask("BREW", "/coffee", "").problem(http.StatusNotFound, "noSuchRoute")
	if r := d.ask(http.MethodHead, "/v1/decisions", ""); r.status != http.StatusOK || r.body != "" {
		t.Errorf("HEAD: status %d, body %q", r.status, r.body)
	}
}

func TestRoutes_HeadersAreBounded(t *testing.T) {
	d := run(t, nil)
	r := d.ask(http.MethodGet, "/healthz", "", header("X-Long", strings.Repeat("x", 128<<10)))
	if r.status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d", r.status)
	}
}

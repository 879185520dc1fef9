package app

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"attend/internal/problem"
)

// guard keeps web pages away from the daemon: every request, whatever its
// route and method, must name a host that is ours (a page whose own name was
// made to resolve to this machine does not) and must not come from a page of
// another origin. Browsers send the headers that tell; no page can change them.
//
// Over a unix socket the Host says nothing, since no name leads there. A page
// comes that way through a proxy alone, whose operator has to name it.
type guard struct {
	hosts   []string // lower-case, "name" (any port) or "name:port"
	origins []string // lower-case, "https://name[:port]"
	socket  bool     // the daemon listens on a unix socket
}

// Codes of the guard's problems.
const (
	codeHost   = "hostNotAllowed"
	codeOrigin = "originNotAllowed"
)

// wrap puts the guard before a handler.
func (g *guard) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.hostAllowed(r) {
			problem.New(http.StatusForbidden, codeHost, fmt.Sprintf(
				"Host is %q: this daemon answers to localhost and to what allowedHosts (ATTEND_ALLOWED_HOSTS) names", r.Host)).Write(w)
			return
		}
		if bad, ok := g.originAllowed(r); !ok {
			problem.New(http.StatusForbidden, codeOrigin, fmt.Sprintf(
				"the request comes from a web page of %s: name its origin in allowedOrigins (ATTEND_ALLOWED_ORIGINS) to let it in", bad)).Write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostAllowed reports whether the Host header names this daemon: a loopback
// name, the address that the connection came in on, or a configured name.
func (g *guard) hostAllowed(r *http.Request) bool {
	if g.socket {
		return true
	}
	host := strings.ToLower(r.Host)
	name := hostName(host)
	return isLoopback(name) || isLocalAddress(r, name) || g.configured(host)
}

// configured reports whether the operator named the host.
func (g *guard) configured(host string) bool {
	return slices.Contains(g.hosts, host) || slices.Contains(g.hosts, hostName(host))
}

// originAllowed reports whether the page that sent the request, if one did, may
// do so; bad names the one that may not.
func (g *guard) originAllowed(r *http.Request) (bad string, ok bool) {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		// A plain GET (an image, a link) carries no Origin; this header tells.
		return "another site", !strings.EqualFold(r.Header.Get("Sec-Fetch-Site"), "cross-site")
	}
	for _, origin := range origins {
		if !g.oneOriginAllowed(r, strings.ToLower(origin)) {
			return fmt.Sprintf("origin %q", origin), false
		}
	}
	return "", true
}

func (g *guard) oneOriginAllowed(r *http.Request, origin string) bool {
	if slices.Contains(g.origins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return false // "null" among others
	}
	host := strings.ToLower(r.Host)
	switch {
	case g.configured(u.Host):
		return true
	case g.socket:
		return false
	case u.Host == host:
		return true
	default:
		// Another program of the same machine.
		return isLoopback(hostName(u.Host)) && isLoopback(hostName(host))
	}
}

// hostName cuts the port off a host header, and the brackets off an IPv6
// address.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

func isLoopback(name string) bool {
	if name == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Unmap().IsLoopback()
}

// isLocalAddress reports whether the name is the very address that the
// connection was made to. No page can pretend that: it would have to be served
// from there.
func isLocalAddress(r *http.Request, name string) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	at, err := netip.ParseAddrPort(local.String())
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Unmap() == at.Addr().Unmap()
}

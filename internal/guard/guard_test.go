package guard

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// names answers look-ups: each name's answers in turn, the last again and again.
type names struct {
	of    map[string][][]netip.Addr
	asked atomic.Int64
}

func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	turns, ok := n.of[host]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return turns[min(int(n.asked.Add(1))-1, len(turns)-1)], nil
}

func addrs(list ...string) []netip.Addr {
	out := make([]netip.Addr, len(list))
	for i, s := range list {
		out[i] = netip.MustParseAddr(s)
	}
	return out
}

func TestGuard_TargetsThatAreRefused(t *testing.T) {
	for _, host := range []string{
		// IPv4, each special block at its edges.
		"0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254",
		"169.254.169.254", "169.254.0.1", "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.0.170", "192.0.2.1", "192.31.196.1",
		"192.52.193.1", "192.88.99.1", "192.168.0.1", "192.168.255.255", "192.175.48.1", "198.18.0.1", "198.19.255.255",
		"198.51.100.7", "203.0.113.9", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		// IPv6.
		"::", "::1", "::7f00:1", "100::1", "64:ff9b:1::1", "2001:2::1", "2001:10::1", "2001:20::1", "2001:db8::1", "3fff::1",
		"5f00::1", "fc00::1", "fd12:3456::1", "fe80::1", "fec0::1", "ff02::1", "2620:4f:8000::1", "4000::1", "fe80::1%eth0", "2606:4700::1%lo",
		// IPv4 inside IPv6.
		"::ffff:127.0.0.1", "::ffff:10.1.2.3", "::ffff:169.254.169.254", "64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe",
		"2002:7f00:1::1", "2002:a00:1::", "2002:c0a8:101::1",
		"2001:0:4136:e378:8000:63bf:80ff:fffe", // Teredo: the client is 127.0.0.1
		"2001:0:7f00:1:8000:63bf:3fff:fdd2",    // Teredo: the server is 127.0.0.1
		// Other spellings.
		"0177.0.0.1", "0x7f.0.0.1", "0x7f000001", "2130706433", "017700000001", "127.1", "127.0.1", "127.0.0.1.", "10.0.0.0x1", "",
	} {
		t.Run(host, func(t *testing.T) {
			c := New(Options{Resolver: &names{of: map[string][][]netip.Addr{host: {addrs("127.0.0.1")}}}})
			var refused *AddressError
			if err := c.Check(t.Context(), host); !errors.As(err, &refused) {
				t.Errorf("got %v, want it refused", err)
			}
		})
	}
}

func TestGuard_TargetsThatArePublic(t *testing.T) {
	for _, host := range []string{
		"1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.1", "169.253.255.255",
		"172.15.255.255", "172.32.0.0", "192.0.1.1", "192.167.255.255", "198.17.255.255", "198.20.0.0", "223.255.255.255",
		"2606:4700:4700::1111", "2a00:1450:4001::1", "2001:4860:4860::8888", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1",
		"2001:0:4136:e378:8000:63bf:f7f7:f7f7", // Teredo: the client is 8.8.8.8
	} {
		if err := New(Options{}).Check(t.Context(), host); err != nil {
			t.Errorf("%s: got %v, want it let through", host, err)
		}
	}
}

func TestGuard_NameIsWhatItResolvesTo(t *testing.T) {
	n := &names{of: map[string][][]netip.Addr{
		"private.example": {addrs("10.0.0.1", "fd00::1")},
		"mixed.example":   {addrs("127.0.0.1", "93.184.216.34", "::1")},
		"mapped.example":  {addrs("::ffff:192.168.1.1")},
		"empty.example":   {nil},
	}}
	d := New(Options{Resolver: n}).dialer
	for host, want := range map[string]string{
		"private.example": "[]", "mapped.example": "[]", "empty.example": "[]", "unknown.example": "[]",
		"mixed.example": "[93.184.216.34]",
	} {
		got, err := d.addresses(t.Context(), host)
		if fmt.Sprint(got) != want || (err == nil) != (want != "[]") {
			t.Errorf("%s: got %v, %v; want %s", host, got, err, want)
		}
	}
}

// receiver counts what reaches it.
type receiver struct {
	*httptest.Server
	hits atomic.Int64
	host atomic.Value
}

func newReceiver(t *testing.T, answer http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.hits.Add(1)
		r.host.Store(req.Host + " " + req.TLS.ServerName)
		answer(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(r.Certificate())
	return pool
}

func (r *receiver) port() string {
	_, port, _ := net.SplitHostPort(r.Listener.Addr().String())
	return port
}

func post(t *testing.T, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// A name that is public when it is looked at and loopback when it is connected
// to reaches nobody, however often it is tried.
func TestGuard_Rebinding(t *testing.T) {
	r := newReceiver(t, func(http.ResponseWriter, *http.Request) {})
	n := &names{of: map[string][][]netip.Addr{"example.com": {addrs("93.184.216.34"), addrs("127.0.0.1")}}}
	c := New(Options{Resolver: n, Roots: r.roots()})
	defer c.Close()
	if err := c.Check(t.Context(), "example.com"); err != nil {
		t.Fatalf("it is public at first: %v", err)
	}
	for range 3 {
		var refused *AddressError
		if _, err := c.Do(post(t, "https://example.com:"+r.port()+"/"), 10); !errors.As(err, &refused) {
			t.Errorf("got %v, want it refused", err)
		}
	}
	if r.hits.Load() != 0 {
		t.Errorf("the receiver was reached %d times", r.hits.Load())
	}
}

// An exception is about the address; the host and the name of TLS stay those of
// the URL, and the certificate is held against them.
func TestGuard_AllowKeepsHostAndName(t *testing.T) {
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello, world") })
	n := &names{of: map[string][][]netip.Addr{"example.com": {addrs("127.0.0.1")}, "other.test": {addrs("127.0.0.1")}}}
	c := New(Options{Resolver: n, Roots: r.roots(), Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	defer c.Close()
	got, err := c.Do(post(t, "https://example.com:"+r.port()+"/hook"), 5)
	if err != nil {
		t.Fatal(err)
	}
	if want := "example.com:" + r.port() + " example.com"; got.Status != 200 || !bytes.Equal(got.Body, []byte("hello")) || r.host.Load() != want {
		t.Errorf("got %d %q for host %v; want 200, the first 5 bytes, and %q", got.Status, got.Body, r.host.Load(), want)
	}
	before := r.hits.Load()
	if _, err := c.Do(post(t, "https://other.test:"+r.port()+"/hook"), 5); err == nil || r.hits.Load() != before {
		t.Errorf("a certificate of another name was taken: %v", err)
	}
}

func TestGuard_NoRedirectNoProxy(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	r := newReceiver(t, func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, "/elsewhere", http.StatusTemporaryRedirect)
	})
	c := New(Options{Roots: r.roots(), Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	defer c.Close()
	got, err := c.Do(post(t, r.URL), 5)
	if err != nil || got.Status != http.StatusTemporaryRedirect || r.hits.Load() != 1 {
		t.Errorf("got %v, %v after %d requests; want the redirect itself after one", got, err, r.hits.Load())
	}
}

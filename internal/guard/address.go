package guard

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// AddressError reports an address that nobody may be led to. Its text names the
// host that was asked for, and not what it resolves to: that is for the
// operator, and the caller may be feeling around a network that is not theirs.
type AddressError struct {
	Host string
	Addr netip.Addr // the zero Addr where the host is no name that can be looked up
	Why  string
}

// Error implements error.
func (e *AddressError) Error() string {
	return fmt.Sprintf("%q leads to no address that may be reached from here", e.Host)
}

// special is a block of addresses that are not globally routable.
type special struct {
	prefix netip.Prefix
	what   string
}

// specials are those of the IANA special-purpose registries for IPv4 and IPv6
// (RFC 6890 and its updates), with multicast. Blocks that the registries call
// globally reachable but that no receiver lives in are left in.
func specials() []special {
	list := []struct{ cidr, what string }{
		{"0.0.0.0/8", "this network"},
		{"10.0.0.0/8", "private"},
		{"100.64.0.0/10", "shared by carriers"},
		{"127.0.0.0/8", "loopback"},
		{"169.254.0.0/16", "link-local"},
		{"172.16.0.0/12", "private"},
		{"192.0.0.0/24", "for protocols"},
		{"192.0.2.0/24", "for documentation"},
		{"192.31.196.0/24", "AS112"},
		{"192.52.193.0/24", "AMT"},
		{"192.88.99.0/24", "a 6to4 relay"},
		{"192.168.0.0/16", "private"},
		{"192.175.48.0/24", "AS112"},
		{"198.18.0.0/15", "for benchmarks"},
		{"198.51.100.0/24", "for documentation"},
		{"203.0.113.0/24", "for documentation"},
		{"224.0.0.0/4", "multicast"},
		{"240.0.0.0/4", "reserved"},

		{"2001::/23", "for protocols"}, // Teredo, within it, is judged before
		{"2001:db8::/32", "for documentation"},
		{"2620:4f:8000::/48", "AS112"},
		{"3fff::/20", "for documentation"},
	}
	out := make([]special, len(list))
	for i, l := range list {
		out[i] = special{netip.MustParsePrefix(l.cidr), l.what}
	}
	return out
}

// rules judge addresses.
type rules struct {
	specials  []special
	allow     []netip.Prefix
	global    netip.Prefix // of IPv6: what is handed out
	nat64     netip.Prefix
	teredo    netip.Prefix
	sixToFour netip.Prefix
}

func newRules(allow []netip.Prefix) *rules {
	return &rules{
		specials: specials(), allow: allow,
		global:    netip.MustParsePrefix("2000::/3"),
		nat64:     netip.MustParsePrefix("64:ff9b::/96"),
		teredo:    netip.MustParsePrefix("2001::/32"),
		sixToFour: netip.MustParsePrefix("2002::/16"),
	}
}

// judge returns why an address may not be reached, "" when it may. An IPv6
// address that stands for an IPv4 one is judged by that.
func (r *rules) judge(a netip.Addr) string {
	if !a.IsValid() || a.Zone() != "" {
		return "with a zone"
	}
	a = a.Unmap()
	for _, p := range r.allow {
		if p.Contains(a) {
			return ""
		}
	}
	if a.Is6() {
		for _, inside := range r.inside(a) {
			if why := r.judge(inside); why != "" {
				return why
			}
		}
		if r.nat64.Contains(a) || r.teredo.Contains(a) || r.sixToFour.Contains(a) {
			return ""
		}
		if !r.global.Contains(a) {
			return "not globally routable"
		}
	}
	for i := range r.specials {
		if r.specials[i].prefix.Contains(a) {
			return r.specials[i].what
		}
	}
	return ""
}

// inside returns the IPv4 addresses to which an IPv6 address leads: that of
// NAT64 (RFC 6052), of 6to4 (RFC 3056), of Teredo both the server's and the
// client's, which is written inverted (RFC 4380).
func (r *rules) inside(a netip.Addr) []netip.Addr {
	b := a.As16()
	v4 := func(i int) netip.Addr { return netip.AddrFrom4([4]byte(b[i : i+4])) }
	switch {
	case r.nat64.Contains(a):
		return []netip.Addr{v4(12)}
	case r.sixToFour.Contains(a):
		return []netip.Addr{v4(2)}
	case r.teredo.Contains(a):
		var client [4]byte
		binary.BigEndian.PutUint32(client[:], ^binary.BigEndian.Uint32(b[12:]))
		return []netip.Addr{v4(4), netip.AddrFrom4(client)}
	default:
		return nil
	}
}

package hooks

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // what old senders sign with
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"net/http"
	"strings"
	"testing"
	"time"
)

// signing is a generic hook with a scheme.
func signing(s Signature, secrets ...string) Hook {
	return Hook{Name: "any", Type: Generic, Secrets: keys(secrets...), Scheme: s, Event: simple()}
}

// Each algorithm, encoding and prefix, and several secrets while one takes the
// place of another.
func TestSignature_Schemes(t *testing.T) {
	const body = `{"scope":"a","name":"b"}`
	one := hmac.New(sha1.New, []byte("new"))
	one.Write([]byte(body))
	five := hmac.New(sha512.New, []byte("new"))
	five.Write([]byte("id-1|" + body + "{x}"))
	for name, c := range map[string]struct {
		scheme  Signature
		headers []string
	}{
		"plain":           {Signature{Header: "X-Sig"}, []string{"X-Sig", signed("new", body)}},
		"the old secret":  {Signature{Header: "X-Sig"}, []string{"X-Sig", signed("old", body)}},
		"capitals":        {Signature{Header: "X-Sig"}, []string{"x-sig", strings.ToUpper(signed("new", body))}},
		"a prefix":        {Signature{Header: "X-Sig", Prefix: "v1="}, []string{"X-Sig", "v1=" + signed("new", body)}},
		"one of a list":   {Signature{Header: "X-Sig", Prefix: "v1="}, []string{"X-Sig", "v1=00, v2=00,v1=" + signed("new", body)}},
		"one of headers":  {Signature{Header: "X-Sig"}, []string{"X-Sig", "zz", "X-Sig", signed("new", body)}},
		"a scheme":        {Signature{Header: "Authorization", Prefix: "HMAC "}, []string{"Authorization", "HMAC " + signed("new", body)}},
		"a list of them":  {Signature{Header: "X-Sig", Prefix: "v1, "}, []string{"X-Sig", "v0, 00 v1, 00, v1, " + signed("new", body)}},
		"SHA-1, base64":   {Signature{Header: "X-Sig", Algorithm: "sha1", Encoding: "base64"}, []string{"X-Sig", base64.StdEncoding.EncodeToString(one.Sum(nil))}},
		"SHA-512 and id":  {Signature{Header: "X-Sig", Algorithm: "sha512", Signed: "{id}|{body}{{x}}", IDHeader: "X-Id"}, []string{"X-Sig", hex.EncodeToString(five.Sum(nil)), "X-Id", "id-1"}},
		"seconds":         {Signature{Header: "X-Sig", Signed: "{timestamp}{body}", TimestampHeader: "X-At"}, []string{"X-Sig", signed("new", stamp(0), body), "X-At", stamp(0)}},
		"milliseconds":    {Signature{Header: "X-Sig", Signed: "{timestamp}{body}", TimestampHeader: "X-At"}, []string{"X-Sig", signed("new", stamp(0)+"123", body), "X-At", stamp(0) + "123"}},
		"in one header":   {Signature{Header: "X-Sig", Prefix: "v1=", Signed: "{timestamp}{body}", TimestampHeader: "X-Sig", TimestampPrefix: "t="}, []string{"X-Sig", "t=" + stamp(0) + ",v1=" + signed("new", stamp(0), body)}},
		"many signatures": {Signature{Header: "X-Sig"}, []string{"X-Sig", strings.Repeat("00,", maxSignatures-1) + signed("new", body)}},
	} {
		w := newWorld(t, signing(c.scheme, "old", "new"))
		w.post("any", body, asJSON(c.headers...)...).want(t, 200, "")
		if w.post("any", body+" ", asJSON(c.headers...)...).want(t, 401, "unauthorized"); len(w.taken) != 1 {
			t.Errorf("%s: %d events", name, len(w.taken))
		}
		w = newWorld(t, signing(c.scheme, "another"))
		w.post("any", body, asJSON(c.headers...)...).want(t, 401, "unauthorized")
	}
}

// What a spoofer may try where timestamps are signed.
func TestSignature_Timestamps(t *testing.T) {
	const body = `{"scope":"a","name":"b"}`
	scheme := Signature{Header: "X-Sig", Signed: "{timestamp}.{body}", TimestampHeader: "X-At"}
	right := signed("key", stamp(0), ".", body)
	for name, headers := range map[string][]string{
		"no timestamp":         {"X-Sig", right},
		"none signed":          {"X-Sig", signed("key", ".", body)},
		"an empty one":         {"X-Sig", signed("key", ".", body), "X-At", ""},
		"another":              {"X-Sig", right, "X-At", stamp(time.Second)},
		"two":                  {"X-Sig", right, "X-At", stamp(0), "X-At", stamp(0)},
		"two in one":           {"X-Sig", right, "X-At", stamp(0) + "," + stamp(0)},
		"too old":              {"X-Sig", signed("key", stamp(-301*time.Second), ".", body), "X-At", stamp(-301 * time.Second)},
		"too new":              {"X-Sig", signed("key", stamp(301*time.Second), ".", body), "X-At", stamp(301 * time.Second)},
		"no number":            {"X-Sig", signed("key", "now", ".", body), "X-At", "now"},
		"a sign":               {"X-Sig", signed("key", "+"+stamp(0), ".", body), "X-At", "+" + stamp(0)},
		"too long":             {"X-Sig", signed("key", strings.Repeat("9", 30), ".", body), "X-At", strings.Repeat("9", 30)},
		"a part of the body":   {"X-Sig", signed("key", stamp(0), ".", body), "X-At", stamp(0)[:9]},
		"the signature behind": {"X-Sig", strings.Repeat("00,", maxSignatures) + right, "X-At", stamp(0)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, signing(scheme, "key"))
			if w.post("any", body, asJSON(headers...)...).want(t, 401, "unauthorized"); len(w.taken) != 0 {
				t.Errorf("%d events", len(w.taken))
			}
		})
	}
	w := newWorld(t, signing(scheme, "key"))
	for _, offset := range []time.Duration{-300 * time.Second, 0, 300 * time.Second} {
		w.post("any", body, asJSON("X-Sig", signed("key", stamp(offset), ".", body), "X-At", stamp(offset))...).want(t, 200, "")
	}
}

// The id that a signature names is the event's, unless the mapping has another.
func TestSignature_ItsIDIsTheEvents(t *testing.T) {
	const body = `{"scope":"a","name":"b","id":"mine"}`
	scheme := Signature{Header: "X-Sig", Signed: "{id}{body}", IDHeader: "X-Id"}
	mapping := simple()
	for _, c := range []struct{ id, want string }{{"", "d-1"}, {"body.id", "mine"}} {
		mapping.ID = c.id
		h := signing(scheme, "key")
		h.Event = mapping
		w := newWorld(t, h)
		w.post("any", body, asJSON("X-Sig", signed("key", "d-1", body), "X-Id", "d-1")...).want(t, 200, "")
		if w.taken[0].ID != c.want {
			t.Errorf("the id is %q, want %q", w.taken[0].ID, c.want)
		}
	}
}

// A check does the same work for a wrong signature as for a right one: it hashes
// the body with each secret, and compares with each signature.
func TestSignature_SameWorkForWrongAndRight(t *testing.T) {
	body := []byte(strings.Repeat("x", 1<<10))
	for _, signature := range []string{signed("one", string(body)), signed("two", string(body)), signed("wrong", string(body)), "", "00", "zz"} {
		s := Signature{Header: "X-Sig"}
		c, err := s.compile(keys("one", "two"), 0)
		if err != nil {
			t.Fatal(err)
		}
		made := 0
		inner := c.hash
		c.hash = func() hash.Hash { made++; return inner() }
		_, err = c.verify(http.Header{"X-Sig": {signature}}, body, time.Time{})
		if right := signature == signed("one", string(body)) || signature == signed("two", string(body)); (err == nil) != right {
			t.Errorf("%q: %v", signature, err)
		}
		if want := 4; made != want { // an HMAC takes an inner and an outer hash
			t.Errorf("%q: %d hashes were made, want %d", signature, made, want)
		}
	}
}

// What could never work is told when it is configured.
func TestSignature_Check(t *testing.T) {
	for want, s := range map[string]Signature{
		"header is no name of a header":          {Header: "X Y"},
		"timestampHeader is no name":             {Header: "X", Signed: "{timestamp}{body}", TimestampHeader: "X-At:"},
		"idHeader is no name":                    {Header: "X", IDHeader: "é"},
		"header is Host":                         {Header: "host"},
		"header is Content-Length":               {Header: "content-length"},
		"the prefix of header begins with":       {Header: "X", Prefix: " v1="},
		"the prefix of timestampHeader begins":   {Header: "X", Signed: "{timestamp}{body}", TimestampHeader: "T", TimestampPrefix: ",t="},
		"header and idHeader are the same":       {Header: "X-Sig", IDHeader: "x-sig"},
		"header and timestampHeader are the":     {Header: "X-Sig", Signed: "{timestamp}{body}", TimestampHeader: "x-sig", Prefix: "v1="},
		"prefix and timestampPrefix say which":   {Header: "X-Sig", Signed: "{timestamp}{body}", TimestampHeader: "X-Sig"},
		"say which part is which, as v1= and t=": {Header: "X-Sig", Signed: "{timestamp}{body}", TimestampHeader: "X-Sig", Prefix: "a=", TimestampPrefix: "a="},
	} {
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
	}
}

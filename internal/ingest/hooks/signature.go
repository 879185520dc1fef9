package hooks

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // old senders sign with HMAC-SHA-1, which still stands
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Signature is how a sender signs: HMAC over the body, or over a text that it
// is a part of. Of a header that is a list, parted by commas or blanks, each
// element with the prefix counts, as in "t=1492774577,v1=5257a8…". A prefix may
// hold such a separator, as "HMAC ".
type Signature struct {
	Header    string // that holds the signature
	Prefix    string // that stands before it, as "v1="
	Algorithm string // "sha256" (the default), "sha1" or "sha512"
	Encoding  string // "hex" (the default) or "base64"
	// Signed is what is signed, with {body}, {timestamp} and {id}; "" is {body}.
	Signed string

	TimestampHeader string // that holds Unix seconds, or milliseconds
	TimestampPrefix string // that stands before them, as "t="
	IDHeader        string // that names the delivery
}

// Algorithms and Encodings list what a signature may be made by.
func Algorithms() []string { return []string{"sha256", "sha1", "sha512"} }

// Encodings lists how a signature may be written.
func Encodings() []string { return []string{"hex", "base64"} }

// maxSignatures is how many of one header are looked at.
const maxSignatures = 16

// scheme is a signature, compiled.
type scheme struct {
	Signature
	keys      [][]byte
	hash      func() hash.Hash
	decode    func(string) ([]byte, error)
	signed    []part
	tolerance time.Duration
}

// Check says what is wrong with a signature, nil for nothing.
func (s *Signature) Check() error {
	_, err := s.compile([][]byte{{1}}, 0)
	return err
}

func (s *Signature) compile(keys [][]byte, tolerance time.Duration) (*scheme, error) {
	c := &scheme{Signature: *s, keys: keys, tolerance: tolerance}
	if err := s.places(); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(keys, func(key []byte) bool { return len(key) == 0 }) {
		return nil, errors.New("has an empty secret")
	}
	switch s.Algorithm {
	case "", "sha256":
		c.hash = sha256.New
	case "sha1":
		c.hash = sha1.New
	case "sha512":
		c.hash = sha512.New
	default:
		return nil, fmt.Errorf("unknown algorithm %q: want %s", s.Algorithm, strings.Join(Algorithms(), ", "))
	}
	switch s.Encoding {
	case "", "hex":
		c.decode = hex.DecodeString
	case "base64":
		c.decode = base64.StdEncoding.DecodeString
	default:
		return nil, fmt.Errorf("unknown encoding %q: want %s", s.Encoding, strings.Join(Encodings(), ", "))
	}
	var err error
	c.signed, err = s.text()
	return c, err
}

// places checks where signature, time and id are said to stand.
func (s *Signature) places() error {
	if s.Header == "" {
		return errors.New("has no header: it says where the signature stands, as X-Hub-Signature-256")
	}
	for _, p := range []struct{ name, header, prefix string }{
		{"header", s.Header, s.Prefix}, {"timestampHeader", s.TimestampHeader, s.TimestampPrefix}, {"idHeader", s.IDHeader, ""},
	} {
		switch {
		case p.header == "":
		case !isHeader(p.header):
			return fmt.Errorf("%s is no name of a header: letters, digits and - alone, without a colon", p.name)
		case slices.Contains(unseenHeaders(), http.CanonicalHeaderKey(p.header)):
			return fmt.Errorf("%s is %s, which belongs to the connection and cannot be looked at", p.name, http.CanonicalHeaderKey(p.header))
		case strings.TrimLeft(p.prefix, separators) != p.prefix:
			return fmt.Errorf("the prefix of %s begins with a blank or comma, which parts the elements of a header: leave it out", p.name)
		}
	}
	same := func(other string) bool { return strings.EqualFold(s.Header, other) }
	switch {
	case same(s.IDHeader):
		return errors.New("header and idHeader are the same: a signature does not name the delivery")
	case same(s.TimestampHeader) && (s.TimestampPrefix == "" || s.Prefix == s.TimestampPrefix):
		return errors.New("header and timestampHeader are the same: prefix and timestampPrefix say which part is which, as v1= and t=")
	}
	return nil
}

// unseenHeaders are taken off a request before a handler sees it, or may be.
func unseenHeaders() []string {
	return []string{"Connection", "Content-Length", "Host", "Trailer", "Transfer-Encoding"}
}

// isHeader reports whether a name can be that of a header: a token of RFC 9110.
func isHeader(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		alphanumeric := '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		return !alphanumeric && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// text takes apart what is signed, and holds it against the headers.
func (s *Signature) text() ([]part, error) {
	text := s.Signed
	if text == "" {
		text = "{body}"
	}
	in := make(map[string]bool)
	parts, err := split(text, func(name string) ([]string, error) {
		if name != "body" && name != "timestamp" && name != "id" {
			return nil, fmt.Errorf("signed holds {%s}: want {body}, {timestamp} or {id}", name)
		}
		in[name] = true
		return []string{name}, nil
	})
	switch {
	case err != nil:
		return nil, err
	case !in["body"]:
		return nil, errors.New("signed holds no {body}: anybody could change it")
	case in["timestamp"] && s.TimestampHeader == "":
		return nil, errors.New("signed holds {timestamp}, and timestampHeader does not say where it is")
	case in["id"] && s.IDHeader == "":
		return nil, errors.New("signed holds {id}, and idHeader does not say where it is")
	case s.TimestampHeader != "" && !in["timestamp"]:
		return nil, errors.New("timestampHeader names what signed does not hold: anybody could change it")
	case s.TimestampPrefix != "" && s.TimestampHeader == "":
		return nil, errors.New("timestampPrefix stands without timestampHeader")
	}
	return parts, nil
}

// verify does the same work whether a signature is there, wrong or right.
func (s *scheme) verify(h http.Header, body []byte, now time.Time) (id string, err error) {
	id = h.Get(s.IDHeader)
	stamps := elements(h, s.TimestampHeader, s.TimestampPrefix)
	stamp := ""
	if len(stamps) > 0 {
		stamp = stamps[0]
	}
	same := 0
	signatures := s.signatures(h)
	for _, key := range s.keys {
		mac := hmac.New(s.hash, key)
		for _, p := range s.signed {
			switch {
			case p.path == nil:
				mac.Write([]byte(p.text))
			case p.path[0] == "body":
				mac.Write(body)
			case p.path[0] == "timestamp":
				mac.Write([]byte(stamp))
			default:
				mac.Write([]byte(id))
			}
		}
		sum := mac.Sum(nil)
		for _, signature := range signatures {
			if hmac.Equal(signature, sum) {
				same++
			}
		}
	}
	switch {
	case same == 0 && len(signatures) == 0:
		return id, errUnsigned
	case same == 0:
		return id, errWrongSignature
	case s.TimestampHeader != "" && (len(stamps) != 1 || !recent(stamp, now, s.tolerance)):
		return id, errStale
	}
	return id, nil
}

// signatures returns those of the header; one that cannot be decoded is none.
func (s *scheme) signatures(h http.Header) (all [][]byte) {
	for _, text := range elements(h, s.Header, s.Prefix) {
		if signature, err := s.decode(text); err == nil && len(all) < maxSignatures {
			all = append(all, signature)
		}
	}
	return all
}

// separators part the elements of a header.
const separators = ", \t"

// elements returns what stands behind the prefix in each element of a header.
func elements(h http.Header, header, prefix string) (all []string) {
	for _, value := range h.Values(header) {
		for rest := strings.TrimLeft(value, separators); rest != ""; rest = strings.TrimLeft(rest, separators) {
			text, found := strings.CutPrefix(rest, prefix)
			end := strings.IndexAny(text, separators)
			if end < 0 {
				end = len(text)
			}
			if found && end > 0 {
				all = append(all, text[:end])
			}
			rest = text[end:]
		}
	}
	return all
}

// recent reports whether a timestamp, Unix seconds or milliseconds, is near now.
// Seconds have at most 11 digits until the year 5138.
func recent(stamp string, now time.Time, tolerance time.Duration) bool {
	if len(stamp) == 0 || len(stamp) > 14 || strings.ContainsFunc(stamp, func(r rune) bool { return r < '0' || r > '9' }) {
		return false
	}
	n, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return false
	}
	at := time.Unix(n, 0)
	if len(stamp) > 11 {
		at = time.UnixMilli(n)
	}
	return now.Sub(at).Abs() <= tolerance
}

package ingest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
)

// errOther is an oracle's word for a line that is JSON but no event.
var errOther = errors.New("no event")

// oracle reads a line with a JSON library, by the rules as they are written
// down. It is slow and says little; it must agree on what is kept.
func oracle(line []byte) (told, error) {
	var out told
	d := jsontext.NewDecoder(bytes.NewReader(line), jsontext.AllowDuplicateNames(true))
	if d.PeekKind() != '{' {
		return out, fmt.Errorf("%w: it is no object", errOther)
	}
	if _, err := d.ReadToken(); err != nil {
		return out, err
	}
	var wrong error
	seen := make(map[string]bool)
	for d.PeekKind() != '}' {
		key, err := d.ReadToken()
		if err != nil {
			return out, err
		}
		name := key.String()
		value, err := d.ReadValue()
		if err != nil {
			return out, err
		}
		if depthOf(value)+1 > maxDepth {
			wrong = fmt.Errorf("%w: too deep", errOther)
		}
		known := ""
		for _, f := range fieldNames {
			if strings.EqualFold(f, name) {
				known = f
			}
		}
		if known == "" {
			out.Unknowns++
			continue
		}
		if seen[known] || known != name {
			wrong = fmt.Errorf("%w: field %s", errOther, name)
		}
		seen[known] = true
		if err := out.set(known, value); err != nil {
			wrong = err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return out, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return out, fmt.Errorf("%w: something follows", errOther)
	}
	return out, wrong
}

func depthOf(v jsontext.Value) (deepest int) {
	d := jsontext.NewDecoder(bytes.NewReader(v), jsontext.AllowDuplicateNames(true))
	for {
		if _, err := d.ReadToken(); err != nil {
			return deepest
		}
		deepest = max(deepest, d.StackDepth())
	}
}

func (out *told) set(field string, v jsontext.Value) error {
	switch field {
	case "data":
		out.Data, out.HasData = string(v), true
		return nil
	case "at":
		out.HasAt = true
		return out.setAt(v)
	}
	if v.Kind() != '"' {
		return fmt.Errorf("%w: %s is no string", errOther, field)
	}
	var s string
	if err := json.Unmarshal(v, &s); err != nil {
		return err
	}
	limit, least := map[string]int{"scope": 512, "name": 256, "id": 256, "text": 1 << 30}[field], 1
	if field == "text" {
		least = 0
	}
	if len(s) < least || len(s) > limit || field == "scope" && strings.ContainsFunc(s, unicode.IsControl) {
		return fmt.Errorf("%w: %s", errOther, field)
	}
	switch field {
	case "scope":
		out.Scope = s
	case "name":
		out.Name = s
	case "id":
		out.ID, out.HasID = s, true
	default:
		out.Text = s
	}
	return nil
}

func (out *told) setAt(v jsontext.Value) error {
	switch v.Kind() {
	case '0':
		var n int64
		if err := json.Unmarshal(v, &n); err != nil || n < -62167219200000 || n > 253402300799999 {
			return fmt.Errorf("%w: at", errOther)
		}
		out.At = engine.Time(n)
		return nil
	case '"':
		var s string
		if err := json.Unmarshal(v, &s); err != nil {
			return err
		}
		// One way to write it back must give the same text, but for a fraction.
		t, err := time.Parse(time.RFC3339, s)
		if err != nil {
			return fmt.Errorf("%w: at", errOther)
		}
		whole, zone := s[:min(len(s), 19)], s[len(s)-min(len(s), 6):]
		if t.Format("2006-01-02T15:04:05") != whole || !strings.HasSuffix(s, "Z") && t.Format("-07:00") != zone && zone != "-00:00" || strings.Contains(s, ",") {
			return fmt.Errorf("%w: at", errOther)
		}
		if _, offset := t.Zone(); offset <= -24*3600 || offset >= 24*3600 {
			return fmt.Errorf("%w: at", errOther)
		}
		out.At = engine.Time(t.UnixMilli())
		return nil
	default:
		return fmt.Errorf("%w: at", errOther)
	}
}

// agree holds the decoder against both oracles.
func agree(t *testing.T, line []byte) {
	t.Helper()
	var d decoder
	f := d.decode(line)
	want, err := oracle(line)
	if (f == nil) != (err == nil) {
		t.Fatalf("%q: the decoder says %v, the oracle %v", line, f, err)
	}
	if f != nil {
		if f.column < 0 || f.column > len(line)+1 || f.text == "" || !utf8.ValidString(f.text) {
			t.Fatalf("%q: a fault that cannot be shown: %+v", line, f)
		}
		return
	}
	if diff := cmp.Diff(want, tellsOf(&d)); diff != "" {
		t.Fatalf("%q (-oracle +decoder):\n%s", line, diff)
	}
	var loose map[string]json.RawMessage
	if err := json.Unmarshal(line, &loose); err != nil {
		t.Fatalf("%q: kept, and encoding/json says %v", line, err)
	}
	if want.HasData && string(loose["data"]) != want.Data {
		t.Fatalf("%q: data is %q, and for encoding/json %q", line, want.Data, loose["data"])
	}
}

func FuzzLine(f *testing.F) {
	for _, seed := range []string{
		`{"scope":"repo:acme/shop","name":"check_run.completed","id":"gh-0007","at":1793610017470,"data":{"by":"user-01","ok":[true,false,null,-1.5e+3]},"text":"Octocoders-linter"}`,
		`{"scope":"s","at":"2026-01-31T12:00:00.5+01:30","text":"\ud83d\ude00 \u00e9 é 😀"}`,
		` {"id":"1","ID":"2"} `, `{"data":{"a":1,"a":2}}`, "{\"text\":\"\xff\"}", `{"text":"\ud800"}`, `{"data":[1e400,01]}`,
		`{"at":-62167219200001}`, `{"at":"2026-01-31T1:00:00Z"}`, `{}{}`, `[{}]`, `"x"`, "{\"name\":\"a", `{"ſcope":1}`, "\xef\xbb\xbf{}",
		`{"scope":"` + strings.Repeat("s", 513) + `"}`, `{"data":` + nested(maxDepth) + `}`, `{"data":` + nested(maxDepth-1) + `}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(agree)
}

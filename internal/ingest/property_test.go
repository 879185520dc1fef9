package ingest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"attend/internal/engine"
)

// The decoder and the oracles agree on lines put together from the words of
// JSON, of which far more are JSON than of random bytes.
func TestDecode_AgreesWithTheOracles(t *testing.T) {
	words := []string{
		`{`, `}`, `[`, `]`, `:`, `,`, ` `, "\t", "\r", `"scope":`, `"name":`, `"id":`, `"at":`, `"data":`, `"text":`, `"ID":`, `"\u0069d":`, `"x":`,
		`"a"`, `""`, `"é"`, `"\ud83d\ude00"`, `"\ud800"`, "\"\xff\"", "\"\x00\"", `"2026-01-31T12:00:00Z"`, `"\"`, `0`, `-0`, `12`, `1.5`, `1e400`, `01`, `null`, `true`, `false`, `nul`,
	}
	value := rapid.SampledFrom([]string{
		`"a"`, `""`, `"é\n"`, `"\ud83d\ude00"`, `"\udc00"`, "\"\xff\"", `"2026-01-31T12:00:00Z"`, `"2026-02-31T12:00:00Z"`, `0`, `1793610017470`, `-1.5`, `null`, `true`,
		`{}`, `{"a":1,"a":[2]}`, `[]`, `[[1,{"b":""}]]`, `[1,]`,
	})
	name := rapid.SampledFrom([]string{`"scope"`, `"name"`, `"id"`, `"at"`, `"data"`, `"text"`, `"Id"`, `"x"`, `"\u0069d"`, `""`})
	object := rapid.Custom(func(t *rapid.T) string {
		var b strings.Builder
		for i := range rapid.IntRange(0, 6).Draw(t, "fields") {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(name.Draw(t, "name") + ":" + value.Draw(t, "value"))
		}
		return "{" + b.String() + "}"
	})
	soup := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 0, 20).Draw(t, "words"), "")
	})
	rapid.Check(t, func(rt *rapid.T) {
		agree(t, []byte(rapid.OneOf(object, soup).Draw(rt, "line")))
	})
}

// sample is a line of a random body and what must become of it.
type sample struct {
	text  string
	scope string // of a good line
	id    string // "" for a line that is refused
	code  Code
}

func drawSample(t *rapid.T) sample {
	switch rapid.IntRange(0, 9).Draw(t, "sort") {
	case 0:
		return sample{text: `{"scope":"s"}`, code: CodeMissingField}
	case 1:
		return sample{text: `{"scope":"s","name":"n","id":""}`, code: CodeEmptyField}
	case 2:
		return sample{text: `{"scope":"s","name":"n","text":"` + strings.Repeat("x", 3000) + `"}`, code: CodeTooLarge}
	case 3:
		return sample{text: `{"scope":"full","name":"n"}`, code: CodeWindowFull}
	case 4:
		return sample{text: "{\"scope\":\"s\",\"name\":\"\xff\"}", code: CodeInvalidUTF8}
	default:
		scope := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "scope")
		id := fmt.Sprint(rapid.IntRange(0, 30).Draw(t, "id"))
		text := strings.Repeat(rapid.SampledFrom([]string{"x", "é", `\n`, `\"}`, "]"}).Draw(t, "text"), rapid.IntRange(0, 300).Draw(t, "length"))
		return sample{text: fmt.Sprintf(`{"scope":%q,"name":"n","id":%q,"text":"%s"}`, scope, id, text), scope: scope, id: id}
	}
}

// drawBody writes samples as one of the sorts of body. It returns the number
// of each sample's line.
func drawBody(t *rapid.T, samples []sample, asArray bool) (body string, numbers []int) {
	var b strings.Builder
	if rapid.Bool().Draw(t, "byte order mark") {
		b.WriteString(byteOrderMark)
	}
	blank := rapid.SampledFrom([]string{"", " ", "\t ", "\r"})
	if asArray {
		b.WriteString("[")
		for i := range samples {
			if i > 0 {
				b.WriteString(",")
			}
			b.WriteString(blank.Draw(t, "space") + samples[i].text + blank.Draw(t, "space"))
			numbers = append(numbers, i+1)
		}
		return b.String() + "]\n", numbers
	}
	number := 1
	for i := range samples {
		for rapid.IntRange(0, 5).Draw(t, "blank line") == 0 {
			b.WriteString(blank.Draw(t, "space") + "\n")
			number++
		}
		b.WriteString(samples[i].text)
		numbers = append(numbers, number)
		if i < len(samples)-1 || rapid.Bool().Draw(t, "last newline") {
			b.WriteString(rapid.SampledFrom([]string{"\n", "\r\n", " \n"}).Draw(t, "newline"))
			number++
		}
	}
	return b.String(), numbers
}

// chunks gives a body in pieces of random sizes.
type chunks struct {
	t    *rapid.T
	rest io.Reader
	size *rapid.Generator[int]
}

func (c *chunks) Read(p []byte) (int, error) {
	return c.rest.Read(p[:min(len(p), c.size.Draw(c.t, "chunk"))])
}

// A random body, cut into random pieces and groups, has the result that its
// lines have one by one.
func TestServe_HowABodyComesChangesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		samples := rapid.SliceOfN(rapid.Custom(drawSample), 0, 40).Draw(rt, "samples")
		asArray := rapid.Bool().Draw(rt, "array")
		body, numbers := drawBody(rt, samples, asArray)
		zip := rapid.Bool().Draw(rt, "gzip")
		if zip {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, _ = io.WriteString(z, body)
			_ = z.Close()
			body = b.String()
		}
		w := newWorld(t, func(w *world, o *Options) {
			o.Limits.GroupLines = rapid.SampledFrom([]int{1, 2, 7, 2000}).Draw(rt, "group lines")
			o.Limits.GroupBytes = rapid.SampledFrom([]int{1, 500, 256 << 10}).Draw(rt, "group bytes")
			w.owner.blind = rapid.Bool().Draw(rt, "blind")
			w.owner.policy = testPolicy(t, func(p *engine.Policy) { p.Default.MaxEventBytes = 3000 })
			w.owner.refuse = func(scope string, _ engine.Kind) string {
				return map[string]string{"full": "windowFull"}[scope]
			}
		})
		got := w.post(t, &chunks{rt, strings.NewReader(body), rapid.IntRange(1, 2000)}, func(r *http.Request) {
			if asArray {
				asJSON(r)
			}
			if zip {
				asGzip(r)
			}
		})

		want := wire{}
		var wantLog []string
		seen := map[string]bool{}
		for i, s := range samples {
			key := s.scope + " " + s.id
			switch {
			case s.id == "":
				want.Rejected++
				want.Errors = append(want.Errors, LineError{Line: numbers[i], Code: s.code})
			case seen[key]:
				want.Duplicates++
			default:
				want.Accepted++
				wantLog = append(wantLog, key)
			}
			seen[key] = true
		}
		if got.Body.Accepted != want.Accepted || got.Body.Duplicates != want.Duplicates || got.Body.Rejected != want.Rejected || codes(got.Body.Errors) != codes(want.Errors) {
			rt.Fatalf("got  %s; %s\nwant %+v; %s", got.counts(), codes(got.Body.Errors), want, codes(want.Errors))
		}
		// Without what the fold would not apply, the log is the first copies in order.
		var log []string
		have := map[string]bool{}
		for _, e := range w.log.all() {
			if key := e.Scope + " " + e.ID; !have[key] {
				have[key] = true
				log = append(log, key)
			}
		}
		if strings.Join(log, ",") != strings.Join(wantLog, ",") {
			rt.Fatalf("the log is %q, want %q", log, wantLog)
		}
	})
}

// FuzzBody: whatever is sent, in whatever pieces, every line that is not blank
// is counted once, what is kept is what the oracle keeps, and nothing depends
// on the pieces.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		line("1") + "\n" + line("2") + "\r\n\n" + line("1"), line("1") + line("2"), "[" + line("1") + "," + line("2") + "]", "\xef\xbb\xbf" + line("1"),
		`[{"scope":"s","name":"n","id":"]}\\\"","data":["}",{"k":"\\"}]}]`, "[", "[1,", "\x1f\x8b\x08", "{\n}\n", strings.Repeat("x", 300) + "\n" + line("2"),
	} {
		for form := range byte(4) {
			f.Add([]byte(seed), form, byte(3))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, form, piece byte) {
		if form&2 != 0 && !bytes.HasPrefix(body, []byte("\x1f\x8b")) { // else it would be noise
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, _ = z.Write(body)
			_ = z.Close()
			body = b.Bytes()
		}
		const maxEvent = 200
		send := func(r io.Reader) (reply, *world) {
			w := newWorld(t, func(w *world, o *Options) {
				o.Limits.GroupLines = 3
				w.owner.policy = testPolicy(t, func(p *engine.Policy) { p.Default.MaxEventBytes = maxEvent })
			})
			return w.post(t, r, func(r *http.Request) {
				if form&1 != 0 {
					asJSON(r)
				}
				if form&2 != 0 {
					asGzip(r)
				}
			}), w
		}
		got, w := send(bytes.NewReader(body))
		again, _ := send(&fixedChunks{bytes.NewReader(body), 1 + int(piece)})
		if got.counts() != again.counts() || codes(got.Body.Errors) != codes(again.Body.Errors) {
			t.Fatalf("whole: %s; %s\nin pieces: %s; %s", got.counts(), codes(got.Body.Errors), again.counts(), codes(again.Body.Errors))
		}
		for _, e := range w.log.all() {
			if e.Scope == "" || e.Name == "" || e.ID == "" {
				t.Fatalf("committed %+v", e)
			}
		}
		if form&3 == 0 {
			linesAgree(t, body, maxEvent, &got)
		}
	})
}

type fixedChunks struct {
	rest io.Reader
	size int
}

func (c *fixedChunks) Read(p []byte) (int, error) { return c.rest.Read(p[:min(len(p), c.size)]) }

// linesAgree counts the lines of a plain body with the oracle.
func linesAgree(t *testing.T, body []byte, maxEvent int, got *reply) {
	t.Helper()
	lines, good := 0, 0
	for i, l := range bytes.Split(body, []byte("\n")) {
		l = bytes.TrimSuffix(l, []byte("\r"))
		if i == 0 {
			l = bytes.TrimPrefix(l, []byte(byteOrderMark))
		}
		tooLong := len(l) > maxEvent
		if len(bytes.Trim(l, " \t\r")) == 0 && !tooLong {
			continue
		}
		lines++
		if tells, err := oracle(l); err == nil && !tooLong && tells.Scope != "" && tells.Name != "" {
			good++
		}
	}
	if sum := got.Body.Accepted + got.Body.Duplicates + got.Body.Rejected; sum != lines || got.Body.Accepted+got.Body.Duplicates != good {
		t.Fatalf("%s, of %d lines with %d good ones", got.counts(), lines, good)
	}
}

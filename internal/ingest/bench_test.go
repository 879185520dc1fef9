package ingest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// benchLines are lines like those of a repository's events: about 300 bytes,
// one in eight with escapes, some beyond ASCII.
func benchLines() [][]byte {
	lines := make([][]byte, 1024)
	for i := range lines {
		text := `Octocoders-linter finished on the branch of user-` + fmt.Sprint(i%40)
		switch {
		case i%8 == 0:
			text = `it said \"no\", and then:\n` + text
		case i%8 == 1:
			text = `prüfe 日本語: ` + text
		}
		lines[i] = fmt.Appendf(nil, `{"scope":"repo:acme/service-%05d","id":"gh-%012d","at":%d,"name":"check_run.completed","data":{"by":"user-%02d","conclusion":"failure","status":"completed","attempt":%d,"labels":["ci","linux"]},"text":"%s"}`,
			i*17%20000, i, 1793610017470+i, i%40, i%5, text)
	}
	return lines
}

// BenchmarkLine compares the decoder with encoding/json, which it must leave
// behind by a factor of 2.5 at the least, and with the library that is its
// oracle and was the other choice. The factors are reported by the
// sub-benchmark named ratio: all take turns there, so that a busy machine slows
// all of them.
func BenchmarkLine(b *testing.B) {
	lines := benchLines()
	var size int64
	for _, l := range lines {
		size += int64(len(l))
	}
	var d decoder
	own := func(l []byte) {
		if f := d.decode(l); f != nil {
			b.Fatal(f)
		}
	}
	type event struct {
		Scope string          `json:"scope"`
		Name  string          `json:"name"`
		ID    string          `json:"id"`
		At    json.RawMessage `json:"at"`
		Data  json.RawMessage `json:"data"`
		Text  string          `json:"text"`
	}
	std := func(l []byte) {
		var into event
		if err := json.Unmarshal(l, &into); err != nil {
			b.Fatal(err)
		}
	}
	library := func(l []byte) {
		var into event
		if err := jsonv2.Unmarshal(l, &into, jsontext.AllowDuplicateNames(true)); err != nil {
			b.Fatal(err)
		}
	}
	all := []struct {
		name   string
		decode func([]byte)
	}{{"own", own}, {"go-json-experiment", library}, {"encoding-json", std}}
	for _, one := range all {
		b.Run(one.name, func(b *testing.B) {
			b.SetBytes(size / int64(len(lines)))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				one.decode(lines[i%len(lines)])
			}
		})
	}
	b.Run("ratio", func(b *testing.B) {
		took := make([]time.Duration, len(all))
		for b.Loop() {
			for k := range all {
				start := time.Now()
				for _, l := range lines {
					all[k].decode(l)
				}
				took[k] += time.Since(start)
			}
		}
		b.ReportMetric(float64(took[1])/float64(took[0]), "x-go-json-experiment")
		b.ReportMetric(float64(took[2])/float64(took[0]), "x-encoding/json")
	})
}

// BenchmarkServe takes whole bodies in, over a log that forgets them: what is
// left is the cost of ingest itself.
func BenchmarkServe(b *testing.B) {
	lines := benchLines()
	for _, n := range []int{1, 100, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var body bytes.Buffer
			for i := range n {
				body.Write(lines[i%len(lines)])
				body.WriteByte('\n')
			}
			w := newWorld(b, func(w *world, o *Options) {
				o.Log, o.Owner = new(countingLog), &forgetful{w.owner.policy}
			})
			b.SetBytes(int64(body.Len()))
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest(http.MethodPost, "/v1/ingest", io.Reader(bytes.NewReader(body.Bytes())))
				r.Header.Set("Content-Type", typeLines)
				rec := httptest.NewRecorder()
				w.ServeHTTP(rec, r)
				if rec.Code != http.StatusOK {
					b.Fatal(rec.Body)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

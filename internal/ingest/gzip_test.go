package ingest

import (
	"bytes"
	"compress/gzip" // the standard library's writer against the other reader
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

func zipped(t testing.TB, s string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	write(t, z, s)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func asGzip(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }

func TestGzip_Bodies(t *testing.T) {
	one, two := line("1")+"\n", line("2")+"\n"
	damaged := []byte(zipped(t, one+two))
	damaged[len(damaged)-8] ^= 1 // the check sum
	for _, c := range []struct{ name, body, want string }{
		{"lines", zipped(t, one+two), "200: 2 accepted, 0 duplicates, 0 rejected; ; ; log: 1 2"},
		{"no newline at the end", zipped(t, one+line("2")), "200: 2 accepted, 0 duplicates, 0 rejected; ; ; log: 1 2"},
		{"nothing", "", "200: 0 accepted, 0 duplicates, 0 rejected; ; ; log: "},
		{"nothing, zipped", zipped(t, ""), "200: 0 accepted, 0 duplicates, 0 rejected; ; ; log: "},
		{"two members", zipped(t, one) + zipped(t, two), "200: 2 accepted, 0 duplicates, 0 rejected; ; ; log: 1 2"},
		{"members that part a line", zipped(t, one+two[:9]) + zipped(t, two[9:]), "200: 2 accepted, 0 duplicates, 0 rejected; ; ; log: 1 2"},
		{"garbage behind", zipped(t, one+two) + "garbage", "400: 2 accepted, 0 duplicates, 0 rejected; badEncoding; ; log: 1 2"},
		{"garbage behind a line without newline", zipped(t, one+line("2")) + "garbage....", "400: 1 accepted, 0 duplicates, 1 rejected; badEncoding; 2:badEncoding; log: 1"},
		{"garbage", "this is no gzip at all", "400: 0 accepted, 0 duplicates, 0 rejected; badEncoding; ; log: "},
		{"less than a header", "\x1f\x8b", "400: 0 accepted, 0 duplicates, 0 rejected; badEncoding; ; log: "},
		{"the check sum is wrong", string(damaged), "400: 2 accepted, 0 duplicates, 0 rejected; badEncoding; ; log: 1 2"},
		{"the check sum is missing", zipped(t, one+two)[:len(zipped(t, one+two))-8], "400: 2 accepted, 0 duplicates, 0 rejected; badEncoding; ; log: 1 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, cut := range map[string]func(r *http.Request){
				"whole":        func(*http.Request) {},
				"byte by byte": func(r *http.Request) { r.Body = readCloser{iotest.OneByteReader(r.Body)} },
			} {
				w := newWorld(t)
				got := w.send(t, c.body, asGzip, cut)
				if have := outcomeOf(&got, w); have != c.want {
					t.Errorf("%s:\ngot  %s\nwant %s", name, have, c.want)
				}
			}
		})
	}
}

// A gzip body cut at every byte keeps a prefix of its lines, and what it keeps
// never shrinks with what was sent.
func TestGzip_CutAtEveryByte(t *testing.T) {
	body := zipped(t, line("1")+"\n"+line("2")+"\n"+line("3")+"\n")
	last := 0
	for n := range body {
		w := newWorld(t)
		got := w.send(t, body[:n], asGzip)
		kept := got.Body.Accepted
		wantStatus := 400
		if n == 0 {
			wantStatus = 200
		}
		if got.Status != wantStatus || kept < last || len(w.log.all()) != kept || got.Body.Rejected > 1 {
			t.Fatalf("cut at byte %d: %s, with %d kept before", n, outcomeOf(&got, w), last)
		}
		last = kept
	}
	if last != 3 {
		t.Errorf("cut before the check sum: %d kept, want 3", last)
	}
}

func TestGzip_JSON(t *testing.T) {
	w := newWorld(t)
	got := w.send(t, zipped(t, "["+line("1")+","+line("2")+"]"), asGzip, asJSON)
	if have := outcomeOf(&got, w); have != "200: 2 accepted, 0 duplicates, 0 rejected; ; ; log: 1 2" {
		t.Error(have)
	}
}

// What a sender flushed is seen though the member goes on.
func TestGzip_AFlushedStreamIsSeenAsItComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, impatient)
		out, done := w.piped(t, asGzip)
		z := gzip.NewWriter(out)
		for i := range 3 {
			write(t, z, line(fmt.Sprint(i))+"\n")
			if err := z.Flush(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Millisecond)
			synctest.Wait()
			if got := len(w.log.all()); got != i+1 {
				t.Fatalf("%d events after line %d", got, i+1)
			}
		}
		if err := errors.Join(z.Close(), out.Close()); err != nil {
			t.Fatal(err)
		}
		if rec := done(); rec.Code != 200 {
			t.Errorf("%d: %s", rec.Code, rec.Body)
		}
	})
}

func TestGzip_ABombIsDefusedEarly(t *testing.T) {
	bomb := zipped(t, line("1")+"\n"+strings.Repeat("\n", 32<<20))
	w := newWorld(t)
	got := w.send(t, bomb, asGzip)
	if have := outcomeOf(&got, w); have != "413: 1 accepted, 0 duplicates, 0 rejected; expandedTooLarge; ; log: 1" {
		t.Error(have)
	}
	limits := Limits{}.withDefaults()
	n, err := io.Copy(io.Discard, newExpander(strings.NewReader(bomb), codingGzip, &limits))
	if !errors.Is(err, errRatio) || n > 8<<20 {
		t.Errorf("expanded %d bytes: %v", n, err)
	}
}

func TestGzip_TheExpandedSizeIsCapped(t *testing.T) {
	w := newWorld(t, func(_ *world, o *Options) { o.Limits.MaxExpandedBytes = 100 })
	got := w.send(t, zipped(t, line("1")+"\n"+line("2")+"\n"), asGzip)
	if got.counts() != "200: 2 accepted, 0 duplicates, 0 rejected" {
		t.Error(got)
	}
	var b strings.Builder
	for i := range 100_000 {
		fmt.Fprintln(&b, line(fmt.Sprint(i)))
	}
	got = w.send(t, zipped(t, b.String()), asGzip)
	if got.Status != 413 || got.Body.Code != "expandedTooLarge" || !strings.Contains(got.Body.Detail, "more than 100 bytes") {
		t.Errorf("%+v", got)
	}
}

// Lines that repeat compress well and are no bomb.
func TestGzip_RepeatedLinesAreNoBomb(t *testing.T) {
	body := zipped(t, strings.Repeat(line("1")+"\n", 25_000))
	if ratio := 25_000 * len(line("1")+"\n") / len(body); ratio < 200 {
		t.Fatalf("compressed %d times: not much of a test", ratio)
	}
	w := newWorld(t)
	if got := w.send(t, body, asGzip); got.counts() != "200: 1 accepted, 24999 duplicates, 0 rejected" {
		t.Error(got)
	}
}

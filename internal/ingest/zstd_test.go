package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/zstd"
)

// framed is one zstd frame.
func framed(t testing.TB, s string, options ...zstd.EOption) string {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b, append([]zstd.EOption{zstd.WithEncoderConcurrency(1)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	write(t, z, s)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func asZstd(r *http.Request) { r.Header.Set("Content-Encoding", "zstd") }

func TestZstd_Bodies(t *testing.T) {
	one, two := line("1")+"\n", line("2")+"\n"
	whole := framed(t, one+two)
	damaged := []byte(whole)
	damaged[len(damaged)-1] ^= 1 // the check sum
	const skippable = "\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
	for _, c := range []struct{ name, body, want string }{
		{"lines", whole, "200: 2 accepted, 0 duplicates, 0 rejected; ; ; log: 1 2"},
		{"no newline at the end", framed(t, one+line("2")), "200: 2 accepted, 0 duplicates, 0 rejected; ; ; log: 1 2"},
		{"nothing", "", "200: 0 accepted, 0 duplicates, 0 rejected; ; ; log: "},
		{"nothing, in a frame", framed(t, "", zstd.WithZeroFrames(true)), "200: 0 accepted, 0 duplicates, 0 rejected; ; ; log: "},
		{"two frames", framed(t, one) + framed(t, two), "200: 2 accepted, 0 duplicates, 0 rejected; ; ; log: 1 2"},
		{"frames that part a line", framed(t, one+two[:9]) + framed(t, two[9:]), "200: 2 accepted, 0 duplicates, 0 rejected; ; ; log: 1 2"},
		{"a frame to be skipped", framed(t, one) + skippable + framed(t, two), "200: 2 accepted, 0 duplicates, 0 rejected; ; ; log: 1 2"},
		{"garbage behind", whole + "garbage", "400: 2 accepted, 0 duplicates, 0 rejected; badEncoding; ; log: 1 2"},
		{"garbage", "this is no zstd at all", "400: 0 accepted, 0 duplicates, 0 rejected; badEncoding; ; log: "},
		{"less than a header", whole[:3], "400: 0 accepted, 0 duplicates, 0 rejected; badEncoding; ; log: "},
		{"the second frame is cut", framed(t, one) + framed(t, two)[:9], "400: 1 accepted, 0 duplicates, 0 rejected; badEncoding; ; log: 1"},
		{"the check sum is missing", whole[:len(whole)-4], "400: 0 accepted, 0 duplicates, 0 rejected; badEncoding; ; log: "},
		{"the check sum is wrong", string(damaged), "400: 0 accepted, 0 duplicates, 0 rejected; badEncoding; ; log: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, cut := range map[string]func(r *http.Request){
				"whole":        func(*http.Request) {},
				"byte by byte": func(r *http.Request) { r.Body = readCloser{iotest.OneByteReader(r.Body)} },
			} {
				w := newWorld(t)
				got := w.send(t, c.body, asZstd, cut)
				if have := outcomeOf(&got, w); have != c.want {
					t.Errorf("%s:\ngot  %s\nwant %s", name, have, c.want)
				}
			}
		})
	}
}

// A body cut at any byte keeps a prefix of its lines, and says that it was cut.
// The last block of a frame counts when its check sum has come.
func TestZstd_CutAtEveryByte(t *testing.T) {
	body := framed(t, line("1")+"\n") + framed(t, line("2")+"\n") + framed(t, line("3")+"\n")
	last := 0
	for n := range body {
		w := newWorld(t)
		got := w.send(t, body[:n], asZstd)
		kept := got.Body.Accepted
		between := n == 0 || n == len(body)/3 || n == 2*len(body)/3 // where a frame ends, the body is whole
		if (got.Status == 200) != between || got.Status != 200 && got.Status != 400 || kept < last || len(w.log.all()) != kept || got.Body.Rejected > 1 {
			t.Fatalf("cut at byte %d: %s, with %d kept before", n, outcomeOf(&got, w), last)
		}
		last = kept
	}
	if last != 2 {
		t.Errorf("cut in the last check sum: %d kept, want 2", last)
	}
}

// What a sender flushed is seen though the frame goes on.
func TestZstd_AFlushedStreamIsSeenAsItComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, impatient)
		out, done := w.piped(t, asZstd)
		z, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
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

// A bomb is expanded no further than the caps, in one frame or in many, and
// though no byte of it says how large it gets.
func TestZstd_ABombIsDefusedEarly(t *testing.T) {
	limits := Limits{}.withDefaults()
	for name, bomb := range map[string]string{
		"one frame":   framed(t, line("1")+"\n"+strings.Repeat("\n", 64<<20)),
		"many frames": framed(t, line("1")+"\n") + strings.Repeat(framed(t, strings.Repeat("\n", 1<<20)), 64),
	} {
		w := newWorld(t)
		got := w.send(t, bomb, asZstd)
		if have := outcomeOf(&got, w); have != "413: 1 accepted, 0 duplicates, 0 rejected; expandedTooLarge; ; log: 1" {
			t.Errorf("%s: %s", name, have)
		}
		n, err := io.Copy(io.Discard, newExpander(strings.NewReader(bomb), codingZstd, &limits))
		if !errors.Is(err, errRatio) || n > 8<<20 {
			t.Errorf("%s: expanded %d bytes: %v", name, n, err)
		}
	}
}

func TestZstd_TheExpandedSizeIsCapped(t *testing.T) {
	w := newWorld(t, func(_ *world, o *Options) { o.Limits.MaxExpandedBytes = 100 })
	var b strings.Builder
	for i := range 10_000 {
		fmt.Fprintln(&b, line(fmt.Sprint(i)))
	}
	got := w.send(t, framed(t, b.String()), asZstd)
	if got.Status != 413 || got.Body.Code != "expandedTooLarge" || !strings.Contains(got.Body.Detail, "more than 100 bytes") {
		t.Errorf("%+v", got)
	}
}

// What a frame may refer back to is memory: 8 MiB are taken, more are not.
func TestZstd_TheWindowIsCapped(t *testing.T) {
	var body strings.Builder // not so small that its size would stand in place of the window
	for i := range 30_000 {
		fmt.Fprintln(&body, line(fmt.Sprint(i%7, i)))
	}
	for _, c := range []struct {
		window int
		want   int
	}{{8 << 20, 200}, {16 << 20, 413}, {128 << 20, 413}} {
		w := newWorld(t)
		got := w.send(t, streamFrame(t, body.String(), c.window), asZstd)
		if got.Status != c.want || c.want == 413 && (got.Body.Accepted != 0 || !strings.Contains(got.Body.Detail, "--long")) {
			t.Errorf("a window of %d: %d, want %d: %s", c.window, got.Status, c.want, got.Body.Detail)
		}
	}
}

// streamFrame is a frame as a stream makes it, with a window of the size given.
func streamFrame(t testing.TB, s string, window int) string {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b, zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	for part := s; part != ""; {
		n := min(len(part), 64<<10)
		write(t, z, part[:n])
		part = part[n:]
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

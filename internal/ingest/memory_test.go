package ingest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"attend/internal/engine"
	"attend/internal/store"
)

// countingLog forgets what it was given.
type countingLog struct {
	store.Log
	events int
}

func (l *countingLog) Append(_ context.Context, entries ...store.Entry) ([]store.Receipt, error) {
	first := l.events + 1
	l.events += len(entries[0].Events)
	return []store.Receipt{{First: engine.Position(first), Last: engine.Position(l.events)}}, nil
}

// forgetful is an owner without a memory.
type forgetful struct{ policy *engine.Policy }

func (o *forgetful) Policy() *engine.Policy             { return o.policy }
func (*forgetful) Remembers(string, engine.Digest) bool { return false }
func (*forgetful) Refuses(string, engine.Kind) string   { return "" }
func (*forgetful) Duplicates(context.Context, engine.Position, engine.Position) (int, error) {
	return 0, nil
}

// generated is a body that is made as it is read. It notes the heap that is in
// use when a tenth of it was read, and the most that is in use later.
type generated struct {
	head, tail string
	part       func(i int) string
	size       int

	rest            string
	i, read, sample int
	early, most     uint64
}

func (g *generated) Read(p []byte) (int, error) {
	if g.rest == "" {
		switch {
		case g.read >= g.size && g.tail == "":
			return 0, io.EOF
		case g.read >= g.size:
			g.rest, g.tail = g.tail, ""
		case g.i == 0 && g.head != "":
			g.rest, g.head = g.head, ""
		default:
			g.rest = g.part(g.i)
			g.i++
		}
	}
	n := copy(p, g.rest)
	g.rest = g.rest[n:]
	g.read += n
	if g.read >= (g.sample+1)*g.size/10 {
		g.sample++
		g.measure()
	}
	return n, nil
}

func (g *generated) measure() {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	if g.early == 0 {
		g.early = m.HeapAlloc
	}
	g.most = max(g.most, m.HeapAlloc)
}

// However large a body is, one group and one line of it are held.
func TestServe_MemoryIsFlat(t *testing.T) {
	event := func(i int) string {
		return fmt.Sprintf(`{"scope":"s%d","name":"n","id":"%d","data":{"x":"%s"}}`, i%1000, i, strings.Repeat("x", 200))
	}
	junk := strings.Repeat("x", 1<<16)
	for _, c := range []struct {
		name string
		body *generated
		json bool
		want func(events int) string
	}{
		{
			"lines", &generated{part: func(i int) string { return event(i) + "\n" }}, false,
			func(n int) string { return fmt.Sprintf("200: %d accepted, 0 duplicates, 0 rejected", n) },
		},
		{
			"bad lines", &generated{part: func(int) string { return "{}" + strings.Repeat(" ", 4000) + "\n\n" }}, false,
			func(n int) string { return fmt.Sprintf("422: 0 accepted, 0 duplicates, %d rejected", n) },
		},
		{
			"one line", &generated{head: `{"text":"`, part: func(int) string { return junk }}, false,
			func(int) string { return "422: 0 accepted, 0 duplicates, 1 rejected" },
		},
		{
			"an array", &generated{head: "[" + event(0), part: func(i int) string { return "," + event(i+1) }, tail: "]"}, true,
			func(n int) string { return fmt.Sprintf("200: %d accepted, 0 duplicates, 0 rejected", n+1) },
		},
		{
			"an array of one element", &generated{head: `[{"text":"`, part: func(int) string { return junk }, tail: `"}]`}, true,
			func(int) string { return "422: 0 accepted, 0 duplicates, 1 rejected" },
		},
		{
			"one object", &generated{head: `{"text":"`, part: func(int) string { return junk }, tail: `"}`}, true,
			func(int) string { return "422: 0 accepted, 0 duplicates, 1 rejected" },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, func(w *world, o *Options) {
				o.Log, o.Owner = new(countingLog), &forgetful{w.owner.policy}
			})
			c.body.size = 10 << 20
			if c.name == "lines" {
				c.body.size = 50 << 20
			}
			got := w.post(t, c.body, func(r *http.Request) {
				if c.json {
					asJSON(r)
				}
			})
			if want := c.want(c.body.i); got.counts() != want {
				t.Errorf("got %s, want %s", got.counts(), want)
			}
			if c.body.sample < 9 {
				t.Fatalf("measured %d times", c.body.sample)
			}
			if grown := int64(c.body.most) - int64(c.body.early); grown > 2<<20 {
				t.Errorf("the heap grew by %d bytes while the body was read", grown)
			}
		})
	}
}

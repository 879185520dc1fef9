package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
	"attend/internal/feed"
	"attend/internal/store"
	"attend/internal/store/memory"
)

// open returns the gauge of open streams.
func (w *world) open() int {
	w.t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "attend_event_streams" {
			return int(f.GetMetric()[0].GetGauge().GetValue())
		}
	}
	w.t.Fatal("no metric attend_event_streams")
	return 0
}

func TestStream_TellsWhatIsDecidedFromNowOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.whole("chat:1", "old", engine.Queue)
		s := w.stream("")
		synctest.Wait()
		if got := s.sent(); len(got) != 1 || got[0].event != "" || got[0].id == "" {
			t.Errorf("at first %+v, want the place alone", got)
		}
		w.whole("chat:1", "w1", engine.Interrupt)
		w.letter("chat:2", "w2", nil, 1)
		w.whole("chat:1", "w3", engine.Skip)
		synctest.Wait()
		if got := s.told(); got != "decision w1, decision w3" {
			t.Errorf("told %q, want every decision, and no dead letter", got)
		}
		if s.status != http.StatusOK || s.header.Get("Content-Type") != "text/event-stream" ||
			s.header.Get("Cache-Control") != "no-store" || s.header.Get("X-Accel-Buffering") != "no" {
			t.Errorf("status %d, header %v", s.status, s.header)
		}
		if n := w.open(); n != 1 {
			t.Errorf("%d streams are open, want 1", n)
		}
		s.close()
		if n := w.open(); n != 0 {
			t.Errorf("%d streams are open when it is closed", n)
		}
		if log := w.log.String(); log != "" {
			t.Errorf("log: %s", log)
		}
	})
}

func TestStream_SelectsAsThePagesDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		streams := map[string]*reading{}
		queries := []string{
			"?scope=chat:*", "?scope=chat:1&scope=repo:*", "?route=note", "?route=queue,interrupt",
			"?kinds=deadLetter", "?kinds=decision,deadLetter", "?kinds=deadLetter&scope=repo:*",
		}
		for _, q := range queries {
			streams[q] = w.stream(q + "&after=start")
		}
		synctest.Wait()
		w.whole("chat:1", "w1", engine.Interrupt)
		w.whole("repo:1", "w2", engine.Queue)
		w.whole("chat:2", "w3", engine.Note)
		w.letter("chat:3", "w4", nil, 1)
		synctest.Wait()
		for _, q := range queries {
			var live []string
			for part := range strings.SplitSeq(streams[q].told(), ", ") {
				_, id, _ := strings.Cut(part, " ")
				live = append(live, id)
			}
			if got, want := strings.Join(live, " "), w.page(q).ids(); got != want {
				t.Errorf("%s: %q live, %q in the page", q, got, want)
			}
			// From the log, when all has happened, it is the same.
			late := w.stream(q + "&after=start")
			synctest.Wait()
			if diff := cmp.Diff(streams[q].told(), late.told()); diff != "" {
				t.Errorf("%s, late (-live +late):\n%s", q, diff)
			}
		}
	})
}

func TestStream_DataStandsBesideItsEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		live := w.stream("")
		synctest.Wait()
		const data = `{"n":12345678901234567890123,"tag":"<a>&","n":2}`
		w.settle("chat:1", "w1", "", w.event("chat:1", "e1", "one\r\ntwo", data))
		w.decide("chat:1", "w1", engine.Queue, "e1")
		late := w.stream("?after=start")
		synctest.Wait()
		page := w.get("/v1/decisions").body
		for name, s := range map[string]*reading{"live": live, "late": late} {
			d := s.sent()[1].data
			if !strings.Contains(d, data) || page != `{"decisions":[`+d+`],"cursor":"`+s.last()+"\"}\n" {
				t.Errorf("%s: %s\nand the page: %s", name, d, page)
			}
		}
	})
}

func TestStream_GoesOnWhereItWasCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.stream("?route=queue")
		synctest.Wait()
		first.close() // before anything was told
		w.whole("chat:1", "w1", engine.Queue)
		w.whole("chat:1", "w2", engine.Queue)

		second := w.stream("?route=queue", "Last-Event-ID", first.last())
		synctest.Wait()
		w.whole("chat:1", "w3", engine.Queue)
		synctest.Wait()
		second.close()
		if got := second.told(); got != "decision w1, decision w2, decision w3" {
			t.Errorf("the second told %q", got)
		}

		w.whole("chat:1", "w4", engine.Queue)
		// A browser asks for the address that it was given first.
		third := w.stream("?route=queue&after=start", "Last-Event-ID", second.last())
		fourth := w.stream("?route=queue&after="+second.sent()[1].id, "Last-Event-ID", "")
		synctest.Wait()
		if got := third.told(); got != "decision w4" {
			t.Errorf("the third told %q", got)
		}
		if got := fourth.told(); got != "decision w2, decision w3, decision w4" {
			t.Errorf("the fourth told %q, want what stands behind w1", got)
		}
	})
}

func TestStream_AStaleCursorIsTruncatedAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.whole("chat:1", "old", engine.Queue)
		s := w.stream("?after=" + feed.Cursor{Epoch: "another", Position: 1}.Encode())
		synctest.Wait()
		w.whole("chat:1", "w1", engine.Queue)
		synctest.Wait()
		if got := s.told(); got != "truncated, decision w1" {
			t.Errorf("told %q", got)
		}
		again := w.stream("", "Last-Event-ID", s.sent()[0].id)
		synctest.Wait()
		if got := again.told(); got != "decision w1" {
			t.Errorf("from the fresh cursor: %q", got)
		}
	})
}

// agedLog has lost its oldest records.
type agedLog struct {
	store.Log
	before engine.Position
}

func (l *agedLog) Kept(context.Context) (store.Kept, error) {
	return store.Kept{Events: l.before, Steps: l.before}, nil
}

func (l *agedLog) Read(ctx context.Context, after engine.Position, limit int) ([]engine.Record, error) {
	return l.Log.Read(ctx, max(after, l.before), limit)
}

func (l *agedLog) Steps(ctx context.Context, q store.StepQuery) ([]engine.Record, error) {
	q.After = max(q.After, l.before)
	return l.Log.Steps(ctx, q)
}

func TestStream_SaysWhatIsNoLongerKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(agedLog)
		w := newWorldOver(t, func(st *memory.Store) store.Log { log.Log = st; return log })
		w.whole("chat:1", "w1", engine.Queue)
		after := w.page("").Cursor
		w.whole("chat:1", "w2", engine.Queue)
		log.before = w.whole("chat:2", "w3", engine.Queue)
		w.whole("chat:1", "w4", engine.Queue)
		for query, want := range map[string]string{
			"?after=" + after:                     "truncated, decision w4",
			"?after=start":                        "decision w4", // it asked for what is kept
			"?scope=none:*&after=" + after:        "truncated",
			"?scope=none:*&after=start&route=":    "",
			"?after=" + w.page("?limit=1").Cursor: "", // at the end
		} {
			s := w.stream(query)
			synctest.Wait()
			if got := s.told(); got != want {
				t.Errorf("%s: %q, want %q", query, got, want)
			}
			if strings.HasPrefix(want, "truncated, ") {
				again := w.stream("?after=" + s.sent()[1].id)
				synctest.Wait()
				if got := again.told(); got != "decision w4" {
					t.Errorf("from the cursor of truncated: %q", got)
				}
			}
		}
	})
}

func TestStream_SaysWhatIsLostLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(agedLog)
		w := newWorldOver(t, func(st *memory.Store) store.Log { log.Log = st; return log })
		s := w.stream("?after=start")
		synctest.Wait()
		w.whole("chat:1", "w1", engine.Queue)
		synctest.Wait()
		head, err := w.store.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		log.before = head.Position + 3 // retention is faster than the stream
		w.whole("chat:1", "w2", engine.Queue)
		w.whole("chat:1", "w3", engine.Queue)
		synctest.Wait()
		if got := s.told(); got != "decision w1, truncated, decision w3" {
			t.Errorf("told %q", got)
		}
	})
}

func TestStream_IsKeptAliveAndMovesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.stream("?scope=chat:*")
		synctest.Wait()
		began := s.last()
		time.Sleep(59 * time.Second) //arch:sleep the bubble's clock
		synctest.Wait()
		if got := strings.Count(s.text(), ": keepalive\n\n"); got != 3 {
			t.Errorf("%d comments in 59 s, want one every 15 s: %q", got, s.text())
		}
		w.event("other", "e1", "", "")
		time.Sleep(time.Hour) //arch:sleep the bubble's clock
		synctest.Wait()
		if s.last() == began {
			t.Error("after an hour without a match a reader that comes back would begin at the start")
		}
		w.whole("chat:1", "w1", engine.Queue)
		synctest.Wait()
		if s.told() != "decision w1" {
			t.Errorf("after an hour: %q", s.told())
		}
		// The place of a keepalive misses nothing.
		s = w.stream("?after=" + s.last())
		w.event("other", "e2", "", "")
		time.Sleep(time.Minute) //arch:sleep the bubble's clock
		synctest.Wait()
		s.close()
		w.whole("chat:1", "w2", engine.Queue)
		again := w.stream("", "Last-Event-ID", s.last())
		synctest.Wait()
		if again.told() != "decision w2" {
			t.Errorf("after the place of a keepalive: %q", again.told())
		}
	})
}

func TestStream_EndsWithTheDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.stream("")
		synctest.Wait()
		w.whole("chat:1", "w1", engine.Queue)
		synctest.Wait()
		close(w.stopping)
		<-s.done
		if got := s.told(); got != "decision w1, end stopping" {
			t.Errorf("told %q", got)
		}
		late := w.stream("?after=start")
		<-late.done
		if got := late.told(); !strings.HasSuffix(got, "end stopping") {
			t.Errorf("one that comes late: %q", got)
		}
	})
}

// deafLog does not answer a wait once it is told to fail.
type deafLog struct {
	store.Log
	deaf atomic.Bool
}

func (l *deafLog) Head(ctx context.Context) (store.Head, error) {
	if l.deaf.Load() {
		return store.Head{}, store.ErrUnavailable
	}
	return l.Log.Head(ctx)
}

func TestStream_EndsWhenTheStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(deafLog)
		w := newWorldOver(t, func(st *memory.Store) store.Log { log.Log = st; return log })
		s := w.stream("")
		synctest.Wait()
		log.deaf.Store(true)
		w.event("chat:1", "e1", "", "") // the next look
		<-s.done
		if got := s.told(); got != "end unavailable" {
			t.Errorf("told %q", got)
		}
		w.get("/v1/decisions/stream").problem(http.StatusServiceUnavailable, "unavailable")
	})
}

func TestStream_Refuses(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ query, code, says string }{
		{"?limit=1", "invalidParameter", `unknown parameter "limit": this route takes scope, route, kinds, after`},
		{"?waitMs=1", "invalidParameter", `unknown parameter "waitMs"`},
		{"?route=wait", "invalidParameter", "a held window has no decision yet"},
		{"?after=abc", "invalidCursor", "after: cursor: malformed"},
		{"?after=Now", "invalidCursor", "after: cursor: malformed"},
	} {
		if detail := w.get("/v1/decisions/stream"+c.query).problem(http.StatusBadRequest, c.code); !strings.Contains(detail, c.says) {
			t.Errorf("%s: %q, want it to say %q", c.query, detail, c.says)
		}
	}
	s := w.stream("?after=now", "Last-Event-ID", "abc")
	<-s.done
	if s.status != http.StatusBadRequest || !strings.Contains(s.text(), "Last-Event-ID: cursor: malformed") {
		t.Errorf("status %d: %s", s.status, s.text())
	}
}

func TestStream_AThousandTakeOneDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(countedLog)
		w := newWorldOver(t, func(st *memory.Store) store.Log { log.Log = st; return log })
		streams := make([]*reading, maxStreams)
		for i := range streams {
			streams[i] = w.stream(fmt.Sprintf("?scope=chat:%d&scope=all:*", i))
		}
		synctest.Wait()
		if n := w.open(); n != maxStreams {
			t.Errorf("%d streams are open", n)
		}
		one := w.get("/v1/decisions/stream")
		one.problem(http.StatusTooManyRequests, "tooManyStreams")
		if one.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}

		before := log.asked.Load()
		w.whole("all:1", "w1", engine.Interrupt)
		w.whole("chat:7", "w2", engine.Interrupt)
		synctest.Wait()
		for i, s := range streams {
			want := "decision w1"
			if i == 7 {
				want += ", decision w2"
			}
			if got := s.told(); got != want {
				t.Fatalf("stream %d told %q, want %q", i, got, want)
			}
		}
		if asked := log.asked.Load() - before; asked > 100 {
			t.Errorf("the log was asked %d times for %d streams", asked, maxStreams)
		}
		streams[0].close()
		w.stream("") // there is a place again
		synctest.Wait()
		if n := w.open(); n != maxStreams {
			t.Errorf("%d streams are open", n)
		}
	})
}

// countedLog counts what is read.
type countedLog struct {
	store.Log
	asked atomic.Int64
}

func (l *countedLog) Steps(ctx context.Context, q store.StepQuery) ([]engine.Record, error) {
	l.asked.Add(1)
	return l.Log.Steps(ctx, q)
}

func (l *countedLog) Events(ctx context.Context, positions []engine.Position) ([]engine.Record, error) {
	l.asked.Add(1)
	return l.Log.Events(ctx, positions)
}

func TestStream_AReaderThatNeverReadsIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.connect("?after=start")
		synctest.Wait()
		if n := w.open(); n != 1 {
			t.Fatalf("%d streams are open", n)
		}
		other := w.stream("?after=start")
		began := time.Now()
		w.whole("chat:1", "w1", engine.Queue)
		synctest.Wait()
		if other.told() != "decision w1" {
			t.Errorf("it holds another one up, which told %q", other.told())
		}
		for w.open() > 1 {
			time.Sleep(time.Second) //arch:sleep the bubble's clock
			synctest.Wait()
		}
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("it was kept for %v", took)
		}
		if !strings.Contains(w.log.String(), "its reader does not read") {
			t.Errorf("nobody is told: %s", w.log.String())
		}
	})
}

func TestStream_ASlowReaderIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		conn := w.connect("?after=start")
		big := strings.Repeat("x", 200<<10)
		w.settle("chat:1", "w1", "", w.event("chat:1", "e1", "", `"`+big+`"`))
		w.decide("chat:1", "w1", engine.Queue, "e1")
		got := make(chan string)
		go func() {
			resp, err := http.ReadResponse(bufio.NewReader(&drip{conn}), nil)
			if err != nil {
				got <- err.Error()
				return
			}
			lines := bufio.NewReader(resp.Body)
			for {
				line, err := lines.ReadString('\n')
				if err != nil || strings.HasPrefix(line, "data:") {
					got <- line
					return
				}
			}
		}()
		began := time.Now()
		if line := <-got; !strings.Contains(line, big) {
			t.Errorf("it got %d bytes: %.200q", len(line), line)
		}
		if took := time.Since(began); took < 30*time.Second {
			t.Errorf("it took %v, which is not slow", took)
		}
	})
}

func TestStream_NoDeadlineOfTheServerEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		lines := bufio.NewScanner(w.connect(""))
		came := make(chan string, 1000)
		go func() {
			for lines.Scan() {
				if event, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
					came <- event
				}
			}
		}()
		time.Sleep(time.Hour) //arch:sleep the bubble's clock
		w.whole("chat:1", "w1", engine.Queue)
		if event := <-came; event != "decision" {
			t.Errorf("after an hour: %q", event)
		}
	})
}

// drip reads at most 4 KiB a second.
type drip struct{ from io.Reader }

func (d *drip) Read(p []byte) (int, error) {
	time.Sleep(time.Second) //arch:sleep the bubble's clock
	return d.from.Read(p[:min(len(p), 4<<10)])
}

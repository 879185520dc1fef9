package ingest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
	"attend/internal/store"
)

// piped sends what is written to the pipe, within a bubble.
func (w *world) piped(t testing.TB, changes ...func(r *http.Request)) (*io.PipeWriter, func() *httptest.ResponseRecorder) {
	t.Helper()
	in, out := io.Pipe()
	r := httptest.NewRequest(http.MethodPost, "/v1/ingest", in)
	r.Header.Set("Content-Type", typeLines)
	for _, change := range changes {
		change(r)
	}
	rec := httptest.NewRecorder()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.ServeHTTP(rec, r)
	}()
	return out, func() *httptest.ResponseRecorder {
		<-done
		return rec
	}
}

func write(t testing.TB, w io.Writer, s string) {
	t.Helper()
	if _, err := io.WriteString(w, s); err != nil {
		t.Fatal(err)
	}
}

func TestStream_AGroupWaitsTwentyMilliseconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, impatient)
		out, done := w.piped(t)
		at := func(wait time.Duration, want ...int) {
			t.Helper()
			time.Sleep(wait)
			synctest.Wait()
			if diff := cmp.Diff(want, append([]int{}, w.log.sizes()...)); diff != "" {
				t.Fatalf("groups (-want +got):\n%s", diff)
			}
		}
		write(t, out, line("1")+"\n"+line("2")+"\n")
		at(19*time.Millisecond, []int{}...)
		at(time.Millisecond, 2)

		// A group counts from its first line: a stream that never rests for 20 ms
		// is committed all the same.
		at(time.Hour, 2)
		for i := range 5 {
			write(t, out, line(fmt.Sprint("b", i))+"\n")
			at(6*time.Millisecond, [][]int{{2}, {2}, {2}, {2, 4}, {2, 4}}[i]...)
		}
		at(20*time.Millisecond, 2, 4, 1)

		// Half a line waits for its other half and keeps nothing waiting.
		write(t, out, line("3")+"\n"+`{"scope":"s",`)
		at(20*time.Millisecond, 2, 4, 1, 1)
		at(time.Hour, 2, 4, 1, 1)
		write(t, out, `"name":"n","id":"4"}`+"\n")
		at(20*time.Millisecond, 2, 4, 1, 1, 1)

		// The body's end waits for nothing.
		write(t, out, line("5"))
		out.Close()
		if rec := done(); rec.Code != 200 || !strings.Contains(rec.Body.String(), `"accepted":10,`) {
			t.Errorf("%d: %s", rec.Code, rec.Body)
		}
	})
}

func TestStream_RefusedLinesAloneAreAGroupTooAndAppendNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, impatient)
		out, done := w.piped(t, streaming)
		write(t, out, "{}\n")
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		out.Close()
		rec := done()
		errors := `"errors":[{"line":1,"code":"missingField","error":"field \"scope\" is missing: give it on the line, or give ?scope= for the whole body","retryable":false}]}` + "\n"
		want := `{"through":1,"rejected":1,` + errors +
			`{"type":"about:blank","title":"Unprocessable Entity","detail":"1 of 1 lines were rejected: mend them before sending them again","code":"linesRejected","status":422,"accepted":0,"duplicates":0,"rejected":1,` + errors
		if diff := cmp.Diff(want, rec.Body.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if w.log.calls != 0 {
			t.Errorf("%d appends", w.log.calls)
		}
	})
}

func streaming(r *http.Request) {
	r.Header.Set("Accept", "application/json;q=0.5, application/x-ndjson")
}

func TestStream_TheAnswerTellsOfEachGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, impatient, func(_ *world, o *Options) { o.Limits.GroupLines = 2 })
		out, done := w.piped(t, streaming)
		write(t, out, line("1")+"\n\n"+line("2")+"\n"+line("3")+"\n")
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		write(t, out, line("1"))
		out.Close()
		rec := done()
		want := `{"through":3}` + "\n" + `{"through":4}` + "\n" + `{"through":5}` + "\n" + `{"status":200,"accepted":3,"duplicates":1,"rejected":0,"errors":[]}` + "\n"
		if diff := cmp.Diff(want, rec.Body.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if rec.Code != 200 || rec.Header().Get("Content-Type") != typeLines {
			t.Errorf("%d, %q", rec.Code, rec.Header())
		}
	})
}

func TestStream_AcceptIsReadAsItIsMeant(t *testing.T) {
	for accept, want := range map[string]bool{
		"":                                    false,
		"*/*":                                 false,
		"application/json":                    false,
		"application/x-ndjson":                true,
		"text/html, application/X-NDJSON;q=1": true,
		"application/x-ndjson;q=0":            false,
		"application/x-ndjson;q=0.001":        true,
		",;":                                  false,
	} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set("Accept", accept)
		if got := wantsLines(r); got != want {
			t.Errorf("%q: %v", accept, got)
		}
	}
}

// A store that fails while the body waits ends the request, though the client
// says nothing more.
func TestStream_AStoreThatFailsWhileTheBodyWaits(t *testing.T) {
	w := newWorld(t, impatient, func(w *world, _ *Options) {
		w.log.before = func(call int, _ *store.Entry) error {
			if call > 1 {
				return store.ErrUnavailable
			}
			return nil
		}
	})
	conn := dial(t, w.serveTCP(t))
	write(t, conn, "POST /v1/ingest HTTP/1.1\r\nHost: attend\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n")
	write(t, conn, chunk(line("1")+"\n"))
	w.log.waitFor(t, 1)
	write(t, conn, chunk(line("2")+"\n"))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := readReply(t, res)
	if have := outcomeOf(&got, w); have != "503: 1 accepted, 0 duplicates, 1 rejected; storeUnavailable; 2:storeUnavailable; log: 1" {
		t.Error(have)
	}
}

// Bytes come one at a time over a real connection; each line is seen, and
// told of, while the next has not begun.
func TestStream_DribbledOverTCP(t *testing.T) {
	w := newWorld(t, impatient)
	conn := dial(t, w.serveTCP(t))
	if err := conn.SetNoDelay(true); err != nil {
		t.Fatal(err)
	}
	write(t, conn, "POST /v1/ingest HTTP/1.1\r\nHost: attend\r\nContent-Type: application/x-ndjson\r\nAccept: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n")
	in := bufio.NewReader(conn)
	var told *json.Decoder
	for i := 1; i <= 5; i++ {
		for _, b := range line(fmt.Sprint(i)) + "\n" {
			write(t, conn, chunk(string(b)))
		}
		w.log.waitFor(t, i)
		if told == nil {
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { res.Body.Close() })
			told = json.NewDecoder(res.Body)
		}
		var through struct{ Through int }
		if err := told.Decode(&through); err != nil || through.Through != i {
			t.Fatalf("after line %d: %+v, %v", i, through, err)
		}
	}
	write(t, conn, "0\r\n\r\n")
	var last wire
	if err := told.Decode(&last); err != nil || last.Status != 200 || last.Accepted != 5 {
		t.Errorf("%+v, %v", last, err)
	}
	if diff := cmp.Diff([]int{1, 1, 1, 1, 1}, w.log.sizes()); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

// A client that falls silent is dropped, and what it sent is kept.
func TestStream_ASilentClientIsDropped(t *testing.T) {
	for _, c := range []struct{ name, length string }{
		{"of a known length", "Content-Length: 1000\r\n\r\n" + line("1") + "\n{"},
		{"of no known length", "Transfer-Encoding: chunked\r\n\r\n" + chunk(line("1")+"\n{")},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, func(_ *world, o *Options) {
				o.Limits.IdleTimeout, o.Limits.StreamIdleTimeout = 250*time.Millisecond, 250*time.Millisecond
			})
			got := request(t, w.serveTCP(t), "POST /v1/ingest HTTP/1.1\r\nHost: attend\r\nContent-Type: application/x-ndjson\r\n"+c.length, false)
			if have := outcomeOf(&got, w); have != "408: 1 accepted, 0 duplicates, 1 rejected; idle; 2:bodyCut; log: 1" {
				t.Error(have)
			}
		})
	}
}

// timed is a recorder that also has the deadlines of a connection.
type timed struct {
	*httptest.ResponseRecorder
	mu   sync.Mutex
	read time.Time
}

func (r *timed) SetReadDeadline(at time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read = at
	return nil
}

func (r *timed) left() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Until(r.read)
}

// The deadline rolls: a client that speaks now and then goes on for hours.
func TestStream_TheDeadlineRolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, impatient)
		in, out := io.Pipe()
		r := httptest.NewRequest(http.MethodPost, "/v1/ingest", in)
		r.Header.Set("Content-Type", typeLines)
		r.ContentLength = -1
		rec := &timed{ResponseRecorder: httptest.NewRecorder()}
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.ServeHTTP(rec, r)
		}()
		for i := range 20 {
			write(t, out, line(fmt.Sprint(i))+"\n")
			synctest.Wait()
			if got := rec.left(); got != time.Hour {
				t.Fatalf("after line %d: %v until the client counts as gone, want 1 h", i, got)
			}
			time.Sleep(59 * time.Minute)
		}
		out.Close()
		<-done
		if rec.Code != 200 || !rec.read.IsZero() {
			t.Errorf("%d, and the connection goes on with the deadline %v", rec.Code, rec.read)
		}
	})
}

// After a streamed answer the connection serves other requests, and the
// deadlines of the first do not reach into them.
func TestStream_TheConnectionIsUsedAgain(t *testing.T) {
	w := newWorld(t, func(_ *world, o *Options) {
		o.Limits.IdleTimeout, o.Limits.WriteTimeout = 500*time.Millisecond, 500*time.Millisecond
	})
	conn := dial(t, w.serveTCP(t))
	in := bufio.NewReader(conn)
	for i := range 2 {
		body := line(fmt.Sprint(i))
		write(t, conn, fmt.Sprintf("POST /v1/ingest HTTP/1.1\r\nHost: attend\r\nContent-Type: application/x-ndjson\r\nAccept: application/x-ndjson\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		all, err := io.ReadAll(res.Body)
		if err != nil || !strings.Contains(string(all), `"accepted":1`) {
			t.Fatalf("request %d: %s, %v", i, all, err)
		}
		time.Sleep(600 * time.Millisecond) //arch:sleep the deadlines of a real connection must pass
	}
}

func TestStream_TwoClientsAtOnce(t *testing.T) {
	w := newWorld(t, impatient, func(_ *world, o *Options) { o.Limits.GroupLines = 7 })
	addr := w.serveTCP(t)
	const clients, each, shared = 2, 500, 100
	var sum wire
	var mu sync.Mutex
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			var b strings.Builder
			for i := range each {
				id := fmt.Sprintf("%d-%d", c, i)
				if i < shared { // both send it
					id = fmt.Sprint(i)
				}
				fmt.Fprintln(&b, line(id))
			}
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/v1/ingest", strings.NewReader(b.String()))
			r.Header.Set("Content-Type", typeLines)
			res, err := new(http.Client).Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			got := readReply(t, res)
			mu.Lock()
			defer mu.Unlock()
			if got.Status != 200 || got.Body.Accepted+got.Body.Duplicates != each {
				t.Errorf("%+v", got)
			}
			sum.Accepted += got.Body.Accepted
			sum.Duplicates += got.Body.Duplicates
		})
	}
	wg.Wait()
	if sum.Accepted != clients*each-shared || sum.Duplicates != shared {
		t.Errorf("%d accepted, %d duplicates", sum.Accepted, sum.Duplicates)
	}
	// Each client's own events stand in the order in which it sent them.
	last := map[string]int{}
	for _, e := range w.log.all() {
		var client string
		var i int
		if n, _ := fmt.Sscanf(strings.Replace(e.ID, "-", " ", 1), "%s %d", &client, &i); n == 2 {
			if i < last[client] {
				t.Fatalf("%s stands after %d", e.ID, last[client])
			}
			last[client] = i
		}
	}
}

// Bodies that wait keep their places; more are told to come back.
func TestStream_Saturated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(_ *world, o *Options) { o.Limits.MaxRequests = 2 })
		out1, done1 := w.piped(t)
		out2, done2 := w.piped(t)
		synctest.Wait()
		got := w.send(t, line("3"))
		if got.Status != 429 || got.Body.Code != "saturated" || got.Header.Get("Retry-After") != "1" {
			t.Errorf("%+v", got)
		}
		write(t, out1, line("1"))
		out1.Close()
		if rec := done1(); rec.Code != 200 {
			t.Errorf("%d: %s", rec.Code, rec.Body)
		}
		if got := w.send(t, line("3")); got.Status != 200 {
			t.Errorf("with a free place: %+v", got)
		}
		out2.Close()
		done2()
	})
}

// Stop ends what has no end of its own; what was sent is kept and answered.
func TestStream_Stop(t *testing.T) {
	w := newWorld(t, impatient)
	addr := w.serveTCP(t)
	const head = "POST /v1/ingest HTTP/1.1\r\nHost: attend\r\nContent-Type: application/x-ndjson\r\n"
	known, endless := dial(t, addr), dial(t, addr)
	write(t, known, head+fmt.Sprintf("Content-Length: %d\r\n\r\n%s\n", 1+2*len(line("1")), line("1")))
	write(t, endless, head+"Transfer-Encoding: chunked\r\n\r\n"+chunk(line("2")+"\n"))
	w.log.waitFor(t, 2)

	w.Stop()
	w.Stop() // twice does no harm
	res, err := http.ReadResponse(bufio.NewReader(endless), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := readReply(t, res)
	if got.counts() != "503: 1 accepted, 0 duplicates, 0 rejected" || got.Body.Code != "stopping" || got.Header.Get("Retry-After") != "5" {
		t.Errorf("%+v", got)
	}

	write(t, known, line("3"))
	res, err = http.ReadResponse(bufio.NewReader(known), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := readReply(t, res); got.counts() != "200: 2 accepted, 0 duplicates, 0 rejected" {
		t.Errorf("%+v", got)
	}
	if got := w.send(t, line("4")); got.Status != 503 || got.Body.Code != "stopping" || got.Body.Accepted != 0 {
		t.Errorf("%+v", got)
	}
}

// Who is still sending when the daemon stops is told so, whole: the end of the
// connection must not overtake the end of the answer.
func TestStream_StopIsHeardByWhoIsStillSending(t *testing.T) {
	w := newWorld(t)
	srv := httptest.NewServer(w.Handler)
	defer srv.Close()
	const clients = 8
	sending := make(chan struct{}, clients)
	ends := make(chan string, clients)
	for range clients {
		in, out := io.Pipe()
		go func() {
			for n := 0; ; n++ {
				if _, err := io.WriteString(out, line(fmt.Sprint(n))+"\n"); err != nil {
					return
				}
			}
		}()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/v1/ingest", in)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", typeLines)
		streaming(r)
		go func() {
			defer in.Close()
			res, err := srv.Client().Do(r)
			if err != nil {
				sending <- struct{}{}
				ends <- err.Error()
				return
			}
			defer res.Body.Close()
			last := ""
			told := bufio.NewScanner(res.Body)
			for n := 0; told.Scan(); n++ {
				if last = told.Text(); n == 0 {
					sending <- struct{}{}
				}
			}
			if err := told.Err(); err != nil {
				last += "; then " + err.Error()
			}
			ends <- last
		}()
	}
	for range clients {
		<-sending
	}
	w.Stop()
	if err := srv.Config.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	for range clients {
		if end := <-ends; !strings.Contains(end, `"code":"stopping"`) || strings.Contains(end, "; then") {
			t.Errorf("an answer ends with %s", end)
		}
	}
}

// callback is a body that does something before each of its reads.
type callback struct {
	io.Reader
	do func()
}

func (c callback) Read(p []byte) (int, error) {
	c.do()
	return c.Reader.Read(p)
}

// Stop may come while no bytes are waited for.
func TestStream_StopBetweenReads(t *testing.T) {
	w := newWorld(t)
	got := w.post(t, callback{iotest.OneByteReader(strings.NewReader(line("1") + "\n" + line("2"))), w.Stop}, func(r *http.Request) { r.ContentLength = -1 })
	if have := outcomeOf(&got, w); have != "503: 0 accepted, 0 duplicates, 1 rejected; stopping; 1:bodyCut; log: " {
		t.Error(have)
	}
}

// A group that is overdue when more bytes are wanted is committed on the spot.
func TestStream_AnOverdueGroup(t *testing.T) {
	w := newWorld(t, func(_ *world, o *Options) { o.Limits.GroupWait = time.Nanosecond })
	w.post(t, iotest.OneByteReader(strings.NewReader(line("1")+"\n"+line("2")+"\n"+line("3"))))
	if diff := cmp.Diff([]int{1, 1, 1}, w.log.sizes()); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

// A refusal does not wait for a body that streams without end.
func TestStream_ARefusalDoesNotWaitForTheBody(t *testing.T) {
	w := newWorld(t)
	got := request(t, w.serveTCP(t), "POST /v1/ingest HTTP/1.1\r\nHost: attend\r\nTransfer-Encoding: chunked\r\n\r\n"+chunk(line("1")+"\n"), false)
	if got.Status != 415 || got.Header.Get("Connection") != "" && got.Header.Get("Connection") != "close" {
		t.Errorf("%+v", got)
	}
	got = request(t, w.serveTCP(t), "POST /v1/ingest HTTP/1.1\r\nHost: attend\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"+chunk("[bad,"), false)
	if got.Status != 422 {
		t.Errorf("%+v", got)
	}
}

// With Expect: 100-continue nothing is sent before the body is wanted.
func TestStream_ExpectContinue(t *testing.T) {
	w := newWorld(t)
	conn := dial(t, w.serveTCP(t))
	in := bufio.NewReader(conn)
	write(t, conn, fmt.Sprintf("POST /v1/ingest HTTP/1.1\r\nHost: attend\r\nContent-Type: application/x-ndjson\r\nAccept: application/x-ndjson\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(line("1"))))
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != http.StatusContinue {
		t.Fatalf("%+v, %v", res, err)
	}
	write(t, conn, line("1"))
	res, err = http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(res.Body)
	if err != nil || !strings.Contains(string(all), `"accepted":1`) {
		t.Errorf("%s, %v", all, err)
	}
}

// What was read is committed even though the client has gone.
func TestStream_AClientThatHasGone(t *testing.T) {
	w := newWorld(t, impatient)
	conn := dial(t, w.serveTCP(t))
	write(t, conn, "POST /v1/ingest HTTP/1.1\r\nHost: attend\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"+chunk(line("1")+"\n"+line("2")+"\n"))
	conn.Close()
	w.log.waitFor(t, 2)
}

func TestStream_ACancelledRequestStillCommits(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	w := newWorld(t)
	got := w.send(t, line("1"), func(r *http.Request) { *r = *r.WithContext(gone) })
	if got.counts() != "200: 1 accepted, 0 duplicates, 0 rejected" {
		t.Error(got)
	}
}

func TestStream_TheStoreIsDownInAStreamedAnswer(t *testing.T) {
	w := newWorld(t, func(w *world, o *Options) {
		o.Limits.GroupLines = 1
		w.log.before = func(call int, _ *store.Entry) error {
			if call > 1 {
				return store.ErrUnavailable
			}
			return nil
		}
	})
	r := httptest.NewRequest(http.MethodPost, "/v1/ingest", strings.NewReader(line("1")+"\n"+line("2")+"\n"+line("3")))
	r.Header.Set("Content-Type", typeLines)
	streaming(r)
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	told := strings.Split(rec.Body.String(), "\n")
	if len(told) != 3 || told[0] != `{"through":1}` || !strings.Contains(told[1], `"code":"storeUnavailable","status":503,"accepted":1,"duplicates":0,"rejected":1,`) {
		t.Errorf("got %q", told)
	}
}

// Who hears of a group, and then of nothing more, must know what of it to send
// again: a line that was refused, and one that was cut by the end of the body.
func TestStream_WhatIsThroughNeedNotBeSentAgain(t *testing.T) {
	full := `{"scope":"window","name":"n","id":"2"}`
	for _, c := range []struct{ body, want string }{
		{line("1") + "\n" + full + "\n" + line("3") + "\n", `{"through":3,"rejected":1,"errors":[{"line":2,"code":"windowFull",`},
		{line("1") + "\n" + line("2") + "\n" + `{"scope":"s","na`, `{"through":2}` + "\n"},
		{full + "\n\n" + `{"scope":"s","na`, `{"through":2,"rejected":1,"errors":[{"line":1,"code":"windowFull",`},
		{`{"scope":"s","na`, `{"type":"about:blank"`},
	} {
		w := newWorld(t, func(w *world, _ *Options) {
			w.owner.refuse = func(scope string, _ engine.Kind) string {
				if scope == "window" {
					return "windowFull"
				}
				return ""
			}
		})
		r := httptest.NewRequest(http.MethodPost, "/v1/ingest", io.MultiReader(strings.NewReader(c.body), iotest.ErrReader(io.ErrUnexpectedEOF)))
		r.Header.Set("Content-Type", typeLines)
		streaming(r)
		rec := httptest.NewRecorder()
		w.ServeHTTP(rec, r)
		if got := rec.Body.String(); !strings.HasPrefix(got, c.want) || strings.Count(got, "through") > 1 {
			t.Errorf("%q is answered %s, want it to begin with %s", c.body, got, c.want)
		}
		if last := strings.Contains(rec.Body.String(), `"code":"bodyCut","error":"the line`); last != strings.HasSuffix(c.body, "na") {
			t.Errorf("%q: the line that was cut is named: %v, in %s", c.body, last, rec.Body)
		}
	}
}

// mute is a connection whose other side reads nothing.
type mute struct{ http.ResponseWriter }

func (mute) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// A client that does not hear what it asked to be told is not read on.
func TestStream_AnAnswerThatNobodyReads(t *testing.T) {
	w := newWorld(t, func(_ *world, o *Options) { o.Limits.GroupLines = 1 })
	r := httptest.NewRequest(http.MethodPost, "/v1/ingest", strings.NewReader(line("1")+"\n"+line("2")))
	r.Header.Set("Content-Type", typeLines)
	streaming(r)
	w.ServeHTTP(mute{httptest.NewRecorder()}, r)
	if have := ids(w.log.all()); have != "1" {
		t.Errorf("the log holds %q", have)
	}
}

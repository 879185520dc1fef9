package ingest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// serve puts the handler behind a real server and returns its address.
func (w *world) serveTCP(t testing.TB) string {
	t.Helper()
	srv := httptest.NewServer(w.Handler)
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

func dial(t testing.TB, addr string) *net.TCPConn {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

// request writes a request as its bytes stand, and reads the answer once
// nothing more is to come.
func request(t testing.TB, addr, raw string, hangUp bool) reply {
	t.Helper()
	conn := dial(t, addr)
	if _, err := io.WriteString(conn, raw); err != nil {
		t.Fatal(err)
	}
	if hangUp {
		if err := conn.CloseWrite(); err != nil {
			t.Fatal(err)
		}
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("read the answer: %v", err)
	}
	return readReply(t, res)
}

// A body of three lines, cut at every byte, in every way in which HTTP can
// say where a body ends. What came before the cut is kept, whole lines alone,
// and each answer says exactly that.
func TestCut_ThreeLinesAtEveryByte(t *testing.T) {
	body := `{"scope":"s","name":"n","id":"1","text":"é"}` + "\n" +
		`{"scope":"s","name":"n","id":"2","data":{"a":[1,2]}}` + "\r\n" +
		`{"scope":"s","name":"n","id":"3"}` + "\n"
	const head = "POST /v1/ingest HTTP/1.1\r\nHost: attend\r\nContent-Type: application/x-ndjson\r\n"
	for _, way := range []struct {
		name   string
		raw    func(sent string) string
		hangUp bool
		ends   func(n int) bool // whether the body ends well after n bytes
	}{
		{
			"Content-Length says as much",
			func(sent string) string { return head + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(sent), sent) },
			false, func(int) bool { return true },
		},
		{
			"Content-Length says more",
			func(sent string) string { return head + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), sent) },
			true, func(n int) bool { return n == len(body) },
		},
		{
			"chunked, with a last chunk",
			func(sent string) string {
				return head + "Transfer-Encoding: chunked\r\n\r\n" + chunk(sent) + "0\r\n\r\n"
			},
			false, func(int) bool { return true },
		},
		{
			"chunked, without a last chunk",
			func(sent string) string { return head + "Transfer-Encoding: chunked\r\n\r\n" + chunk(sent) },
			true, func(int) bool { return false },
		},
		{
			"chunked, cut in a chunk",
			func(sent string) string {
				return head + fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s", len(body)+1, sent)
			},
			true, func(int) bool { return false },
		},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			addr := w.serveTCP(t)
			for n := range len(body) + 1 {
				w.log.reset(w.owner)
				got := request(t, addr, way.raw(body[:n]), way.hangUp)
				want := expectCut(body[:n], way.ends(n))
				if have := outcomeOf(&got, w); have != want {
					t.Fatalf("cut at byte %d, after %q:\ngot  %s\nwant %s", n, body[max(0, n-10):n], have, want)
				}
			}
		})
	}
}

func chunk(s string) string {
	if s == "" {
		return ""
	}
	return fmt.Sprintf("%x\r\n%s\r\n", len(s), s)
}

// reset empties the log.
func (l *memoryLog) reset(o *foldOwner) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events, l.groups = nil, nil
	o.applied, o.dup = 0, nil
	clear(o.seen)
}

func outcomeOf(got *reply, w *world) string {
	return fmt.Sprintf("%s; %s; %s; log: %s", got.counts(), got.Body.Code, codes(got.Body.Errors), ids(w.log.all()))
}

// expectCut says what must become of what was sent, by counting alone.
func expectCut(sent string, endsWell bool) string {
	lines := strings.SplitAfter(sent, "\n")
	tail := lines[len(lines)-1]
	var kept []string
	for i := range lines[:len(lines)-1] {
		kept = append(kept, fmt.Sprint(i+1))
	}
	rejected, errs, status, code := 0, "", 200, ""
	whole := json.Valid([]byte(tail))
	switch {
	case tail == "":
	case endsWell && whole:
		kept = append(kept, fmt.Sprint(len(lines)))
	case endsWell:
		rejected, errs, status, code = 1, fmt.Sprintf("%d:incomplete", len(lines)), 422, "linesRejected"
	default:
		rejected, errs = 1, fmt.Sprintf("%d:bodyCut", len(lines))
	}
	if !endsWell {
		status, code = 400, "bodyCut"
	}
	return fmt.Sprintf("%d: %d accepted, 0 duplicates, %d rejected; %s; %s; log: %s", status, len(kept), rejected, code, errs, strings.Join(kept, " "))
}

// The same for the elements of an array.
func TestCut_AnArrayAtEveryByte(t *testing.T) {
	body := "[" + line("1") + ",\n" + line("2") + " , " + line("3") + "]"
	w := newWorld(t)
	addr := w.serveTCP(t)
	const head = "POST /v1/ingest HTTP/1.1\r\nHost: attend\r\nContent-Type: application/json\r\n"
	for n := range len(body) {
		w.log.reset(w.owner)
		got := request(t, addr, head+fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body[:n]), true)
		whole := strings.Count(body[:n], "}")
		open := strings.Count(body[:n], "{") - whole
		if got.Status != 400 || got.Body.Accepted != whole || got.Body.Rejected != open || len(w.log.all()) != whole {
			t.Fatalf("cut at byte %d: %s; want %d kept and %d cut", n, outcomeOf(&got, w), whole, open)
		}
	}
}

// An object alone counts when the body ends after it, and not before.
func TestCut_AnObjectIsNotTakenBeforeTheEnd(t *testing.T) {
	w := newWorld(t)
	got := request(t, w.serveTCP(t), "POST /v1/ingest HTTP/1.1\r\nHost: attend\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"+line("1")+" ", true)
	if have := outcomeOf(&got, w); have != "400: 0 accepted, 0 duplicates, 1 rejected; bodyCut; 1:bodyCut; log: " {
		t.Error(have)
	}
}

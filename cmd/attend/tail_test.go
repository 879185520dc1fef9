package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// feed is a daemon that answers GET /v1/decisions by a script.
type feed struct {
	*httptest.Server
	asked []string // the queries, in order
}

// newFeed answers the n-th request (from 0) with what reply says.
func newFeed(t *testing.T, reply func(n int, r *http.Request) (status int, body string)) *feed {
	t.Helper()
	f := new(feed)
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, body := reply(len(f.asked), r)
		f.asked = append(f.asked, r.URL.RawQuery)
		if status == http.StatusFound {
			w.Header().Set("Location", body)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(f.Close)
	return f
}

// pageOf is a page with decisions of these ids.
func pageOf(cursor string, ids ...string) (status int, body string) {
	decisions := make([]string, len(ids))
	for i, id := range ids {
		decisions[i] = fmt.Sprintf(`{"id":%q,"kind":"decision","scope":"a","route":"queue","at":0}`, id)
	}
	return http.StatusOK, fmt.Sprintf(`{"decisions":[%s],"cursor":%q}`, strings.Join(decisions, ","), cursor)
}

// failAfter fails the write after so many.
type failAfter struct {
	written bytes.Buffer
	left    int
}

func (f *failAfter) Write(p []byte) (int, error) {
	if f.left == 0 {
		return 0, errors.New("the pipe is closed")
	}
	f.left--
	return f.written.Write(p)
}

// follower returns a tail of the feed with JSON output.
func (f *feed) follower(t *testing.T, out *failAfter, notes *bytes.Buffer) *tail {
	t.Helper()
	c, err := newClient(&process{}, f.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return &tail{client: c, out: out, notes: notes, output: outputJSON, from: "start"}
}

func TestTail_RemembersOnlyWhatItHasWritten(t *testing.T) {
	f := newFeed(t, func(int, *http.Request) (int, string) { return pageOf("c1", "d1", "d2") })
	out := &failAfter{left: 1}
	tl := f.follower(t, out, new(bytes.Buffer))
	tl.cursorFile = filepath.Join(t.TempDir(), "cursor")
	if err := tl.run(t.Context()); err == nil || !strings.Contains(err.Error(), "the pipe is closed") {
		t.Fatalf("run: %v", err)
	}
	if _, err := os.Stat(tl.cursorFile); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a cursor behind d2 was saved, and d2 was not written (%v)", err)
	}

	out.left = 2
	tl.limit = 2
	if err := tl.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(tl.cursorFile); err != nil || string(b) != "c1\n" {
		t.Errorf("cursor file %q (%v)", b, err)
	}
	if left, err := filepath.Glob(tl.cursorFile + ".*"); err != nil || len(left) != 0 {
		t.Errorf("left behind: %q (%v)", left, err)
	}
}

func TestTail_GoesOnFromTheFileWhateverFromSays(t *testing.T) {
	f := newFeed(t, func(int, *http.Request) (int, string) { return pageOf("c2") })
	tl := f.follower(t, new(failAfter), new(bytes.Buffer))
	tl.cursorFile, tl.once = filepath.Join(t.TempDir(), "cursor"), true
	if err := os.WriteFile(tl.cursorFile, []byte("c1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := tl.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(f.asked) != 1 || f.asked[0] != "after=c1&limit=100" {
		t.Errorf("asked %q", f.asked)
	}
}

func TestTail_FixesItsPlaceBeforeItWaits(t *testing.T) {
	f := newFeed(t, func(n int, _ *http.Request) (int, string) {
		if n == 0 {
			return pageOf("c0")
		}
		return pageOf("c1", "d1")
	})
	tl := f.follower(t, &failAfter{left: 1}, new(bytes.Buffer))
	tl.from, tl.limit = fromNow, 1
	if err := tl.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := "after=now&limit=1 after=c0&limit=1&waitMs=20000"; strings.Join(f.asked, " ") != want {
		t.Errorf("asked %q, want %q", f.asked, want)
	}
}

func TestTail_DoesNotHurryADaemonThatDoesNotWait(t *testing.T) {
	began := time.Now()
	f := newFeed(t, func(n int, _ *http.Request) (int, string) {
		if n < 2 {
			return pageOf("c0")
		}
		return pageOf("c1", "d1")
	})
	tl := f.follower(t, &failAfter{left: 1}, new(bytes.Buffer))
	tl.limit = 1
	if err := tl.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); len(f.asked) != 3 || took < 2*tailBackoff {
		t.Errorf("asked %d times in %v", len(f.asked), took)
	}
}

func TestTail_TriesAgainWhatMayPass(t *testing.T) {
	f := newFeed(t, func(n int, _ *http.Request) (int, string) {
		switch n {
		case 0:
			return http.StatusServiceUnavailable, `{"code":"unavailable","detail":"the store does not answer"}`
		default:
			return pageOf("c1", "d1")
		}
	})
	out, notes := &failAfter{left: 1}, new(bytes.Buffer)
	tl := f.follower(t, out, notes)
	tl.limit = 1
	if err := tl.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := "attend: the store does not answer (503 unavailable); trying again\nattend: connected again\n"; notes.String() != want {
		t.Errorf("notes %q, want %q", notes, want)
	}
	if !strings.Contains(out.written.String(), `"id":"d1"`) {
		t.Errorf("output %q", &out.written)
	}
}

func TestTail_EndsWithWhatCannotBeMended(t *testing.T) {
	for name, c := range map[string]struct {
		status     int
		body, says string
	}{
		"a refusal":         {http.StatusBadRequest, `{"code":"invalidParameter","detail":"unknown route"}`, "unknown route (400 invalidParameter)"},
		"another server":    {http.StatusOK, `{}`, "does not answer like attend"},
		"a server of pages": {http.StatusNotFound, `<html>`, "Not Found (404)"},
		"a redirect":        {http.StatusFound, "http://127.0.0.1:1/", "Found (302)"},
		"hostile words":     {http.StatusBadRequest, `{"code":"x","detail":"\u001b[2J"}`, `\x1b[2J (400 x)`},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFeed(t, func(int, *http.Request) (int, string) { return c.status, c.body })
			err := f.follower(t, new(failAfter), new(bytes.Buffer)).run(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want it to say %q", err, c.says)
			}
			if len(f.asked) != 1 {
				t.Errorf("asked %d times", len(f.asked))
			}
		})
	}
}

func TestTail_EndsWellWhenItIsAskedTo(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	f := newFeed(t, func(int, *http.Request) (int, string) {
		stop()
		return pageOf("c1")
	})
	if err := f.follower(t, new(failAfter), new(bytes.Buffer)).run(ctx); err != nil {
		t.Errorf("run: %v", err)
	}
}

func TestClient_SendsTheTokenAndNeverTellsIt(t *testing.T) {
	f := newFeed(t, func(_ int, r *http.Request) (int, string) {
		if r.Header.Get("Authorization") != "Bearer t0ken" {
			t.Errorf("Authorization %q", r.Header.Get("Authorization"))
		}
		return http.StatusUnauthorized, ""
	})
	p := &process{env: []string{"ATTEND_TOKEN=old", "ATTEND_TOKEN=t0ken"}}
	c, err := newClient(p, f.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := c.call(t.Context(), http.MethodGet, "/x", nil, nil, nil); err == nil || strings.Contains(err.Error(), "t0ken") {
		t.Errorf("error %v", err)
	}
}

func TestDescribe(t *testing.T) {
	t.Setenv("TZ", "UTC")
	for name, c := range map[string]struct{ in, want string }{
		"a decision": {
			`{"id":"d1","kind":"decision","scope":"chat:1","route":"queue","reason":"closing","at":0,"notice":"one\ntwo","events":[{},{}],"cut":3,"dropped":4,"gap":true}`,
			"  queue      chat:1  closing, 5 events, 4 dropped, gap  d1\n    one\n    two",
		},
		"a dead letter": {
			`{"id":"x1","kind":"deadLetter","scope":"chat:1","stage":"judge","message":"no\nanswer","attempts":5}`,
			"  deadLetter  chat:1  judge gave up after 5 attempts  x1\n    no\\nanswer",
		},
		"forged lines": {
			`{"id":"d1","kind":"decision","scope":"a\nb","route":"queue","reason":"closing","notice":"\u001b[2J\u202e\r","events":[{}]}`,
			"  queue      a\\nb  closing, 1 event  d1\n    \\x1b[2J\\u202e\\r",
		},
	} {
		got, err := describe([]byte(c.in))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(got, "  ")
		if rest = "  " + rest; rest != c.want {
			t.Errorf("%s:\n%q, want\n%q", name, rest, c.want)
		}
	}
	if _, err := describe([]byte(`{"at":"soon"}`)); err == nil {
		t.Error("what cannot be read was described")
	}
}

func TestJSONLine_IsOneSafeLineOfTheSameValue(t *testing.T) {
	in := "{\"a\": \"x\u009b\u202ey\u2028\u007f\",\n \"b\": [1, 12345678901234567890123]}"
	line, err := jsonLine([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"a":"x\u009b\u202ey\u2028\u007f","b":[1,12345678901234567890123]}`; line != want {
		t.Errorf("line %s, want %s", line, want)
	}
	var before, after any
	if err := errors.Join(json.Unmarshal([]byte(in), &before), json.Unmarshal([]byte(line), &after)); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("value %v became %v", before, after)
	}
	if _, err := jsonLine([]byte(`{"a":`)); err == nil {
		t.Error("half a value was taken")
	}
}

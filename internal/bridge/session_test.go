package bridge

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`

const helloDone = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

// legacy is a daemon of the 2025 revisions. It forgets sessions when told to.
type legacy struct {
	mu       sync.Mutex
	sessions int
	known    string
	stream   http.HandlerFunc // of GET; nil when it is not offered
}

func (l *legacy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	l.mu.Lock()
	known, stream := l.known, l.stream
	begins := strings.Contains(string(body), `"initialize"`)
	if begins {
		l.sessions++
		l.known = fmt.Sprintf("s%d", l.sessions)
		w.Header().Set("Mcp-Session-Id", l.known)
	}
	l.mu.Unlock()
	switch {
	case begins:
		asEvents(w, "data: {\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"protocolVersion\":\"2025-06-18\"}}\n\n")
	case r.Header.Get("Mcp-Session-Id") != known:
		asJSON(w, http.StatusNotFound, `{"jsonrpc":"2.0","id":9,"error":{"code":-32001,"message":"no such session"}}`)
	case r.Method == http.MethodGet && stream == nil:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case r.Method == http.MethodGet:
		stream(w, r)
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	case !strings.Contains(string(body), `"id"`):
		w.WriteHeader(http.StatusAccepted)
	default:
		asJSON(w, http.StatusOK, `{"jsonrpc":"2.0","id":9,"result":{}}`)
	}
}

func (l *legacy) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known = ""
}

func (l *legacy) offer(stream http.HandlerFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stream = stream
}

func TestHeaders_OfBothEras(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{handle: new(legacy).ServeHTTP}
		h := connect(t, d)
		ask := `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"attend_push"}}`
		modern := `{"jsonrpc":"2.0","id":10,"method":"tools/call","params":{"name":"attend_push",` + modernMeta + `}}`
		odd := `{"jsonrpc":"2.0","id":11,"method":"resources/read","params":{"uri":"a\nb",` + modernMeta + `}}`
		h.say(hello)
		h.say(helloDone)
		h.say(ask)
		h.say(modern)
		h.say(odd)
		h.leave()
		want := []string{
			`POST version="" method="" name="" session="" ` + hello,
			`POST version="2025-06-18" method="" name="" session="s1" ` + helloDone,
			`GET version="2025-06-18" method="" name="" session="s1" `,
			`POST version="2025-06-18" method="" name="" session="s1" ` + ask,
			`POST version="2026-07-28" method="tools/call" name="attend_push" session="" ` + modern,
			`POST version="2026-07-28" method="resources/read" name="" session="" ` + odd,
			`DELETE version="2025-06-18" method="" name="" session="s1" `,
		}
		if diff := cmp.Diff(want, d.requests()); diff != "" {
			t.Error(diff)
		}
	})
}

// anyOrder compares lists whose order does not matter.
func anyOrder() cmp.Option {
	return cmp.Transformer("sorted", func(list []string) map[string]int {
		count := make(map[string]int)
		for _, s := range list {
			count[s]++
		}
		return count
	})
}

// A daemon that was restarted knows no sessions. The host need not know.
func TestSession_IsBegunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(legacy)
		d := &daemon{handle: l.ServeHTTP}
		h := connect(t, d)
		h.say(hello)
		h.say(helloDone)
		h.heard()
		l.forget()
		d.requests()
		ask := `{"jsonrpc":"2.0","id":9,"method":"tools/list"}`
		h.say(ask)
		h.hears(`{"jsonrpc":"2.0","id":9,"result":{}}`)
		want := []string{
			`POST version="2025-06-18" method="" name="" session="s1" ` + ask,
			`POST version="" method="" name="" session="" ` + hello,
			`POST version="2025-06-18" method="" name="" session="s2" ` + helloDone,
			`POST version="2025-06-18" method="" name="" session="s2" ` + ask,
			`GET version="2025-06-18" method="" name="" session="s2" `,
		}
		if diff := cmp.Diff(want, d.requests(), anyOrder()); diff != "" {
			t.Error(diff)
		}

		l.forget()
		for _, id := range []string{"9", `"a"`, `"b"`} { // several find out at once
			io.WriteString(h.in, `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/list"}`+"\n")
		}
		if got := h.heard(); len(got) != 3 {
			t.Errorf("three requests were answered %q", got)
		}
		if l.sessions != 3 {
			t.Errorf("%d sessions were begun, want one for each time that they were forgotten", l.sessions)
		}
	})
}

func TestSession_CannotBeBegunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(legacy)
		gone := false
		d := &daemon{handle: func(w http.ResponseWriter, r *http.Request) {
			if gone && r.Header.Get("Mcp-Session-Id") == "" {
				asJSON(w, http.StatusOK, `{"jsonrpc":"2.0","id":0,"error":{"code":-32603,"message":"no more"}}`)
				return
			}
			l.ServeHTTP(w, r)
		}}
		h := connect(t, d)
		h.say(hello)
		h.heard()
		gone = true
		l.forget()
		h.say(`{"jsonrpc":"2.0","id":9,"method":"tools/list"}`)
		if got := h.heard(); len(got) != 1 || !strings.Contains(got[0], "begin a new session: the answer is an error") {
			t.Errorf("the host hears %q", got)
		}
	})
}

func TestListen_TheDaemonSpeaksFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(legacy)
		say := make(chan string)
		l.offer(func(w http.ResponseWriter, r *http.Request) {
			asEvents(w, ": ok\n\n")
			for {
				select {
				case text := <-say:
					if text == "break" {
						panic(http.ErrAbortHandler)
					}
					io.WriteString(w, "data: "+text+"\n\n")
				case <-r.Context().Done():
					return
				}
			}
		})
		d := &daemon{handle: l.ServeHTTP}
		h := connect(t, d)
		h.say(hello)
		h.heard()
		if got := d.requests(); len(got) != 1 {
			t.Fatalf("before the session is confirmed the daemon was asked %q", got)
		}
		h.say(helloDone)
		changed := `{"jsonrpc":"2.0","method":"notifications/events/list_changed"}`
		say <- changed
		h.hears(changed)

		say <- "break"
		synctest.Wait()
		d.requests()
		time.Sleep(listenAgain)
		if got := d.requests(); len(got) != 1 || !strings.HasPrefix(got[0], "GET ") {
			t.Fatalf("after the stream broke the daemon was asked %q", got)
		}
		say <- changed
		h.hears(changed)

		// The daemon is restarted: nobody asks it anything, and the stream is
		// there again all the same.
		d.setDown(true)
		say <- "break"
		time.Sleep(time.Minute)
		l.forget()
		d.setDown(false)
		time.Sleep(2 * listenAgainTo)
		say <- changed
		h.hears(changed)
		if l.sessions != 2 {
			t.Errorf("%d sessions, want two", l.sessions)
		}
		// The host begins anew: the stream follows.
		h.say(hello)
		h.say(helloDone)
		h.heard()
		say <- changed
		h.hears(changed)
	})
}

func TestListen_NotOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(legacy)
		d := &daemon{handle: l.ServeHTTP}
		h := connect(t, d)
		h.say(hello)
		h.say(helloDone)
		d.requests()
		time.Sleep(time.Hour)
		if got := d.requests(); len(got) != 0 {
			t.Errorf("the daemon was asked %q", got)
		}
		h.heard()
	})
}

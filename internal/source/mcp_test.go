package source

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// peer is a server at the other end of a pipe: it speaks the protocol line by
// line, as a test tells it.
type peer struct {
	t      *testing.T
	out    io.WriteCloser
	answer func(p *peer, method string, id json.RawMessage, params map[string]any)

	mu sync.Mutex
}

// connect opens a session with a peer.
func connect(t *testing.T, answer func(p *peer, method string, id json.RawMessage, params map[string]any)) (s Session, p *peer, unrouted *atomic.Int32) {
	t.Helper()
	theirs, toThem := io.Pipe()
	ours, toUs := io.Pipe()
	p = &peer{t: t, out: toUs, answer: answer}
	go p.serve(theirs)
	unrouted = new(atomic.Int32)
	d := &server{
		version: "test",
		open: func() *way {
			return &way{Transport: &mcp.IOTransport{Reader: ours, Writer: toThem}, closes: func() { _ = toUs.Close() }}
		},
		hide: func(text string) string { return strings.ReplaceAll(text, "the-token", "[hidden]") },
	}
	s, err := d.Dial(t.Context(), func() { unrouted.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	return s, p, unrouted
}

func (p *peer) serve(in io.Reader) {
	defer p.out.Close()
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var m struct {
			ID     json.RawMessage
			Method string
			Params map[string]any
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			p.t.Error(err)
			return
		}
		switch m.Method {
		case "server/discover":
			p.fails(m.ID, -32601, "no such method")
		case "initialize":
			p.result(m.ID, `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"peer","version":"1"}}`)
		case "notifications/initialized", "notifications/cancelled":
		default:
			p.answer(p, m.Method, m.ID, m.Params)
		}
	}
}

func (p *peer) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = fmt.Fprintf(p.out, format+"\n", args...) // whoever is gone hears nothing
}

func (p *peer) result(id json.RawMessage, result string) {
	p.say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

func (p *peer) fails(id json.RawMessage, code int, message string) {
	p.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, id, code, message)
}

// tells sends a notification for a stream; its id is JSON.
func (p *peer) tells(kind, id, more string) {
	p.say(`{"jsonrpc":"2.0","method":"notifications/events/%s","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s}%s}}`, kind, id, more)
}

func TestSession_FindsOnAllPagesAndPolls(t *testing.T) {
	s, _, _ := connect(t, func(p *peer, method string, id json.RawMessage, params map[string]any) {
		cursor, given := params["cursor"]
		switch {
		case method == "events/list" && !given:
			p.result(id, `{"events":[{"name":"x","delivery":["poll"]}],"nextCursor":"2"}`)
		case method == "events/list" && cursor == "2":
			p.result(id, `{"events":[{"name":"y","delivery":["push"]}]}`)
		case method == "events/poll" && given && cursor == nil && params["maxAgeMs"] == 5.0 && params["maxEvents"] == 3.0:
			p.result(id, `{"events":[{"eventId":"a"},7],"cursor":"c1","truncated":true,"hasMore":true,"nextPollMs":12.5,"resultType":"complete"}`)
		default:
			p.fails(id, -32602, "asked with the-token\n"+fmt.Sprint(params))
		}
	})
	defer s.Close()
	for name, want := range map[string]EventType{"x": {"x", []string{"poll"}}, "y": {"y", []string{"push"}}, "z": {}} {
		if got, err := s.Find(t.Context(), name); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s is %v, %v", name, got, err)
		}
	}
	got, err := s.Poll(t.Context(), Request{Name: "x", MaxAgeMs: 5, MaxEvents: 3})
	if err != nil || len(got.Events) != 2 || *got.Cursor != "c1" || !got.Truncated || !got.HasMore || *got.NextPollMs != 12.5 {
		t.Errorf("page: %+v, %v", got, err)
	}
	_, err = s.Poll(t.Context(), Request{Name: "x", Cursor: "c1"})
	var answer *ServerError
	if !errors.As(err, &answer) || answer.Code != -32602 || !strings.HasPrefix(answer.Message, `asked with [hidden]\n`) {
		t.Errorf("the error is %v", err)
	}
}

// Two streams over one connection hear what is theirs, in order; what belongs
// to none is told, but for what comes late for one that is over.
func TestSession_StreamsHearWhatIsTheirs(t *testing.T) {
	opened := make(chan string, 2)
	s, p, unrouted := connect(t, func(p *peer, method string, id json.RawMessage, params map[string]any) {
		if method == "events/stream" {
			p.tells("active", string(id), fmt.Sprintf(`,"cursor":"%v0"`, params["name"]))
			opened <- string(id)
			return
		}
		p.result(id, `{}`)
	})
	defer s.Close()
	listen := func(ctx context.Context, name string) (heard chan string, over chan error) {
		heard, over = make(chan string, 100), make(chan error, 1)
		go func() {
			over <- s.Stream(ctx, Request{Name: name, MaxEvents: 9}, func(n Notification) {
				heard <- n.Kind + " " + *cursorOf(n.Params)
			})
		}()
		return heard, over
	}
	expect := func(heard chan string, want string) {
		t.Helper()
		if got := <-heard; got != want {
			t.Errorf("heard %q, want %q", got, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	x, xOver := listen(ctx, "x")
	expect(x, "active x0")
	idOfX := <-opened
	y, yOver := listen(t.Context(), "y")
	expect(y, "active y0")
	idOfY := <-opened
	p.tells("event", idOfY, `,"cursor":"y1"`)
	p.tells("event", idOfX, `,"cursor":"x1"`)
	p.tells("event", "999", `,"cursor":"z1"`)
	p.say(`{"jsonrpc":"2.0","method":"notifications/events/event","params":{"cursor":"nobody's"}}`)
	p.tells("heartbeat", `"`+idOfX+`"`, `,"cursor":"x2"`) // as text, which some write
	expect(x, "event x1")
	expect(x, "heartbeat x2")
	expect(y, "event y1")
	if n := unrouted.Load(); n != 2 {
		t.Errorf("%d notifications belong to nobody, want 2", n)
	}
	cancel()
	if err := <-xOver; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled, it is over with %v", err)
	}
	p.tells("event", idOfX, `,"cursor":"x3"`)
	p.tells("event", idOfY, `,"cursor":"y2"`)
	expect(y, "event y2")
	p.result([]byte(idOfY), `{}`)
	if err := <-yOver; err != nil {
		t.Errorf("answered, it is over with %v", err)
	}
	if n := unrouted.Load(); n != 2 || len(x) != 0 {
		t.Errorf("what came late is news: %d, %d", n, len(x))
	}
}

// A server that goes away ends what is under way, and so does Close.
func TestSession_Ends(t *testing.T) {
	for name, end := range map[string]func(s Session, p *peer){
		"the server goes":   func(_ Session, p *peer) { _ = p.out.Close() },
		"we close":          func(s Session, _ *peer) { s.Close() },
		"it knows us not":   func(_ Session, p *peer) { p.fails([]byte("3"), -32001, "Session not found") },
		"it is not started": func(_ Session, p *peer) { p.fails([]byte("3"), -32000, "Bad Request: Server not initialized") },
	} {
		t.Run(name, func(t *testing.T) {
			open := make(chan struct{})
			s, p, _ := connect(t, func(p *peer, _ string, id json.RawMessage, _ map[string]any) {
				if string(id) != "3" {
					t.Errorf("the request has the id %s", id)
				}
				close(open)
			})
			over := make(chan error, 1)
			go func() { over <- s.Stream(t.Context(), Request{Name: "x"}, func(Notification) {}) }()
			<-open
			end(s, p)
			if err := <-over; !errors.Is(err, ErrClosed) {
				t.Errorf("it is over with %v", err)
			}
			if name != "we close" {
				s.Close()
			}
		})
	}
}

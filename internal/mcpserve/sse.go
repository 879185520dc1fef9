package mcpserve

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// eventStream is the media type of server-sent events.
const eventStream = "text/event-stream"

// writePiece is how much a client has to take within the time for one write.
const writePiece = 16 << 10

// takesStream reports whether the client takes an answer that is a stream. One
// that does not say what it takes does.
func takesStream(r *http.Request) bool {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	return accept == "" || strings.Contains(accept, eventStream) || strings.Contains(accept, "text/*") || strings.Contains(accept, "*/*")
}

// sse writes an answer as server-sent events. It holds nothing between two of
// them. Each write has a deadline of its own: a reader that takes nothing is
// cut off, one that is slow never.
type sse struct {
	w    http.ResponseWriter
	conn *http.ResponseController
	wait time.Duration // for one write
}

// openSSE sends the headers and a comment, so that proxies pass them on before
// there is anything to read.
func openSSE(w http.ResponseWriter, wait time.Duration) (*sse, error) {
	h := w.Header()
	h.Set("Content-Type", eventStream)
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	e := &sse{w: w, conn: http.NewResponseController(w), wait: wait}
	_ = e.conn.SetReadDeadline(time.Time{}) // a writer without deadlines has its own
	e.extend()
	w.WriteHeader(http.StatusOK)
	if err := e.comment("ok"); err != nil {
		return nil, err
	}
	return e, e.flush()
}

func (e *sse) extend() { _ = e.conn.SetWriteDeadline(time.Now().Add(e.wait)) }

// message writes one JSON-RPC message, given in parts. It goes out at the next
// flush at the latest.
func (e *sse) message(parts ...[]byte) error {
	return e.put(slices.Concat([][]byte{[]byte("event: message\ndata: ")}, parts, [][]byte{[]byte("\n\n")})...)
}

// comment writes a line that readers pass over.
func (e *sse) comment(text string) error { return e.put([]byte(": " + text + "\n\n")) }

// put writes in pieces, so that a slow line has time for each of them.
func (e *sse) put(parts ...[]byte) error {
	e.extend()
	left := writePiece
	for _, b := range parts {
		for len(b) > 0 {
			n, err := e.w.Write(b[:min(len(b), left)])
			if err != nil {
				return err
			}
			b = b[n:]
			if left -= n; left == 0 {
				e.extend()
				left = writePiece
			}
		}
	}
	return nil
}

func (e *sse) flush() error {
	e.extend()
	return e.conn.Flush()
}

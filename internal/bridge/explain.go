package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// maxDetail bounds how much of a stranger's words an error repeats.
const maxDetail = 500

// entry is where people set what a bridge needs.
const entry = "this server's entry in the host's configuration"

// Why no answer came, where that passes by itself.
const (
	reasonUnreachable = "unreachable"
	reasonInterrupted = "interrupted"
)

// trouble is what the host is told in place of an answer.
type trouble struct {
	reason string // for programs
	text   string // for whoever can mend it
	status int    // of HTTP, 0 when there was none
}

// explain answers a request with an error, unless the host has cancelled it.
func (b *bridge) explain(ctx context.Context, m *message, err error) {
	if ctx.Err() != nil {
		return
	}
	t := b.trouble(err)
	b.log.Warn("a request could not be answered", "method", m.method, "reason", t.reason, "error", err)
	data := map[string]any{"reason": t.reason}
	if t.status != 0 {
		data["status"] = t.status
	}
	b.tell(failure(m.id, t.code(m), t.text, data))
}

// code is that of the error. Who follows events takes an internal error for the
// end of a subscription (events contract, "Errors"), and goes on after that of a
// connection which is closed.
func (t *trouble) code(m *message) int {
	passes := t.reason == reasonUnreachable || t.reason == reasonInterrupted || t.status == http.StatusTooManyRequests || t.status >= http.StatusInternalServerError
	if passes && (m.method == methodInitialize || strings.HasPrefix(m.method, methodEvents)) {
		return codeConnectionClosed
	}
	return codeInternal
}

// trouble finds the words for an error, and what would mend it.
func (b *bridge) trouble(err error) *trouble {
	var no *refusal
	if errors.As(err, &no) {
		return b.refused(no)
	}
	var failed *url.Error
	if errors.As(err, &failed) {
		err = failed.Err // it repeats the method and the address
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" { // before anything was sent
		return &trouble{reason: reasonUnreachable, text: fmt.Sprintf(
			"attend does not answer at %s (%v): start it with `attend serve`, or set ATTEND_URL or ATTEND_SOCKET in %s to where it listens; then call again",
			b.opts.At, err, entry)}
	}
	return &trouble{reason: reasonInterrupted, text: fmt.Sprintf(
		"the connection to attend at %s broke before the answer was there (%v): what was asked for may have been done; call again when attend is back",
		b.opts.At, err)}
}

// refusal is an answer that is not JSON-RPC.
type refusal struct {
	status int
	detail string // the daemon's own words, "" when there are none
	alien  bool   // it does not come from attend
}

// Error implements error.
func (r *refusal) Error() string {
	if r.detail == "" {
		return http.StatusText(r.status)
	}
	return r.detail
}

// readRefusal reads what stands in the place of a JSON-RPC answer.
func readRefusal(status int, kind string, body []byte) *refusal {
	r := &refusal{status: status}
	switch kind {
	case "application/problem+json":
		var problem struct{ Detail, Title string }
		if json.Unmarshal(body, &problem) == nil {
			r.detail = cut(problem.Detail)
		}
	case "text/plain":
		r.detail = cut(string(body))
	default:
		r.alien = true
		r.detail = fmt.Sprintf("%d %s, %s", r.status, http.StatusText(r.status), kind)
	}
	return r
}

// cut makes one bounded line of a text.
func cut(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxDetail {
		return strings.ToValidUTF8(s[:maxDetail], "") + "…"
	}
	return s
}

// refused explains an answer that is not JSON-RPC.
func (b *bridge) refused(r *refusal) *trouble {
	t := &trouble{reason: "refused", status: r.status}
	switch {
	case r.status == http.StatusUnauthorized && b.opts.Token == "":
		t.reason = "unauthorized"
		t.text = fmt.Sprintf("attend at %s wants a token: set ATTEND_TOKEN in %s", b.opts.At, entry)
	case r.status == http.StatusUnauthorized:
		t.reason = "unauthorized"
		t.text = fmt.Sprintf("attend at %s does not take this token: set ATTEND_TOKEN in %s to the daemon's", b.opts.At, entry)
	case r.alien:
		t.text = fmt.Sprintf("what answers at %s does not speak MCP (%s): set ATTEND_URL in %s to where attend listens", b.opts.At, r.detail, entry)
	default:
		t.text = fmt.Sprintf("attend at %s answered %d: %s", b.opts.At, r.status, r.Error())
	}
	return t
}

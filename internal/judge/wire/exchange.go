package wire

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"attend/internal/engine"
	"attend/internal/judge"
)

// MaxRecord is the size in bytes of a prompt or an answer on the record.
const MaxRecord = 64 << 10

// Exchange posts, and writes on x what came of it: how long it took, status,
// request id, the answer as text, and outcome and message where it failed. The
// answer on the record holds no value of the request's headers, whoever echoes
// them.
//
// Errors: those of Post.
func (c *Client) Exchange(ctx context.Context, r Request, x *engine.Exchange) (Response, error) {
	start := time.Now()
	resp, err := c.Post(ctx, r)
	x.TookMs = time.Since(start).Milliseconds()
	x.Status, x.RequestID, x.RetryAfterMs = resp.Status, resp.RequestID, resp.RetryAfter.Milliseconds()
	x.Answer = Clip(scrub(resp.Body, r.Header))
	if err != nil {
		Fail(x, err)
		if x.Outcome == string(judge.Transient) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			x.Outcome = "timeout"
		}
	}
	return resp, err
}

// Fail writes a failure on x: its class as the outcome, and its message.
func Fail(x *engine.Exchange, err error) {
	e := Classed(err)
	x.Outcome, x.Message = string(e.Class), e.Message
}

// Classed is the *judge.Error in err, to be written on: a copy. Without one err
// is transient.
func Classed(err error) *judge.Error {
	if e := (*judge.Error)(nil); errors.As(err, &e) {
		c := *e
		return &c
	}
	return &judge.Error{Class: judge.Transient, Message: err.Error()}
}

// Clip cuts a text to what the record may hold, at a character, and says that
// it was cut.
func Clip(s string) string {
	if len(s) <= MaxRecord {
		return s
	}
	mark := fmt.Sprintf("… (cut: %d bytes)", len(s))
	end := MaxRecord - len(mark)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}

// maxModel is how much is kept of a model's name, in bytes.
const maxModel = 256

// Model makes a model's name, as a host gave it, fit for the record and for
// decisions: on one line, bounded, and without the key, which a host may repeat.
func Model(name, key string) string {
	return engine.Shorten(engine.EscapeLine(strings.ToValidUTF8(Hide(name, key), "\uFFFD")), maxModel)
}

// scrub takes what stood in the request's headers out of an answer: a host may
// repeat the key that it was sent.
func scrub(body []byte, sent http.Header) string {
	return Hide(strings.ToValidUTF8(string(body), "\uFFFD"), secretsOf(sent)...)
}

package main_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"testing"
	"time"
)

// line is one line of a body, with what the ledger wants to know of it.
type line struct {
	key  eventKey
	name string
	sum  [sha256.Size]byte
	text []byte // with its newline
	junk bool   // no event: the daemon has to refuse it, and it alone
}

// producer sends events, keeps what is not acknowledged, and sends it again
// under the same ids.
type producer struct {
	t       *testing.T
	at      host
	ledger  *ledger
	rng     *rand.Rand
	name    string
	client  *http.Client
	scopes  []string
	streams bool // long bodies whose answer streams; else small ones

	serial int
	queue  []line // not acknowledged
	old    []line // some that were: they are sent again now and then

	cuts []string // answers that began and had no end
}

func newProducer(t *testing.T, at host, l *ledger, name string, scopes []string, streams bool, rng *rand.Rand) *producer {
	return &producer{
		t: t, at: at, ledger: l, rng: rng, name: name, scopes: scopes, streams: streams,
		client: &http.Client{Transport: &http.Transport{}, Timeout: time.Minute},
	}
}

// mostWaiting is how many events may wait to be sent again before no new ones
// are made.
const mostWaiting = 400

// run sends until quit is closed, and then what is left until everything is
// acknowledged or the context ends.
func (p *producer) run(ctx context.Context, quit <-chan struct{}) {
	defer p.client.CloseIdleConnections()
	for ctx.Err() == nil {
		fresh := 0
		select {
		case <-quit:
			if len(p.queue) == 0 {
				return
			}
		default:
			if len(p.queue) < mostWaiting {
				fresh = p.size()
			}
		}
		if !p.send(ctx, p.body(fresh)) {
			pause(ctx, time.Duration(2+p.rng.IntN(20))*time.Millisecond)
			continue
		}
		pause(ctx, time.Duration(p.rng.IntN(60))*time.Millisecond)
	}
}

func (p *producer) size() int {
	if p.streams {
		return 1 + p.rng.IntN(300)
	}
	return 1 + p.rng.IntN(4)
}

// body takes what is not acknowledged, new events and a few old ones.
func (p *producer) body(fresh int) []line {
	n := min(len(p.queue), 2*mostWaiting)
	lines := slices.Clone(p.queue[:n])
	p.queue = slices.Clone(p.queue[n:])
	// A body is about a few scopes, so that the others come to rest.
	about := p.rng.Perm(len(p.scopes))[:1+p.rng.IntN(min(3, len(p.scopes)))]
	for range fresh {
		scope := p.scopes[about[p.rng.IntN(len(about))]]
		switch roll := p.rng.IntN(100); {
		case roll < 1:
			lines = append(lines, line{text: []byte(`{"scope":"` + scope + `","name":` + "\n"), junk: true})
		case roll < 4 && len(p.old) > 0:
			lines = append(lines, p.old[p.rng.IntN(len(p.old))])
		default:
			lines = append(lines, p.event(scope))
		}
	}
	return lines
}

// event makes a new event. Quiet scopes get what cannot wake anyone.
func (p *producer) event(scope string) line {
	p.serial++
	id := fmt.Sprintf("%s-%d", p.name, p.serial)
	name := pick(p.rng, scope)
	data, err := json.Marshal(map[string]any{"n": p.serial, "pad": strings.Repeat("x", p.rng.IntN(120))})
	if err != nil {
		p.t.Error(err)
	}
	text := ""
	if p.rng.IntN(2) == 0 {
		text = fmt.Sprintf("event %s – “%s”\nof scope %s", id, name, scope)
	}
	whole, err := json.Marshal(struct {
		Scope string          `json:"scope"`
		Name  string          `json:"name"`
		ID    string          `json:"id"`
		Data  json.RawMessage `json:"data"`
		Text  string          `json:"text,omitempty"`
	}{scope, name, id, data, text})
	if err != nil {
		p.t.Error(err)
	}
	return line{key: eventKey{scope, id}, name: name, sum: sumOf(data, text), text: append(whole, '\n')}
}

// pick chooses an event name: of every kind, acts less often.
func pick(rng *rand.Rand, scope string) string {
	roll := rng.IntN(100)
	if strings.HasPrefix(scope, "quiet:") {
		roll = 40 + rng.IntN(60)
	}
	switch {
	case roll < 4:
		return "act.flush"
	case roll < 14:
		return "act.closing"
	case roll < 24:
		return "act.stream"
	case roll < 34:
		return "act.passive"
	case roll < 80:
		return "out.tool"
	default:
		return "own.reply"
	}
}

// send sends one body and puts back what was not acknowledged. It reports
// whether a whole answer came.
func (p *producer) send(ctx context.Context, lines []line) bool {
	if len(lines) == 0 {
		return true
	}
	// An event counts as sent when there is a connection for it.
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { p.ledger.sent(lines) }})
	var acked int // lines from the first
	var whole bool
	if p.streams {
		acked, whole = p.stream(ctx, lines)
	} else {
		acked, whole = p.plain(ctx, lines)
	}
	for i := range lines {
		switch {
		case lines[i].junk:
		case i >= acked:
			p.queue = append(p.queue, lines[i])
		case len(p.old) < 500:
			p.old = append(p.old, lines[i])
		default:
			p.old[p.rng.IntN(len(p.old))] = lines[i]
		}
	}
	return whole
}

// result is the end of every answer of ingest.
type result struct {
	Through    int `json:"through"`
	Status     int `json:"status"`
	Accepted   int `json:"accepted"`
	Duplicates int `json:"duplicates"`
	Rejected   int `json:"rejected"`
	Errors     []struct {
		Line  int    `json:"line"`
		Code  string `json:"code"`
		Error string `json:"error"`
	} `json:"errors"`
}

// plain sends a small body and reads one answer.
func (p *producer) plain(ctx context.Context, lines []line) (acked int, whole bool) {
	var body bytes.Buffer
	for i := range lines {
		body.Write(lines[i].text)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.at.base()+"/v1/ingest", &body)
	if err != nil {
		p.t.Error(err)
		return 0, false
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := p.client.Do(req)
	if err != nil {
		return 0, false
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	var r result
	if err != nil || json.Unmarshal(b, &r) != nil {
		return 0, false
	}
	r.Status = resp.StatusCode
	return p.conclude(lines, &r)
}

// stream sends a long body bit by bit, and reads the answer while it does.
func (p *producer) stream(ctx context.Context, lines []line) (acked int, whole bool) {
	r, w := io.Pipe()
	seed := p.rng.Uint64()
	written := make(chan struct{})
	go func() {
		defer close(written)
		_ = w.CloseWithError(trickle(ctx, w, lines, rand.New(rand.NewPCG(seed, 0)))) // never fails
	}()
	defer func() {
		_ = r.Close() // ends the writer
		<-written
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.at.base()+"/v1/ingest", r)
	if err != nil {
		p.t.Error(err)
		return 0, false
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	req.Header.Set("Accept", "application/x-ndjson")
	resp, err := p.client.Do(req)
	if err != nil {
		return 0, false
	}
	defer resp.Body.Close()
	for dec := json.NewDecoder(resp.Body); ; {
		var r result
		if err := dec.Decode(&r); err != nil {
			p.cuts = append(p.cuts, fmt.Sprintf("after line %d of %d: %v", acked, len(lines), err))
			return acked, false
		}
		if r.Through == 0 {
			if r.Status == 0 {
				r.Status = resp.StatusCode
			}
			last, whole := p.conclude(lines, &r)
			return max(acked, last), whole
		}
		if r.Through <= acked || r.Through > len(lines) {
			p.t.Errorf("a stream of %d lines is acknowledged through %d, then %d", len(lines), acked, r.Through)
			return acked, false
		}
		for _, e := range r.Errors {
			if !lines[e.Line-1].junk {
				p.t.Errorf("line %d is refused: %s", e.Line, e.Error)
			}
		}
		p.ledger.acknowledged(lines[acked:r.Through])
		acked = r.Through
	}
}

// trickle writes lines in pieces that end anywhere, with a pause now and then.
func trickle(ctx context.Context, w io.Writer, lines []line, rng *rand.Rand) error {
	var all []byte
	for i := range lines {
		all = append(all, lines[i].text...)
	}
	for len(all) > 0 {
		n := min(len(all), 1+rng.IntN(16<<10))
		if _, err := w.Write(all[:n]); err != nil {
			return err
		}
		all = all[n:]
		if rng.IntN(3) == 0 {
			pause(ctx, time.Duration(rng.IntN(30))*time.Millisecond)
		}
	}
	return nil
}

// conclude reads the end of an answer. Only junk may have been refused by a
// daemon that took the whole body.
func (p *producer) conclude(lines []line, r *result) (acked int, whole bool) {
	if r.Status != http.StatusOK && r.Status != http.StatusUnprocessableEntity {
		return 0, true // stopping, saturated: send again
	}
	junk := 0
	for i := range lines {
		if lines[i].junk {
			junk++
		}
	}
	if r.Accepted+r.Duplicates+r.Rejected != len(lines) || r.Rejected != junk {
		p.t.Errorf("of %d lines, %d of them junk, %d were accepted, %d duplicates, %d rejected: %v",
			len(lines), junk, r.Accepted, r.Duplicates, r.Rejected, r.Errors)
	}
	p.ledger.acknowledged(lines)
	p.ledger.told(r.Duplicates)
	return len(lines), true
}

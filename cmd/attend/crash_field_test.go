package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"attend/internal/field"
	"attend/internal/fields"
)

// author is an agent that writes into a Field, changes what it has written, and
// never sends anything again: what is in the Field twice was written twice.
type author struct {
	t      *testing.T
	at     host
	ledger *ledger
	rng    *rand.Rand
	name   string
	client *http.Client

	serial int
	drafts []string          // ids of its own
	stands []string          // ids of its own committed entries that stand
	marks  map[string]string // id → mark
}

func newAuthor(t *testing.T, at host, l *ledger, name string, rng *rand.Rand) *author {
	return &author{
		t: t, at: at, ledger: l, rng: rng, name: name, marks: make(map[string]string),
		client: &http.Client{Transport: &http.Transport{}, Timeout: time.Minute},
	}
}

// mark is what an entry is known by, whatever its id.
type mark struct {
	Of string `json:"of"`
}

// crashAuthors are the names of the authors. Two of them share a Field.
func crashAuthors() []string { return []string{"ada", "bob", "cleo"} }

// field is the Field that an author writes into.
func (a *author) field() string {
	if a.name == "cleo" {
		return "shop/1"
	}
	return "default"
}

// run writes until quit is closed.
func (a *author) run(ctx context.Context, quit <-chan struct{}) {
	defer a.client.CloseIdleConnections()
	for {
		select {
		case <-quit:
			return
		case <-ctx.Done():
			return
		default:
		}
		a.act(ctx)
		pause(ctx, time.Duration(a.rng.IntN(40))*time.Millisecond)
	}
}

// act does one thing, at times to an entry that it has made.
func (a *author) act(ctx context.Context) {
	switch roll := a.rng.IntN(20); {
	case roll < 9:
		if id, ok := a.write(ctx, "write", nil); ok {
			a.stands = append(a.stands, id)
		}
	case roll < 12:
		if id, ok := a.write(ctx, "draft", nil); ok {
			a.drafts = append(a.drafts, id)
		}
	case roll < 14 && len(a.drafts) > 0:
		if id := take(a.rng, &a.drafts); a.change(ctx, id, "commit", field.StatusCommitted, map[string]any{"draft_id": id}) {
			a.stands = append(a.stands, id)
		}
	case roll < 15 && len(a.drafts) > 0:
		id := take(a.rng, &a.drafts)
		a.change(ctx, id, "discard", field.StatusRetracted, map[string]any{"draft_id": id, "intent": "given up by " + a.name})
	case roll < 16 && len(a.stands) > 0:
		id := take(a.rng, &a.stands)
		a.change(ctx, id, "retract", field.StatusRetracted, map[string]any{"id": id, "agent": a.name, "intent": "taken back by " + a.name})
	case roll < 18 && len(a.stands) > 0:
		old := take(a.rng, &a.stands)
		a.ledger.entryChanges(old)
		if id, ok := a.write(ctx, "supersede", map[string]any{"superseding_id": old}); ok {
			a.ledger.entryIs(old, field.StatusSuperseded)
			a.stands = append(a.stands, id)
		}
	case roll < 19:
		a.call(ctx, "register", map[string]any{"id": a.name, "role": fmt.Sprintf("author %d", a.serial)}, nil)
	default:
		a.readBack(ctx)
	}
}

// take takes one out at random.
func take(rng *rand.Rand, from *[]string) string {
	i := rng.IntN(len(*from))
	id := (*from)[i]
	*from = slices.Delete(*from, i, i+1)
	return id
}

// write makes an entry that has never been sent before.
func (a *author) write(ctx context.Context, op string, params map[string]any) (id string, ok bool) {
	a.serial++
	// Few entries share a topic, so that few contradict each other.
	topic := fmt.Sprintf("t%d", a.serial/8)
	sent := sentEntry{field: a.field(), mark: fmt.Sprintf("%s-%d", a.name, a.serial)}
	body := map[string]any{
		"agent": a.name, "intent": "written while the daemon is killed",
		"entry": map[string]any{"topic": topic, "mark": mark{sent.mark}, "v": a.rng.IntN(3)}, // an object is not compared
	}
	for name, value := range params {
		body[name] = value
	}
	a.ledger.entrySent(sent, fields.ScopeOf(sent.field, json.RawMessage(`"`+topic+`"`)))
	var got struct {
		ID    string
		Epoch int64
		Draft string `json:"draft_id"`
	}
	if !a.call(ctx, op, body, &got) {
		return "", false
	}
	status := field.StatusCommitted
	if id = got.ID; got.Draft != "" {
		id, status = got.Draft, field.StatusDraft
		got.Epoch = -1 // it is not told
	}
	a.marks[id] = sent.mark
	a.ledger.entryAcked(sent, id, got.Epoch)
	a.ledger.entryIs(id, status)
	return id, true
}

// change changes an entry's status. Without an answer nobody knows which it has.
func (a *author) change(ctx context.Context, id, op string, to field.Status, params map[string]any) bool {
	a.ledger.entryChanges(id)
	var got struct{ Epoch int64 }
	if !a.call(ctx, op, params, &got) {
		return false
	}
	if op == "commit" {
		a.ledger.entryMoved(id, got.Epoch)
	}
	a.ledger.entryIs(id, to)
	return true
}

// readBack asks for an entry that was acknowledged.
func (a *author) readBack(ctx context.Context) {
	if len(a.stands) == 0 {
		return
	}
	id := a.stands[a.rng.IntN(len(a.stands))]
	var got struct{ Entries []field.Entry }
	if !a.call(ctx, "read", map[string]any{"query": map[string]any{"mark": mark{a.marks[id]}}}, &got) {
		return
	}
	if len(got.Entries) != 1 || got.Entries[0].ID != id || got.Entries[0].Status != field.StatusCommitted {
		a.t.Errorf("entry %s of %s was acknowledged, and read shows %+v", id, a.name, got.Entries)
	}
}

// call makes one call, and reports whether it was answered.
func (a *author) call(ctx context.Context, op string, params map[string]any, out any) bool {
	params["field"] = a.field()
	body, err := json.Marshal(params)
	if err != nil {
		a.t.Error(err)
		return false
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.at.base()+"/v1/field/"+op, bytes.NewReader(body))
	if err != nil {
		a.t.Error(err)
		return false
	}
	req.GetBody = nil // a transport that could would send it again
	req.Header.Set("Content-Type", "application/json")
	switch status := do(a.client, req, out); status {
	case http.StatusOK:
		return true
	case 0, http.StatusServiceUnavailable: // killed, or about to stop
	default:
		a.t.Errorf("POST /v1/field/%s is answered with status %d: %s", op, status, body)
	}
	return false
}

// readFields reads the changes of every Field.
func (w *world) readFields(from leftovers) map[string][]*field.Change {
	w.t.Helper()
	names, err := from.FieldNames(w.t.Context(), "", 100)
	if err != nil {
		w.t.Fatal(err)
	}
	all := make(map[string][]*field.Change)
	for _, name := range names {
		for {
			page, err := from.FieldChanges(w.t.Context(), name, int64(len(all[name])), 1000)
			if err != nil {
				w.t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, c := range page {
				if want := int64(len(all[name]) + 1); c.Number != want {
					w.t.Fatalf("field %q: change %d has number %d", name, want, c.Number)
				}
				change, err := field.DecodeChange(c.Format, c.Body)
				if err != nil {
					w.t.Fatalf("field %q: change %d: %v", name, c.Number, err)
				}
				all[name] = append(all[name], change)
			}
		}
	}
	return all
}

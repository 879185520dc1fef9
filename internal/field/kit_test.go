package field_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"attend/internal/field"
)

var (
	referenceMode = field.Settings{Mode: field.Reference, MinIntent: field.DefaultMinIntent}
	gradedMode    = field.DefaultSettings()

	intent20 = strings.Repeat("i", 20)
	intent60 = strings.Repeat("i", 60)
)

// world is a Field with a clock that moves by a millisecond an operation, and
// ids e1, e2, ... for what is written and drafted.
type world struct {
	t     testing.TB
	set   field.Settings
	state *field.State
	log   []*field.Change
	now   int64
	made  int
	id    string // of the last entry or draft
}

func newWorld(t testing.TB, set field.Settings) *world {
	return &world{t: t, set: set, state: field.NewState(), now: 1000}
}

// try runs an operation and applies what it decided.
func (w *world) try(op field.Op, params string) (any, error) {
	w.t.Helper()
	w.now++
	draw := field.Draw{Now: w.now, ID: "e" + strconv.Itoa(w.made+1)}
	d, err := w.state.Decide(op, json.RawMessage(params), w.set, draw)
	if err != nil {
		return nil, err
	}
	if d.Change != nil {
		if err := w.state.Apply(d.Change); err != nil {
			w.t.Fatalf("%s %s: %v", op, params, err)
		}
		w.log = append(w.log, d.Change)
		if d.Change.ID == draw.ID {
			w.made++
			w.id = draw.ID
		}
	}
	return d.Result, nil
}

// do is try for what must work.
func (w *world) do(op field.Op, format string, args ...any) any {
	w.t.Helper()
	params := fmt.Sprintf(format, args...)
	result, err := w.try(op, params)
	if err != nil {
		w.t.Fatalf("%s %s: %v", op, params, err)
	}
	return result
}

// code is try for what must be refused; "" when it is not.
func (w *world) code(op field.Op, params string) string {
	w.t.Helper()
	before := w.state.Number()
	_, err := w.try(op, params)
	var e *field.Error
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &e):
		w.t.Fatalf("%s %s: %v", op, params, err)
	case e.Message == "" || w.state.Number() != before:
		w.t.Fatalf("%s %s: %+v, and the field moved from %d to %d", op, params, e, before, w.state.Number())
	}
	return e.Code
}

func (w *world) write(agent, payload, intent string) string {
	w.t.Helper()
	w.do(field.OpWrite, `{"agent":%q,"entry":%s,"intent":%s}`, agent, payload, quoted(intent))
	return w.id
}

func (w *world) draft(agent, payload string) string {
	w.t.Helper()
	w.do(field.OpDraft, `{"agent":%q,"entry":%s,"intent":%q}`, agent, payload, intent20)
	return w.id
}

func (w *world) register(agent, role string) {
	w.t.Helper()
	w.do(field.OpRegister, `{"id":%q,"role":%q}`, agent, role)
}

func (w *world) attune(format string, args ...any) []field.Scored {
	w.t.Helper()
	return w.do(field.OpAttune, format, args...).(field.Attuned).Entries
}

func (w *world) reckon(format string, args ...any) field.Reckoned {
	w.t.Helper()
	return w.do(field.OpReckon, format, args...).(field.Reckoned)
}

func (w *world) read(format string, args ...any) field.Page {
	w.t.Helper()
	return w.do(field.OpRead, format, args...).(field.Page)
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// told shows entries a line each: id, score, what stands behind it, in words.
func told(entries []field.Scored) string {
	var b strings.Builder
	for i := range entries {
		e := &entries[i]
		c := e.Reason.Components
		fmt.Fprintf(&b, "%s %s = %s+%s+%s+%s: %s\n", e.ID, number(e.Score),
			number(c.Topic), number(c.Role), number(c.Recency), number(c.Intent), e.Reason.Summary)
	}
	return b.String()
}

// paired shows conflicts a line each.
func paired(conflicts []field.Conflict) string {
	var b strings.Builder
	for _, c := range conflicts {
		fmt.Fprintf(&b, "%s %s %s", c.A.ID, c.B.ID, strings.Join(c.Keys, ","))
		if len(c.Paths) > 0 {
			fmt.Fprintf(&b, " %s", strings.Join(c.Paths, ","))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// listed shows a page: id, status and epoch of each entry.
func listed(p field.Page) string {
	var parts []string
	for i := range p.Entries {
		e := &p.Entries[i]
		parts = append(parts, fmt.Sprintf("%s:%s:%d", e.ID, e.Status, e.Epoch))
	}
	if p.More {
		parts = append(parts, "more")
	}
	return strings.Join(parts, " ")
}

func ids(entries []field.Scored) string {
	parts := make([]string, len(entries))
	for i := range entries {
		parts[i] = entries[i].ID
	}
	return strings.Join(parts, " ")
}

func lines(parts ...string) string {
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, "\n") + "\n"
}

// equal compares texts.
func equal(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\ngot  %s\nwant %s", what, got, want)
	}
}

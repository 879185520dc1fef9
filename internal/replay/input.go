package replay

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"attend/internal/engine"
)

// Input is what comes into the log from outside: an event, or a step that
// anyone may append.
type Input struct {
	At    engine.Time // when it arrives
	Scope string      // "" for policies and silences, which belong to every scope
	// Event is nil for a step. With Kind 0 the policy in force gives the kind.
	Event *engine.Event
	Step  *engine.Step
}

// Summary tells what a file held.
type Summary struct {
	Lines    int
	Exported bool        // lines of `attend log export`
	Last     engine.Time // the latest arrival or stamp
	Untimed  int         // lines before any that says when: they arrive at 0, in 1970
}

// Reader turns a file into inputs. A line is one of
//
//   - an event as ingest takes it, {"scope","name","id","at","data","text"},
//     which arrives at its seenAt (Unix ms), else at its at (Unix ms or RFC
//     3339), else with the line before; arrivals never fall;
//   - a flush call, {"flush": scope, "at": ms};
//   - a record of `attend log export`: events with their stamps, kinds and
//     policies, and what came from outside (flush calls, gaps, policies,
//     silences, requeues). What the daemon itself wrote is left out: it is what
//     the replay finds. What a whole export holds beside the records is left
//     out too.
type Reader struct {
	// Fresh ignores the policies of an exported log, and the kinds that it gave
	// its events: those in force are asked.
	Fresh bool
}

// line is every shape in one. Times are taken apart later.
type line struct {
	Position engine.Position `json:"position"`
	Stamp    engine.Time     `json:"stamp"`
	Event    *event          `json:"event"`
	Step     jsontext.Value  `json:"step"`

	Flush  *string        `json:"flush"`
	Scope  string         `json:"scope"`
	ID     string         `json:"id"`
	Name   string         `json:"name"`
	At     jsontext.Value `json:"at"`
	SeenAt jsontext.Value `json:"seenAt"`
	Data   jsontext.Value `json:"data"`
	Text   string         `json:"text"`

	// Of a whole export, beside its records.
	AttendLog int            `json:"attendLog"`
	Aside     jsontext.Value `json:"aside"`
	State     jsontext.Value `json:"state"`
	Row       jsontext.Value `json:"row"`
	Change    jsontext.Value `json:"change"`
	End       jsontext.Value `json:"end"`
}

// beside reports whether the line is no record, but belongs to an exported log.
func (l *line) beside() bool {
	return l.AttendLog > 0 || len(l.Aside)+len(l.State)+len(l.Row)+len(l.Change)+len(l.End) > 0 && l.Name == "" && l.Flush == nil
}

// event is an event in a line of an exported log.
type event struct {
	ID     string         `json:"id"`
	Name   string         `json:"name"`
	Kind   engine.Kind    `json:"kind"`
	Policy uint32         `json:"policy"`
	At     *engine.Time   `json:"at"`
	Data   jsontext.Value `json:"data"`
	Bytes  []byte         `json:"dataBytes"` // in its place, in a whole export
	Text   string         `json:"text"`
}

// Read hands out the inputs of a file in order. name is for errors.
func (r Reader) Read(name string, in io.Reader, take func(Input) error) (Summary, error) {
	var sum Summary
	err := eachLine(name, in, func(n int, b []byte) error {
		sum.Lines++
		var l line
		// Duplicate names inside data are the producer's affair.
		if err := json.Unmarshal(b, &l, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
			return unreadable(err)
		}
		if l.beside() {
			return nil
		}
		input, ok, err := r.input(&l, n, &sum)
		if err != nil || !ok {
			return err
		}
		return take(input)
	})
	return sum, err
}

func (r Reader) input(l *line, n int, sum *Summary) (in Input, ok bool, err error) {
	switch {
	case l.Position > 0:
		sum.Exported = true
		sum.Last = max(sum.Last, l.Stamp)
		in, ok, err = r.exported(l)
	case l.Flush != nil:
		in, ok = Input{Scope: *l.Flush, Step: &engine.Step{Kind: engine.StepFlush}}, true
		err = arrival(l, sum)
	default:
		in, ok = Input{Scope: l.Scope, Event: l.event(n)}, true
		if l.Name == "" {
			return in, false, errors.New("an event needs a name")
		}
		err = arrival(l, sum)
		if t, given, bad := parseTime(l.At); given && bad == nil {
			in.Event.At = &t
		}
	}
	if err == nil && ok && in.Scope == "" && (in.Event != nil || in.Step.Kind == engine.StepFlush) {
		return in, false, errors.New("scope is missing")
	}
	in.At = sum.Last
	return in, ok, err
}

func (l *line) event(n int) *engine.Event {
	if l.ID == "" {
		l.ID = "line-" + strconv.Itoa(n) // the daemon draws one: such an event has no duplicates
	}
	return &engine.Event{ID: l.ID, Name: l.Name, Data: []byte(l.Data), Text: l.Text}
}

// arrival moves the clock to the line's own time, if it has one.
func arrival(l *line, sum *Summary) error {
	for _, v := range []jsontext.Value{l.SeenAt, l.At} {
		t, given, err := parseTime(v)
		if err != nil {
			return err
		}
		if given {
			sum.Last = max(sum.Last, t)
			return nil
		}
	}
	if sum.Last == 0 {
		sum.Untimed++
	}
	return nil
}

// unreadable says in words why a line is none.
func unreadable(err error) error {
	if broken, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.New("not valid JSON: it ends in the middle")
		}
		return fmt.Errorf("not valid JSON: %s", strings.TrimPrefix(broken.Err.Error(), "jsontext: "))
	}
	if wrong, ok := errors.AsType[*json.SemanticError](err); ok && wrong.JSONPointer != "" {
		if wrong.Err != nil {
			return fmt.Errorf("%s: %w", strings.TrimPrefix(string(wrong.JSONPointer), "/"), wrong.Err)
		}
		return fmt.Errorf("%s cannot be a JSON %s: a line is an event, as {\"scope\": \"a\", \"name\": \"message.created\"}", strings.TrimPrefix(string(wrong.JSONPointer), "/"), wrong.JSONKind)
	}
	return errors.New("not an event: a line is an object, as {\"scope\": \"a\", \"name\": \"message.created\"}")
}

// parseTime reads Unix milliseconds or an RFC 3339 string.
func parseTime(v jsontext.Value) (t engine.Time, given bool, err error) {
	switch v.Kind() {
	case jsontext.KindInvalid, jsontext.KindNull:
		return 0, false, nil
	case jsontext.KindNumber:
		ms, err := strconv.ParseInt(string(v), 10, 64)
		if err != nil {
			return 0, false, fmt.Errorf("time %s: want whole Unix milliseconds", v)
		}
		return engine.Time(ms), true, nil
	case jsontext.KindString:
		s, err := jsontext.AppendUnquote(nil, v)
		if err != nil {
			return 0, false, fmt.Errorf("time: %w", err)
		}
		at, err := time.Parse(time.RFC3339, string(s))
		if err != nil {
			return 0, false, fmt.Errorf("time %q: want Unix milliseconds or RFC 3339", s)
		}
		return engine.Time(at.UnixMilli()), true, nil
	default:
		return 0, false, fmt.Errorf("time %s: want Unix milliseconds or RFC 3339", v)
	}
}

// exported reads a record of an exported log; ok is false for what the daemon
// wrote itself.
func (r Reader) exported(l *line) (in Input, ok bool, err error) {
	in.Scope = l.Scope
	if e := l.Event; e != nil {
		in.Event = &engine.Event{ID: e.ID, Name: e.Name, Kind: e.Kind, Policy: e.Policy, At: e.At, Data: []byte(e.Data), Text: e.Text}
		if len(e.Bytes) > 0 {
			in.Event.Data = e.Bytes
		}
		if r.Fresh {
			in.Event.Kind, in.Event.Policy = 0, 0
		}
		return in, true, nil
	}
	in.Step, err = engine.DecodeStep(l.Step, engine.Format)
	if err != nil {
		return in, false, err
	}
	switch in.Step.Kind {
	case engine.StepPolicy:
		return in, !r.Fresh, nil
	case engine.StepFlush, engine.StepGap, engine.StepSilence, engine.StepRequeue:
		return in, true, nil
	default: // the daemon's own, or what moves no window
		return in, false, nil
	}
}

package replay

import (
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"

	"attend/internal/engine"
)

// History writes a log as people read it, a line a record. Text from events is
// escaped.
type History struct {
	Out io.Writer
	// Clock writes an instant; nil writes Unix milliseconds.
	Clock func(engine.Time) string
	// Label writes the id of a window or dead letter; nil writes it whole.
	Label func(id string) string
	// Events shows every event and names those of each window. Without it
	// windows tell how many they hold, and decisions show their notice.
	Events bool
	// Home is a scope that is not named.
	Home string

	ids map[engine.Position]string
	err error
}

// Err is the first error of writing, after which nothing more is written.
func (h *History) Err() error { return h.err }

// Record writes one record with what applying it brought. It fits
// Options.Emit.
func (h *History) Record(rec *engine.Record, out *engine.Outcome) {
	var what, tail string
	switch {
	case rec.Event != nil:
		if !h.Events {
			return
		}
		h.note(rec)
		e := rec.Event
		what, tail = "event", fmt.Sprintf("%s %s %s", e.Kind, engine.EscapeLine(e.Name), engine.EscapeLine(e.ID))
	default:
		what, tail = string(rec.Step.Kind), h.step(rec.Step, out)
	}
	scope := ""
	if rec.Scope != "" && rec.Scope != h.Home {
		scope = engine.EscapeLine(rec.Scope) + "  "
	}
	h.print("%8s  %s%-10s %s%s\n", h.clock(rec.Stamp), scope, what, tail, consequences(out))
	if d := rec.Step; d != nil && d.Decision != nil && !h.Events {
		for line := range strings.Lines(d.Decision.Notice) {
			h.print("          %s\n", strings.TrimSuffix(line, "\n"))
		}
	}
}

func (h *History) print(format string, args ...any) {
	if h.err == nil {
		_, h.err = fmt.Fprintf(h.Out, format, args...)
	}
}

func (h *History) note(rec *engine.Record) {
	if h.ids == nil {
		h.ids = make(map[engine.Position]string)
	}
	h.ids[rec.Position] = rec.Event.ID
}

func (h *History) clock(t engine.Time) string {
	if h.Clock != nil {
		return h.Clock(t)
	}
	return strconv.FormatInt(int64(t), 10)
}

func (h *History) label(id string) string {
	if h.Label != nil {
		return h.Label(id)
	}
	return id
}

// consequences tells what a record did beyond what its own line says.
func consequences(out *engine.Outcome) string {
	var b strings.Builder
	if out.Duplicate {
		b.WriteString("  (duplicate)")
	}
	if out.Age.Count > 0 {
		fmt.Fprintf(&b, "  (age sheds %d)", out.Age.Count)
	}
	if out.Overflow.Count > 0 {
		fmt.Fprintf(&b, "  (overflow sheds %d)", out.Overflow.Count)
	}
	if out.Ignored {
		b.WriteString("  (ignored)")
	}
	if out.Diverged != "" {
		fmt.Fprintf(&b, "  (diverged: %s)", out.Diverged)
	}
	return b.String()
}

func (h *History) step(st *engine.Step, out *engine.Outcome) string {
	switch {
	case st.Settled != nil:
		return h.settled(st.Settled)
	case st.Call != nil:
		return h.call(st.Window, st.Call)
	case st.Failed != nil:
		return h.failed(st.Window, st.Failed)
	case st.Verdict != nil:
		return h.verdict(st.Verdict)
	case st.Delivery != nil:
		return h.delivery(st)
	case st.DeadLetter != nil:
		d := st.DeadLetter
		return fmt.Sprintf("%s of %s after %s: %s", h.label(d.ID), h.label(d.WindowID), plural(d.Attempts, "attempt"), engine.EscapeLine(d.Message))
	case st.Requeue != nil:
		return fmt.Sprintf("%s of %s", h.label(st.Requeue.DeadLetter), h.label(st.Window))
	case st.Policy != nil:
		return fmt.Sprintf("%d, judge %s", st.Policy.Number, st.Policy.Judge)
	case st.Silence != nil:
		return h.silence(st.Silence)
	case st.Shed != nil:
		return fmt.Sprintf("%d for %s", st.Shed.Count, st.Shed.Why)
	case st.Kind == engine.StepFlush && len(out.Marked) == 0:
		return "marks nothing"
	case st.Kind == engine.StepFlush:
		return "marks " + strings.Join(out.Marked, ", ")
	default:
		return ""
	}
}

func (h *History) settled(st *engine.Settled) string {
	var b strings.Builder
	if h.Events {
		fmt.Fprintf(&b, "%s %s due %s", st.Reason, h.events(st.Events), h.clock(st.Due))
	} else {
		fmt.Fprintf(&b, "%s, %s", st.Reason, plural(len(st.Events), "event"))
	}
	if st.Deadline.At != st.Due {
		fmt.Fprintf(&b, ", deadline %s", h.clock(st.Deadline.At))
	}
	if st.Trigger != engine.TriggerDeadline {
		fmt.Fprintf(&b, ", trigger %s", st.Trigger)
	}
	if st.SettledAt != st.Due {
		fmt.Fprintf(&b, ", %d ms late", st.SettledAt-st.Due)
	}
	if st.Held != "" {
		fmt.Fprintf(&b, ", takes in %s", h.label(st.Held))
	}
	if st.Waits > 0 {
		fmt.Fprintf(&b, ", waits %d", st.Waits)
	}
	if st.Dropped > 0 {
		fmt.Fprintf(&b, ", dropped %d", st.Dropped)
	}
	if st.Gap {
		b.WriteString(", gap")
	}
	if st.Silence != "" {
		fmt.Fprintf(&b, ", silence %s", engine.EscapeLine(st.Silence))
	}
	return h.about(st.Window, b.String())
}

// about puts a window's label where it is looked for: short ones first, whole
// ids behind what they are about.
func (h *History) about(id, text string) string {
	if h.Events {
		return h.label(id) + " " + text
	}
	return text + "  " + h.label(id)
}

func (h *History) events(positions []engine.Position) string {
	ids := make([]string, len(positions))
	for i, p := range positions {
		ids[i] = engine.EscapeLine(h.ids[p])
	}
	return "[" + strings.Join(ids, " ") + "]"
}

func (h *History) call(window string, c *engine.Call) string {
	s := fmt.Sprintf("attempt %d", c.Attempt)
	if c.Extra {
		s += " again, outside the ladder"
	}
	if len(c.Offered) == len(engine.Routes()) {
		return h.about(window, s+", wait on offer")
	}
	return h.about(window, s+", no wait")
}

func (h *History) delivery(st *engine.Step) string {
	d := st.Delivery
	s := fmt.Sprintf("attempt %d to %s", d.Attempt, engine.EscapeLine(d.Sink))
	if d.Failed != nil {
		s += " " + failure(d.Failed, h.clock)
	}
	return h.about(d.ID, s)
}

func (h *History) failed(window string, f *engine.Failed) string {
	return h.about(window, fmt.Sprintf("attempt %d %s", f.Attempt, failure(f, h.clock)))
}

// failure tells why an attempt failed, and when the next is made.
func failure(f *engine.Failed, clock func(engine.Time) string) string {
	s := f.Why
	if f.Permanent {
		s += ", permanent"
	}
	if f.Uncounted {
		s += ", not counted"
	}
	switch {
	case f.RetryAt > 0:
		s += ", next at " + clock(f.RetryAt)
	case f.Uncounted:
	default:
		s += ", no more"
	}
	return s
}

func (h *History) verdict(v *engine.Verdict) string {
	var b strings.Builder
	if v.Route == engine.Wait {
		fmt.Fprintf(&b, "until %s", h.clock(v.HeldUntil))
	} else {
		b.WriteString(v.Route.String())
	}
	if len(v.Changed) > 0 {
		changes := make([]string, len(v.Changed))
		for i, c := range v.Changed {
			changes[i] = string(c)
		}
		if v.JudgedRoute != 0 {
			fmt.Fprintf(&b, ", judged %s", v.JudgedRoute)
		}
		fmt.Fprintf(&b, ", changed by %s", strings.Join(changes, ", "))
	}
	if p := v.Probabilities; p != nil && p.Of(v.JudgedRoute) != 1 {
		b.WriteString(", p")
		for _, r := range engine.Routes() {
			if p.Of(r) > 0 {
				fmt.Fprintf(&b, " %s=%.4g", r, p.Of(r))
			}
		}
	}
	names := make([]string, 0, len(v.Predicates))
	for name := range v.Predicates {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintf(&b, ", %s=%.4g", engine.EscapeLine(name), v.Predicates[name])
	}
	if v.Confidence != nil {
		fmt.Fprintf(&b, ", confidence %.4g", *v.Confidence)
	}
	return h.about(v.Window, b.String())
}

func (h *History) silence(s *engine.Silence) string {
	id := engine.EscapeLine(s.ID)
	if s.Ended {
		return id + " ends"
	}
	text := fmt.Sprintf("%s over %s until %s", id, engine.EscapeLine(s.Scope), h.clock(s.Until))
	if s.Event != "" {
		text += ", events " + engine.EscapeLine(s.Event)
	}
	if s.IncludeFlush {
		text += ", flush too"
	}
	return text
}

func plural(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return strconv.Itoa(n) + " " + of + "s"
}

package backup

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"attend/internal/engine"
	"attend/internal/store"
)

const (
	longestLine = 256 << 20 // bytes
	partLines   = 2000      // that one commit takes
	partBytes   = 4 << 20
)

// LineError is a line that cannot be imported.
type LineError struct {
	Line int // 1 is the first
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns what is wrong.
func (e *LineError) Unwrap() error { return e.Err }

// Read brings a file that Write has made into an empty store. Nothing of the
// store can be used until it returns nil: one in which it failed half-way is
// marked, and to be removed.
//
// Errors: a *LineError, store.ErrNotEmpty, or the store's.
func Read(ctx context.Context, from io.Reader, to store.Importer, progress func(Counts)) (Counts, error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 1<<16), longestLine)
	r := &reader{to: to, lines: lines, progress: progress}
	if err := r.header(); err != nil {
		return r.n, r.at(err)
	}
	if err := to.BeginImport(ctx); err != nil {
		return r.n, err
	}
	for r.next() {
		if r.ended {
			return r.n, r.at(errors.New("something stands behind the last line"))
		}
		if err := r.take(); err != nil {
			return r.n, r.at(err)
		}
		if r.size >= partBytes || r.held >= partLines {
			if err := r.send(ctx); err != nil {
				return r.n, r.at(err)
			}
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return r.n, &LineError{r.line + 1, fmt.Errorf("it has more than %d bytes", longestLine)}
	case err != nil:
		return r.n, fmt.Errorf("read behind line %d: %w", r.line, err)
	case !r.ended:
		return r.n, r.at(errors.New("the file ends here, without its last line: it was cut"))
	}
	if err := r.send(ctx); err != nil {
		return r.n, err
	}
	return r.n, to.FinishImport(ctx, store.ImportEnd{
		Position: r.head.Position, Stamp: r.head.Stamp, Kept: store.Kept(r.head.Kept), Checkpoint: r.head.Checkpoint,
	})
}

type reader struct {
	to       store.Importer
	lines    *bufio.Scanner
	line     int
	head     header
	last     engine.Record // the one before
	part     store.ImportPart
	held     int // lines in part
	size     int // bytes of them
	n        Counts
	ended    bool
	progress func(Counts)
}

func (r *reader) next() bool {
	for r.lines.Scan() {
		r.line++
		if len(bytes.TrimSpace(r.lines.Bytes())) > 0 {
			return true
		}
	}
	return false
}

func (r *reader) at(err error) error {
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, context.Canceled) {
		return err
	}
	return &LineError{r.line, err}
}

func (r *reader) header() error {
	if !r.next() {
		return errors.New("there is nothing to import")
	}
	if err := json.Unmarshal(r.lines.Bytes(), &r.head); err != nil {
		return fmt.Errorf("not the first line of an export: %w", err)
	}
	switch h := &r.head; {
	case h.AttendLog == 0:
		return errors.New("not the first line of a whole export, which says attendLog: make one with attend log export --whole")
	case h.AttendLog > Version:
		return fmt.Errorf("the export has version %d, and this binary reads up to %d: use the version of attend that wrote it, or a newer one", h.AttendLog, Version)
	case h.Position < 0 || h.Kept.Events < 0 || h.Kept.Steps < 0 || h.Kept.Steps > h.Kept.Events || h.Kept.Events > h.Position || h.Checkpoint > h.Position:
		return errors.New("the positions in the first line contradict each other")
	}
	return engine.CheckFormat(r.head.Format)
}

// take adds one line to the part.
func (r *reader) take() error {
	b := r.lines.Bytes()
	var l anyLine
	if err := json.Unmarshal(b, &l); err != nil {
		return fmt.Errorf("not a line of an export: %w", err)
	}
	r.held++
	r.size += len(b)
	switch {
	case l.End != nil:
		if *l.End != r.n {
			return fmt.Errorf("the last line counts %+v, and there were %+v: lines are missing", *l.End, r.n)
		}
		r.ended = true
		return nil
	case l.Aside != nil:
		return r.aside(l.Aside)
	case l.State != nil:
		s := l.State
		if s.Position > r.head.Position {
			return fmt.Errorf("the state of %q is at %d, behind the end of the log at %d", s.Scope, s.Position, r.head.Position)
		}
		out := store.StateRow{Scope: s.Scope, Position: s.Position, WakeAt: s.WakeAt, Live: s.Live, Format: s.Format, Body: s.Body}
		for _, b := range s.Blocks {
			out.Blocks = append(out.Blocks, store.Block(b))
		}
		r.part.States = append(r.part.States, out)
		r.n.States++
		return engine.CheckFormat(s.Format)
	case l.Row != nil:
		r.part.Rows = append(r.part.Rows, store.Put{Space: l.Row.Space, Key: l.Row.Key, Value: l.Row.Value})
		r.n.Rows++
		return nil
	case l.Change != nil:
		r.change(l.Change)
		r.n.Changes++
		return nil
	case l.Position > 0:
		return r.record(&l.record)
	default:
		return errors.New("not a line of an export")
	}
}

// record takes a record of the log, which stands where it must.
func (r *reader) record(in *record) error {
	rec, err := in.decode(r.head.Format)
	if err != nil {
		return err
	}
	switch at := rec.Position; {
	case r.n.Records > 0 && at <= r.last.Position:
		return fmt.Errorf("the record at position %d stands behind that at %d", at, r.last.Position)
	case rec.Stamp < r.last.Stamp:
		return fmt.Errorf("the record at position %d was stamped at %d, before the one in front of it at %d", at, rec.Stamp, r.last.Stamp)
	case at > r.head.Position || rec.Stamp > r.head.Stamp:
		return fmt.Errorf("the record at position %d stands behind the end of the log, which the first line gives as %d", at, r.head.Position)
	case at > r.head.Kept.Events && at != max(r.last.Position, r.head.Kept.Events)+1:
		return fmt.Errorf("the record at position %d follows a gap: a line is missing", at)
	case at <= r.head.Kept.Events && rec.Event != nil:
		return fmt.Errorf("the event at position %d was deleted, as the first line has it", at)
	}
	r.last = rec
	r.part.Records = append(r.part.Records, rec)
	r.n.Records++
	return nil
}

func (r *reader) aside(in *record) error {
	rec, err := in.decode(r.head.Format)
	if err != nil {
		return err
	}
	if rec.Event == nil || rec.Position > r.head.Kept.Events {
		return fmt.Errorf("what stands beside the log at position %d is no event that was deleted from it", rec.Position)
	}
	r.part.Aside = append(r.part.Aside, rec)
	r.n.Aside++
	return nil
}

func (r *reader) change(c *change) {
	fields := r.part.Fields
	if n := len(fields); n == 0 || fields[n-1].Name != c.Field {
		fields = append(fields, store.FieldAppend{Name: c.Field, After: c.Number - 1})
	}
	last := &fields[len(fields)-1]
	last.Changes = append(last.Changes, store.FieldChange{Number: c.Number, Format: c.Format, Body: c.Body})
	r.part.Fields = fields
}

// send writes what was gathered.
func (r *reader) send(ctx context.Context) error {
	if r.held == 0 {
		return nil
	}
	err := r.to.Import(ctx, r.part)
	r.part, r.held, r.size = store.ImportPart{}, 0, 0
	if r.progress != nil && err == nil {
		r.progress(r.n)
	}
	return err
}

package backup

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"attend/internal/engine"
	"attend/internal/store"
)

// page is how much is read at once.
const page = 500

// Write writes everything that a snapshot holds. Progress, unless it is nil, is
// told now and then how much there was so far.
func Write(ctx context.Context, from store.Snapshot, to io.Writer, progress func(Counts)) (Counts, error) {
	w := &writer{from: from, out: bufio.NewWriterSize(to, 1<<16), progress: progress}
	for _, part := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"head", w.header}, {"records", w.records}, {"side table", w.aside}, {"states", w.states}, {"rows", w.rows}, {"Fields", w.fields},
	} {
		if err := part.do(ctx); err != nil {
			return w.n, fmt.Errorf("write the %s: %w", part.name, err)
		}
	}
	if err := w.line(line{End: &w.n}); err != nil {
		return w.n, fmt.Errorf("write the end: %w", err)
	}
	if err := w.out.Flush(); err != nil {
		return w.n, fmt.Errorf("write the end: %w", err)
	}
	return w.n, nil
}

type writer struct {
	from     store.Snapshot
	out      *bufio.Writer
	n        Counts
	progress func(Counts)
}

func (w *writer) line(v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	_, err = w.out.Write(b)
	return err
}

func (w *writer) tell() {
	if w.progress != nil {
		w.progress(w.n)
	}
}

func (w *writer) header(ctx context.Context) error {
	head, err := w.from.Head(ctx)
	if err != nil {
		return err
	}
	h := header{AttendLog: Version, Format: engine.Format, Epoch: head.Epoch, Position: head.Position, Stamp: head.Stamp}
	marks, err := w.from.Kept(ctx)
	if err != nil {
		return err
	}
	h.Kept = kept(marks)
	if h.Checkpoint, err = w.from.Covered(ctx); err != nil {
		return err
	}
	return w.line(h)
}

func (w *writer) records(ctx context.Context) error {
	for after := engine.Position(0); ; {
		records, err := w.from.Read(ctx, after, page)
		if err != nil || len(records) == 0 {
			return err
		}
		for i := range records {
			after = records[i].Position
			if err := w.record(&records[i], ""); err != nil {
				return err
			}
		}
		w.n.Records += len(records)
		w.tell()
	}
}

func (w *writer) record(r *engine.Record, key string) error {
	b, err := encodeRecord(r, key)
	if err != nil {
		return fmt.Errorf("record at position %d: %w", r.Position, err)
	}
	_, err = w.out.Write(b)
	return err
}

func (w *writer) aside(ctx context.Context) error {
	for after := engine.Position(0); ; {
		positions, err := w.from.Aside(ctx, after, page)
		if err != nil || len(positions) == 0 {
			return err
		}
		after = positions[len(positions)-1]
		records, err := w.from.Events(ctx, positions)
		if err != nil {
			return err
		}
		for i := range records {
			if err := w.record(&records[i], "aside"); err != nil {
				return err
			}
		}
		w.n.Aside += len(records)
	}
}

func (w *writer) states(ctx context.Context) error {
	for after := ""; ; {
		rows, err := w.from.States(ctx, after, page)
		if err != nil || len(rows) == 0 {
			return err
		}
		for i := range rows {
			r := &rows[i]
			after = r.Scope
			s := state{Scope: r.Scope, Position: r.Position, WakeAt: r.WakeAt, Live: r.Live, Format: r.Format, Body: r.Body}
			for _, b := range r.Blocks {
				s.Blocks = append(s.Blocks, block(b))
			}
			if err := w.line(line{State: &s}); err != nil {
				return err
			}
		}
		w.n.States += len(rows)
		w.tell()
	}
}

func (w *writer) rows(ctx context.Context) error {
	spaces, err := w.from.Spaces(ctx)
	if err != nil {
		return err
	}
	for _, space := range spaces {
		rows, err := w.from.Rows(ctx, space)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if err := w.line(line{Row: &row{Space: r.Space, Key: r.Key, Value: r.Value}}); err != nil {
				return err
			}
		}
		w.n.Rows += len(rows)
	}
	return nil
}

func (w *writer) fields(ctx context.Context) error {
	for after := ""; ; {
		names, err := w.from.FieldNames(ctx, after, page)
		if err != nil || len(names) == 0 {
			return err
		}
		for _, after = range names {
			if err := w.field(ctx, after); err != nil {
				return fmt.Errorf("field %q: %w", after, err)
			}
		}
	}
}

func (w *writer) field(ctx context.Context, name string) error {
	for after := int64(0); ; {
		changes, err := w.from.FieldChanges(ctx, name, after, page)
		if err != nil || len(changes) == 0 {
			return err
		}
		for _, c := range changes {
			after = c.Number
			if err := w.line(line{Change: &change{Field: name, Number: c.Number, Format: c.Format, Body: c.Body}}); err != nil {
				return err
			}
		}
		w.n.Changes += len(changes)
		w.tell()
	}
}

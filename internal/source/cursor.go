package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"attend/internal/engine"
	"attend/internal/store"
)

// row is a source's cursor in the store.
type row struct {
	Format int         `json:"format"`
	Cursor string      `json:"cursor"`
	Server string      `json:"server,omitempty"` // whose it is, as a hash; "" from before that was kept
	At     engine.Time `json:"at"`               // when it was written
}

const rowFormat = 1

// maxCursor bounds a server's cursor, in bytes.
const maxCursor = 64 << 10

// hash names the server whose cursor it is, so that no other is given it.
func (s *Source) hash() string {
	sum := sha256.Sum256([]byte(s.Origin))
	return hex.EncodeToString(sum[:8])
}

// load reads the committed cursor. One that is another server's is not gone on
// from: what was between is lost.
func (w *worker) load(ctx context.Context) error {
	w.stored, w.cursor, w.gap = "", "", false
	b, err := w.s.opt.Rows.Row(ctx, store.SpaceSource, w.f.key)
	if errors.Is(err, store.ErrNotFound) {
		w.f.board.change(func(s *Status) { s.Cursor = false })
		return nil
	}
	if err != nil {
		return store.Describe("read the cursor of a source", err)
	}
	var r row
	if err := json.Unmarshal(b, &r); err != nil {
		return fmt.Errorf("read the cursor of a source: %w", err)
	}
	if r.Format > rowFormat {
		return fmt.Errorf("the cursor of a source has format %d, and this binary reads up to %d: use a newer version", r.Format, rowFormat)
	}
	if r.Server != "" && r.Server != w.f.hash() {
		w.s.log.Warn("a source has another server than its cursor: it starts anew, with a gap", "source", w.f.Name, "server", w.f.Server)
		w.loses()
		r.Cursor = ""
	}
	w.stored, w.cursor = r.Cursor, r.Cursor
	w.f.board.change(func(s *Status) { s.Cursor = r.Cursor != "" })
	return nil
}

// moves takes note of a cursor: that which stands behind what was looked at.
func (w *worker) moves(cursor *string) error {
	if cursor == nil || *cursor == "" {
		return nil
	}
	if len(*cursor) > maxCursor {
		return &fault{kind: kindRefused, remedy: end, cause: fmt.Errorf("the server's cursor has %d bytes: at most %d are kept", len(*cursor), maxCursor)}
	}
	w.cursor = *cursor
	return nil
}

// put is the row of the cursor.
func (w *worker) put() (store.Put, error) {
	b, err := json.Marshal(row{Format: rowFormat, Cursor: w.cursor, Server: w.f.hash(), At: w.s.now()})
	if err != nil {
		return store.Put{}, fmt.Errorf("encode the cursor of a source: %w", err)
	}
	return store.Put{Space: store.SpaceSource, Key: w.f.key, Value: b}, nil
}

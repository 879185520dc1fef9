package mcpserve

import (
	"encoding/json"
	"fmt"

	"attend/internal/field"
)

// maxFieldResult is how many bytes of JSON a result of the Field may have as it
// crosses MCP. A conflict holds two entries whole, so the conflicts may take the
// half of it, or what the first of them needs.
const (
	maxFieldResult = 256 << 10
	maxConflicts   = maxFieldResult / 2
	// resultFrame is kept for what stands around the entries and conflicts.
	resultFrame = 512
)

// fieldResult is a result of the Field, cut to fit.
type fieldResult struct {
	body json.RawMessage
	// For the text, as far as there are any, and not to be changed.
	result    any
	entries   int // how many are in body
	conflicts int
}

// listing is the JSON of a result that holds entries: the Field's own members,
// and how much of them is left out.
type listing struct {
	Entries       []json.RawMessage  `json:"entries"`
	Conflicts     *[]json.RawMessage `json:"conflicts,omitempty"`
	MoreConflicts bool               `json:"more_conflicts,omitempty"`
	More          bool               `json:"more,omitempty"`
	Epoch         *int64             `json:"epoch,omitempty"`
	Cut           int                `json:"cut,omitempty"` // entries and conflicts
}

// showField makes JSON of what an operation has given.
func showField(result any) (*fieldResult, error) {
	shown := &fieldResult{result: result}
	var list *listing
	var err error
	switch r := result.(type) {
	case field.Page:
		list, err = shown.page(&r)
	case field.Attuned:
		list, err = shown.attuned(&r)
	case field.Reckoned:
		list, err = shown.reckoned(&r)
	case json.RawMessage: // of a subscription, who has cut it
		shown.body = r
	default:
		shown.body, err = json.Marshal(result)
	}
	if err == nil && list != nil {
		shown.body, err = json.Marshal(list)
	}
	if err != nil {
		return nil, fmt.Errorf("encode a result of the field: %w", err)
	}
	return shown, nil
}

func (f *fieldResult) page(r *field.Page) (*listing, error) {
	kept, _, err := fitting(r.Entries, maxFieldResult-resultFrame)
	f.entries = len(kept)
	cut := len(r.Entries) - len(kept)
	return &listing{Entries: kept, Cut: cut, More: r.More || cut > 0}, err
}

func (f *fieldResult) attuned(r *field.Attuned) (*listing, error) {
	kept, _, err := fitting(r.Entries, maxFieldResult-resultFrame)
	f.entries = len(kept)
	return &listing{Entries: kept, Cut: r.Cut + len(r.Entries) - len(kept), More: r.More, Epoch: &r.Epoch}, err
}

func (f *fieldResult) reckoned(r *field.Reckoned) (*listing, error) {
	const room = maxFieldResult - resultFrame
	conflicts, size, err := fitting(r.Conflicts, maxConflicts)
	if err == nil && len(conflicts) == 0 && len(r.Conflicts) > 0 {
		conflicts, size, err = fitting(r.Conflicts[:1], room)
	}
	if err != nil {
		return nil, err
	}
	entries, _, err := fitting(r.Entries, room-size)
	f.entries, f.conflicts = len(entries), len(conflicts)
	return &listing{
		Entries: entries, Conflicts: &conflicts, MoreConflicts: r.MoreConflicts, More: r.More, Epoch: &r.Epoch,
		Cut: r.Cut + len(r.Entries) - len(entries) + len(r.Conflicts) - len(conflicts),
	}, err
}

// fitting encodes as many of a list, from its beginning, as fit into so many
// bytes, and returns how many bytes they are.
func fitting[T any](list []T, limit int) (kept []json.RawMessage, size int, err error) {
	kept = []json.RawMessage{}
	for i := range list {
		b, err := json.Marshal(&list[i])
		if err != nil {
			return nil, 0, err
		}
		if size+len(b)+1 > limit {
			break
		}
		kept, size = append(kept, b), size+len(b)+1
	}
	return kept, size, nil
}

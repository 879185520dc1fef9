package fields

import (
	"cmp"
	"encoding/json"
	"slices"
	"sync"

	"attend/internal/field"
)

// maxResult is what a pushed result may have, in bytes of JSON: an occurrence
// of at most 256 KiB with what stands around it.
const maxResult = 256<<10 - 4<<10

// pushed is the result that a subscription carries (docs/field.md, "Told of
// changes").
type pushed struct {
	Field     string             `json:"field"`
	Entries   *[]json.RawMessage `json:"entries,omitempty"`   // none where conflicts alone were asked for
	Conflicts *[]json.RawMessage `json:"conflicts,omitempty"` // of reckon
	More      bool               `json:"more_conflicts,omitempty"`
	MoreUnits bool               `json:"more,omitempty"` // entries beyond what the daemon gives, where they were asked for
	Epoch     int64              `json:"epoch"`
	Cut       int                `json:"cut"` // entries and conflicts left out to fit
}

// evaluate looks at the Field. Its caller has the watch's turn.
func (w *watch) evaluate() *evaluation {
	h := w.h
	h.mu.RLock()
	var found field.Reckoned
	if answer, _ := h.state.Answer(w.query, h.s.opt.Settings); w.op == field.OpReckon { // only a read can fail
		found, _ = answer.(field.Reckoned)
	} else {
		attuned, _ := answer.(field.Attuned)
		found.Entries, found.More = attuned.Entries, attuned.More
	}
	number, epoch, changedAt := h.state.Number(), h.state.Epoch(), h.state.ChangedAt()
	h.mu.RUnlock()

	only := w.op == field.OpReckon && w.query.ConflictsOnly
	identity := field.IdentityOfEntries(found.Entries) // and with it the conflicts among them
	if only {
		identity = identityOfSet(found.Conflicts)
	}
	return &evaluation{
		snapshot: Snapshot{Mark: Mark{Number: number, Identity: identity}, At: changedAt},
		number:   number,
		result: sync.OnceValue(func() json.RawMessage {
			p := pushed{Field: h.name, More: found.MoreConflicts, MoreUnits: found.More, Epoch: epoch}
			room := maxResult
			if w.op == field.OpReckon {
				p.Conflicts = fit(&p, &room, found.Conflicts)
			}
			if !only {
				p.Entries = fit(&p, &room, found.Entries)
			}
			b, _ := json.Marshal(p) // of what has been encoded: it cannot fail
			return b
		}),
	}
}

// identityOfSet stands for a set of conflicts. Their order, and which of a pair
// ranks higher, may move by recency alone.
func identityOfSet(conflicts []field.Conflict) field.Identity {
	set := slices.Clone(conflicts)
	for i := range set {
		if c := &set[i]; c.A.ID > c.B.ID {
			c.A, c.B = c.B, c.A
		}
	}
	slices.SortFunc(set, func(x, y field.Conflict) int {
		return cmp.Or(cmp.Compare(x.A.ID, y.A.ID), cmp.Compare(x.B.ID, y.B.ID))
	})
	return field.IdentityOfConflicts(set)
}

// fit encodes items in order, without those for which there is no room any
// longer. One that is large does not keep out the small ones after it.
func fit[T any](p *pushed, room *int, items []T) *[]json.RawMessage {
	out := make([]json.RawMessage, 0, len(items))
	for i := range items {
		if *room < minItem {
			p.Cut += len(items) - i
			break
		}
		b, err := json.Marshal(&items[i])
		if err != nil || len(b)+1 > *room {
			p.Cut++
			continue
		}
		*room -= len(b) + 1
		out = append(out, b)
	}
	return &out
}

// minItem is less than the smallest item has.
const minItem = 128

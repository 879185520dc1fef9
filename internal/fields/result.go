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

// evaluate looks at the Field. Its caller has the watch's turn. It returns nil
// when it was told to stop.
func (w *watch) evaluate(stop func() bool) *evaluation {
	h := w.h
	h.mu.RLock()
	found := h.state.Gather(w.query, h.s.opt.Settings)
	number, changedAt := h.state.Number(), h.state.ChangedAt()
	h.mu.RUnlock()

	if !found.Compare(stop) {
		return nil
	}
	only := w.op == field.OpReckon && w.query.ConflictsOnly
	identity := field.IdentityOfEntries(found.Entries()) // and with it the conflicts among them
	if only {
		identity = identityOfSet(found.Conflicts())
	}
	found.Fit(field.MaxAnswer) // what is kept until somebody asks for it has a bound
	return &evaluation{
		snapshot: Snapshot{Mark: Mark{Number: number, Identity: identity}, At: changedAt},
		number:   number,
		result: sync.OnceValue(func() json.RawMessage {
			p := pushed{Field: h.name}
			room := maxResult
			var entries []field.Scored
			switch r := found.Result().(type) {
			case field.Attuned:
				p.MoreUnits, p.Epoch, p.Cut, entries = r.More, r.Epoch, r.Cut, r.Entries
			case field.Reckoned:
				p.More, p.MoreUnits, p.Epoch, p.Cut, entries = r.MoreConflicts, r.More, r.Epoch, r.Cut, r.Entries
				p.Conflicts = fit(&p, &room, r.Conflicts)
			}
			if !only {
				p.Entries = fit(&p, &room, entries)
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

package engine

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// storedState is a State as its row holds it. Dedup ids that fill a block are
// stored beside it (Seen.Blocks); the rest stands in Tail.
type storedState struct {
	Scope    string          `json:"scope"`
	Position Position        `json:"position"`
	Time     Time            `json:"time"`
	LastStep Position        `json:"lastStep,omitempty"`
	Open     storedOpen      `json:"open"`
	Held     *Held           `json:"held,omitempty"`
	Slot     *Slot           `json:"slot,omitempty"`
	FreedAt  Time            `json:"freedAt,omitempty"`
	Requeued []Requeue       `json:"requeued,omitempty"`
	Asked    []string        `json:"asked,omitempty"`
	Pending  []storedPending `json:"pending,omitempty"`
	Recent   []Recent        `json:"recent,omitempty"`
	Outbox   *Lane           `json:"outbox,omitempty"`
	Letters  *Lane           `json:"letters,omitempty"`
	SeenFrom int64           `json:"seenFrom,omitempty"`
	SeenTo   int64           `json:"seenTo,omitempty"` // first id of Tail
	Tail     []byte          `json:"tail,omitempty"`
}

type storedOpen struct {
	Events    Members    `json:"events,omitempty"`
	Dropped   int        `json:"dropped,omitempty"`
	Gap       bool       `json:"gap,omitempty"`
	Deadlines []Deadline `json:"deadlines,omitempty"`
}

type storedPending struct {
	Pending
	HeldBefore *Held `json:"heldBefore,omitempty"`
}

// EncodeState writes the state's row. It goes into the store in one commit with
// the blocks of s.Seen.
func EncodeState(s *State) ([]byte, error) {
	st := storedState{
		Scope: s.Scope, Position: s.Position, Time: s.Time, LastStep: s.LastStep,
		Open: storedOpen{Events: s.Open.Events, Dropped: s.Open.Dropped, Gap: s.Open.Gap, Deadlines: s.Open.Deadlines()},
		Held: s.Held, Slot: s.Slot, FreedAt: s.FreedAt, Requeued: s.Requeued, Asked: s.Asked, Recent: s.Recent,
		Outbox: s.Outbox, Letters: s.Letters,
		SeenFrom: s.Seen.first, SeenTo: s.Seen.SealedTo(), Tail: s.Seen.tail(),
	}
	for _, p := range s.Pending {
		st.Pending = append(st.Pending, storedPending{p, p.heldBefore})
	}
	b, err := json.Marshal(st)
	if err != nil {
		return nil, fmt.Errorf("encode state of %q: %w", s.Scope, err)
	}
	return b, nil
}

// DecodeState reads a state's row and its dedup blocks, by rising sequence
// number; format is the number that the row carries. The rules give the
// settings that some hints are derived from anew.
func DecodeState(r *Rules, body []byte, format int, blocks func(yield func(seq int64, body []byte) error) error) (*State, error) {
	s, st, err := decodeStored(r, body, format)
	if err != nil {
		return nil, err
	}
	s.Seen.first = st.SeenFrom
	if blocks != nil {
		load := func(seq int64, body []byte) error { return s.Seen.load(seq, body, st.SeenTo) }
		if err := blocks(load); err != nil {
			return nil, fmt.Errorf("state of %q: %w", s.Scope, err)
		}
	}
	if s.Seen.next() != st.SeenTo {
		return nil, fmt.Errorf("state of %q: dedup blocks end at %d: want %d", s.Scope, s.Seen.next(), st.SeenTo)
	}
	if err := s.Seen.load(st.SeenTo, st.Tail, math.MaxInt64); err != nil {
		return nil, fmt.Errorf("state of %q: %w", s.Scope, err)
	}
	s.Seen.saved = st.SeenTo
	return s, nil
}

// DecodeView reads a state's row without its remembered ids: to be shown, not
// to be folded further.
func DecodeView(r *Rules, body []byte, format int) (*State, error) {
	s, _, err := decodeStored(r, body, format)
	return s, err
}

func decodeStored(r *Rules, body []byte, format int) (*State, *storedState, error) {
	if err := CheckFormat(format); err != nil {
		return nil, nil, err
	}
	var st storedState
	if err := json.Unmarshal(body, &st); err != nil {
		return nil, nil, fmt.Errorf("decode state: %w", err)
	}
	if st.Held != nil && len(st.Held.Members) == 0 {
		return nil, nil, fmt.Errorf("decode state of %q: the held window has no events", st.Scope)
	}
	if err := checkLanes(&st); err != nil {
		return nil, nil, err
	}
	s := &State{
		Scope: st.Scope, Position: st.Position, Time: st.Time, LastStep: st.LastStep,
		Held: st.Held, Slot: st.Slot, FreedAt: st.FreedAt, Requeued: st.Requeued, Asked: st.Asked, Recent: st.Recent,
		Outbox: st.Outbox, Letters: st.Letters,
	}
	for _, p := range st.Pending {
		p.Pending.heldBefore = p.HeldBefore
		s.Pending = append(s.Pending, p.Pending)
	}
	for _, m := range st.Open.Events {
		s.Open.add(m, s.settings(r, m.Policy))
	}
	s.Open.Dropped, s.Open.Gap = st.Open.Dropped, st.Open.Gap
	s.Open.deadlines = deadlines{}
	for _, d := range st.Open.Deadlines {
		for i, reason := range Reasons() {
			if reason == d.Reason {
				s.Open.deadlines.set(i, d.At, d.Event)
			}
		}
	}
	return s, &st, nil
}

// checkLanes refuses a lane that is empty, or waits for a time that it does not
// tell.
func checkLanes(st *storedState) error {
	for _, l := range []*Lane{st.Outbox, st.Letters} {
		if l != nil && (len(l.Queue) == 0 || l.Phase > LaneGivenUp || l.Phase >= LaneBackoff && l.Failed == nil) {
			return fmt.Errorf("decode state of %q: a lane with %d parcels in phase %d is damaged", st.Scope, len(l.Queue), l.Phase)
		}
	}
	return nil
}

// MarshalJSON packs the members: a table of names, then each event as varint
// differences, its kind and its digest, in base64.
func (m Members) MarshalJSON() ([]byte, error) {
	var names []string
	index := make(map[string]int)
	for i := range m {
		if _, ok := index[m[i].Name]; !ok {
			index[m[i].Name] = len(names)
			names = append(names, m[i].Name)
		}
	}
	b := binary.AppendUvarint(nil, uint64(len(names)))
	for _, n := range names {
		b = binary.AppendUvarint(b, uint64(len(n)))
		b = append(b, n...)
	}
	b = binary.AppendUvarint(b, uint64(len(m)))
	var last Member
	for i := range m {
		e := &m[i]
		b = binary.AppendVarint(b, int64(e.Position-last.Position))
		b = binary.AppendVarint(b, int64(e.SeenAt-last.SeenAt))
		b = binary.AppendUvarint(b, uint64(e.Policy))
		b = binary.AppendUvarint(b, uint64(e.Size))        //nolint:gosec // never negative
		b = binary.AppendUvarint(b, uint64(index[e.Name])) //nolint:gosec // never negative
		b = append(append(b, byte(e.Kind)), e.Digest[:]...)
		last = *e
	}
	out := make([]byte, 0, base64.StdEncoding.EncodedLen(len(b))+2)
	out = append(out, '"')
	out = base64.StdEncoding.AppendEncode(out, b)
	return append(out, '"'), nil
}

var errMembers = errors.New("packed events are damaged")

// UnmarshalJSON reads what MarshalJSON wrote.
func (m *Members) UnmarshalJSON(in []byte) error {
	var b []byte
	if err := json.Unmarshal(in, &b); err != nil {
		return fmt.Errorf("%w: %w", errMembers, err)
	}
	r := unpacker{b: b}
	names := make([]string, 0, 8)
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		names = append(names, string(r.bytes(r.uvarint())))
	}
	var out Members
	var last Member
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		e := Member{
			Position: last.Position + Position(r.varint()), SeenAt: last.SeenAt + Time(r.varint()),
			Policy: uint32(r.uvarint()), Size: int32(r.uvarint()), //nolint:gosec // as written
		}
		if name := r.uvarint(); name < uint64(len(names)) {
			e.Name = names[name]
		} else {
			r.bad = true
		}
		if rest := r.bytes(17); !r.bad {
			e.Kind, e.Digest = Kind(rest[0]), Digest(rest[1:])
			r.bad = e.Kind < Closing || e.Kind > Context || e.Size < 0
		}
		out = append(out, e)
		last = e
	}
	if r.bad || len(r.b) > 0 {
		return errMembers
	}
	*m = out
	return nil
}

type unpacker struct {
	b   []byte
	bad bool
}

func (u *unpacker) uvarint() uint64 {
	v, n := binary.Uvarint(u.b)
	if n <= 0 {
		u.bad = true
		return 0
	}
	u.b = u.b[n:]
	return v
}

func (u *unpacker) varint() int64 {
	v, n := binary.Varint(u.b)
	if n <= 0 {
		u.bad = true
		return 0
	}
	u.b = u.b[n:]
	return v
}

func (u *unpacker) bytes(n uint64) []byte {
	if n > uint64(len(u.b)) {
		u.bad = true
		return nil
	}
	out := u.b[:n]
	u.b = u.b[n:]
	return out
}

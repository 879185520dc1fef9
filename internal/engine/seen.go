package engine

import (
	"encoding/binary"
	"fmt"
)

// Seen remembers the ids of accepted events (design, section 3 "Dedup is
// decided by the fold"). Ids stand in the order of acceptance; the oldest are
// let go once the rule has forgotten them, never before.
type Seen struct {
	ids   []seenID // ids[i] has sequence number first+i
	first int64
	index map[Digest]int64 // digest → its newest sequence number; nil while ids are few
	saved int64            // ids below this sequence number are in sealed blocks
}

type seenID struct {
	digest   Digest
	position Position
	forgetAt Time
}

const (
	seenIndexFrom = 24 // below this many ids a scan is as fast as a map
	seenBlock     = 64 // ids in a block of the store
	seenIDBytes   = 32
)

// Len is how many ids are kept.
func (s *Seen) Len() int { return len(s.ids) }

func (s *Seen) next() int64 { return s.first + int64(len(s.ids)) }

// find returns the newest sequence number of a digest.
func (s *Seen) find(d Digest) (int64, bool) {
	if s.index != nil {
		seq, ok := s.index[d]
		return seq, ok
	}
	for i := len(s.ids) - 1; i >= 0; i-- {
		if s.ids[i].digest == d {
			return s.first + int64(i), true
		}
	}
	return 0, false
}

// remembers says whether the scope remembers the id at scope time t, by time
// and number alone; ids of live windows are the state's to add.
func (s *Seen) remembers(d Digest, t Time, dedupIDs int) (known, remembered bool) {
	seq, ok := s.find(d)
	if !ok {
		return false, false
	}
	later := s.next() - 1 - seq
	return true, t < s.ids[seq-s.first].forgetAt && later < int64(dedupIDs)
}

// add remembers an accepted event's id.
func (s *Seen) add(d Digest, p Position, forgetAt Time) {
	s.ids = append(s.ids, seenID{d, p, forgetAt})
	switch {
	case s.index != nil:
		s.index[d] = s.next() - 1
	case len(s.ids) > seenIndexFrom:
		s.index = make(map[Digest]int64, 2*len(s.ids))
		for i := range s.ids {
			s.index[s.ids[i].digest] = s.first + int64(i)
		}
	}
}

// forget lets go of the oldest ids that the rule has forgotten at scope time t,
// up to the first whose event may be in a live window. It returns how many
// were forgotten by number before their time.
func (s *Seen) forget(t Time, dedupIDs int, oldestLive Position) (early int) {
	n := 0
	for n < len(s.ids) {
		id := &s.ids[n]
		byTime := t >= id.forgetAt
		byNumber := int64(len(s.ids)-1-n) >= int64(dedupIDs)
		if !byTime && !byNumber || id.position >= oldestLive {
			break
		}
		if !byTime {
			early++
		}
		if s.index != nil && s.index[id.digest] == s.first+int64(n) {
			delete(s.index, id.digest)
		}
		n++
	}
	s.first += int64(n)
	s.ids = s.ids[n:]
	if len(s.ids) == 0 {
		s.ids, s.index = nil, nil
	}
	return early
}

// Blocks yields the full blocks that have not been stored yet: runs of ids
// with the sequence number of their first, up to SealedTo. Call MarkStored with
// that once they are durable together with the row of EncodeState.
func (s *Seen) Blocks(yield func(seq int64, body []byte)) {
	for seq := s.stored(); seq < s.SealedTo(); seq += seenBlock {
		from := seq - s.first
		yield(seq, packIDs(s.ids[from:from+seenBlock]))
	}
}

// MarkStored says that the blocks up to a sequence number are durable.
func (s *Seen) MarkStored(to int64) { s.saved = max(s.saved, to) }

// DropBlocksBefore is the sequence number below which a stored block holds
// nothing that is kept any more.
func (s *Seen) DropBlocksBefore() int64 { return s.first - seenBlock + 1 }

func (s *Seen) stored() int64 { return max(s.saved, s.first) }

// SealedTo is the end of the last full block.
func (s *Seen) SealedTo() int64 {
	from := s.stored()
	return from + (s.next()-from)/seenBlock*seenBlock
}

// tail packs the ids that fill no block yet.
func (s *Seen) tail() []byte { return packIDs(s.ids[s.SealedTo()-s.first:]) }

// load puts a block back, but for its ids from a sequence number on; blocks
// come by rising sequence number. Owners of a scope that followed each other
// may have cut the same ids into blocks differently: what is there already is
// skipped.
func (s *Seen) load(seq int64, body []byte, to int64) error {
	if len(body)%seenIDBytes != 0 {
		return fmt.Errorf("dedup block of %d bytes: not a multiple of %d", len(body), seenIDBytes)
	}
	for ; len(body) > 0 && seq < to; body, seq = body[seenIDBytes:], seq+1 {
		if seq < s.next() {
			continue
		}
		if seq != s.next() {
			return fmt.Errorf("dedup block starts at %d: want %d", seq, s.next())
		}
		s.add(Digest(body[:16]), Position(binary.BigEndian.Uint64(body[16:])), Time(binary.BigEndian.Uint64(body[24:]))) //nolint:gosec // written by packIDs
	}
	return nil
}

func packIDs(ids []seenID) []byte {
	b := make([]byte, 0, len(ids)*seenIDBytes)
	for i := range ids {
		b = append(b, ids[i].digest[:]...)
		b = binary.BigEndian.AppendUint64(b, uint64(ids[i].position)) //nolint:gosec // never negative
		b = binary.BigEndian.AppendUint64(b, uint64(ids[i].forgetAt)) //nolint:gosec // never negative
	}
	return b
}

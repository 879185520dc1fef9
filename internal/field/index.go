package field

import (
	"math/bits"
	"slices"
)

// blockSize is how many entries one summary stands for.
const blockSize = 128

// index lists the places of committed entries, by rising epoch, in blocks with
// a summary each: with it a scan passes over blocks in which nothing can reach
// the cut. The zero index is empty.
type index struct {
	blocks []block
	len    int
}

// block is a run of an index. It is never empty.
type block struct {
	places  []int32
	agents  uint64 // a bit for each author: agentBit
	only    int32  // the author, when there is but one; else several
	raw     uint8  // the longest intents, as in record
	trimmed uint8
}

const several = -1

func agentBit(n int32) int { return int(n) & 63 }

func (b *block) add(place int32, r *record) {
	if len(b.places) == 0 {
		b.only = r.agent
	} else if b.only != r.agent {
		b.only = several
	}
	b.places = append(b.places, place)
	b.agents |= 1 << agentBit(r.agent)
	b.raw = max(b.raw, r.raw)
	b.trimmed = max(b.trimmed, r.trimmed)
}

// add takes in an entry that is newer than all others.
func (x *index) add(place int32, r *record) {
	if n := len(x.blocks); n == 0 || len(x.blocks[n-1].places) >= blockSize {
		x.blocks = append(x.blocks, block{})
	}
	x.blocks[len(x.blocks)-1].add(place, r)
	x.len++
}

// remove takes out an entry that is in the index.
func (x *index) remove(place int32, list *pages) {
	i, _ := slices.BinarySearchFunc(x.blocks, place, func(b block, p int32) int { return int(b.places[len(b.places)-1]) - int(p) })
	old := x.blocks[i].places
	x.len--
	if len(old) == 1 {
		x.blocks = slices.Delete(x.blocks, i, i+1)
		return
	}
	fresh := block{places: old[:0]}
	for _, p := range old {
		if p != place {
			fresh.add(p, list.at(p))
		}
	}
	x.blocks[i] = fresh
}

// most returns the highest of the values of a block's authors, by agentBit.
func (b *block) most(byBit *[64]float64) float64 {
	top := 0.0
	for m := b.agents; m != 0; m &= m - 1 {
		top = max(top, byBit[bits.TrailingZeros64(m)])
	}
	return top
}

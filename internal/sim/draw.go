package sim

import (
	"hash/fnv"
	"math/bits"
	"strconv"
)

// draws are numbers that follow from a seed alone (splitmix64). Each purpose
// has its own stream, so that leaving one thing out of a world changes little
// else.
type draws struct{ state uint64 }

// newDraws returns the stream of a seed for one purpose.
func newDraws(seed uint64, purpose string) *draws {
	h := fnv.New64a()
	_, _ = h.Write([]byte(strconv.FormatUint(seed, 16) + "/" + purpose)) // never fails
	return &draws{h.Sum64()}
}

func (d *draws) next() uint64 {
	d.state += 0x9e3779b97f4a7c15
	z := d.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below draws a number from 0 to n-1.
func (d *draws) below(n int) int {
	hi, _ := bits.Mul64(d.next(), uint64(n)) //nolint:gosec // n is positive
	return int(hi)                           //nolint:gosec // below n
}

// chance is true in so many cases of a thousand.
func (d *draws) chance(perMille int) bool { return d.below(1000) < perMille }

// pick draws one of the values.
func pick[T any](d *draws, of ...T) T { return of[d.below(len(of))] }

package engine

import "slices"

// cutItem is a line that may be left out to make the rest fit.
type cutItem struct {
	kind Kind
	size int
}

// cutter leaves lines out by the notice's rule (design, section 5 "Notice"):
// consequences and context first, oldest first; then acts from the middle. The
// first act, the last act and every flush stay.
type cutter struct {
	items []cutItem
	keep  []bool
	count int
	bytes int
}

func newCutter(items []cutItem) *cutter {
	c := &cutter{items: items, keep: make([]bool, len(items)), count: len(items)}
	for i := range items {
		c.keep[i] = true
		c.bytes += items[i].size
	}
	return c
}

func (c *cutter) drop(i int) {
	c.keep[i] = false
	c.count--
	c.bytes -= c.items[i].size
}

func (c *cutter) over(maxCount, maxBytes int) bool { return c.count > maxCount || c.bytes > maxBytes }

// cut drops lines until the rest fits, and reports whether it does.
func (c *cutter) cut(maxCount, maxBytes int) bool {
	for i := range c.items {
		if !c.over(maxCount, maxBytes) {
			return true
		}
		if c.keep[i] && c.items[i].kind.Sheddable() {
			c.drop(i)
		}
	}
	c.fromMiddle(maxCount, maxBytes, func(k Kind) bool { return k.Act() && k != Flush })
	return !c.over(maxCount, maxBytes)
}

// cutFlushes drops flushes from the middle, when nothing else is left to drop.
func (c *cutter) cutFlushes(maxCount, maxBytes int) {
	c.fromMiddle(maxCount, maxBytes, func(k Kind) bool { return k == Flush })
}

func (c *cutter) fromMiddle(maxCount, maxBytes int, eligible func(Kind) bool) {
	first, last := c.ends()
	var some []int
	for i := range c.items {
		if c.keep[i] && i != first && i != last && eligible(c.items[i].kind) {
			some = append(some, i)
		}
	}
	for len(some) > 0 && c.over(maxCount, maxBytes) {
		mid := len(some) / 2
		c.drop(some[mid])
		some = slices.Delete(some, mid, mid+1)
	}
}

// ends are the first and the last act.
func (c *cutter) ends() (first, last int) {
	first, last = -1, -1
	for i := range c.items {
		if c.items[i].kind.Act() {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	return first, last
}

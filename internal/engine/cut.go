package engine

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

// CutToFit leaves events out by the notice's rule until the rest takes at most
// maxBytes. size is what an event takes when each text in it is cut to a limit
// in bytes; it never grows as the limit falls. It returns which events stay,
// and the limit to which their texts must be cut: maxBytes where they need not
// be, and no less than least.
func CutToFit(kinds []Kind, maxBytes, least int, size func(i, limit int) int) (keep []bool, limit int) {
	limit = maxBytes
	items := make([]cutItem, len(kinds))
	for i, k := range kinds {
		items[i] = cutItem{k, size(i, limit)}
	}
	c := newCutter(items)
	if c.over(len(items), maxBytes) {
		c.fit(len(items), maxBytes, least, size, func(_, to int) { limit = to })
	}
	return c.keep, limit
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

// fit drops lines until the rest fits. Where even the lines that stay do not,
// each is shortened, to no less than least bytes and by no more than need be;
// then flushes go from the middle. size is what a line takes when it is cut to
// a limit; shorten cuts it.
func (c *cutter) fit(maxCount, maxBytes, least int, size func(i, limit int) int, shorten func(i, limit int)) {
	c.cut(maxCount, maxBytes)
	if c.count == 0 && len(c.items) > 0 {
		// No act, and not even the newest fits: an empty notice says nothing.
		c.restore(len(c.items) - 1)
	}
	if c.count > maxCount {
		c.cutFlushes(maxCount, c.bytes)
	}
	if !c.over(maxCount, maxBytes) {
		return
	}
	limit := c.limit(maxBytes, least, size)
	for i := range c.items {
		if c.keep[i] {
			shorten(i, limit)
			c.bytes += size(i, limit) - c.items[i].size
			c.items[i].size = size(i, limit)
		}
	}
	c.cutFlushes(maxCount, maxBytes)
}

// limit is the greatest length at which the lines that stay fit, or least.
func (c *cutter) limit(maxBytes, least int, size func(i, limit int) int) int {
	fits := func(limit int) bool {
		sum := 0
		for i := range c.items {
			if c.keep[i] {
				sum += size(i, limit)
			}
		}
		return sum <= maxBytes
	}
	low, high := least, maxBytes
	for low < high {
		if mid := (low + high + 1) / 2; fits(mid) {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return low
}

func (c *cutter) restore(i int) {
	c.keep[i] = true
	c.count++
	c.bytes += c.items[i].size
}

// cut drops lines until the rest fits, or until only those are left that stay.
func (c *cutter) cut(maxCount, maxBytes int) {
	for i := range c.items {
		if c.over(maxCount, maxBytes) && c.items[i].kind.Sheddable() {
			c.drop(i)
		}
	}
	c.fromMiddle(maxCount, maxBytes, func(k Kind) bool { return k.Act() && k != Flush })
}

// cutFlushes drops flushes from the middle, when nothing else is left to drop.
func (c *cutter) cutFlushes(maxCount, maxBytes int) {
	c.fromMiddle(maxCount, maxBytes, func(k Kind) bool { return k == Flush })
}

// fromMiddle drops eligible lines, the middle one of those left each time. The
// first and the last act stay.
func (c *cutter) fromMiddle(maxCount, maxBytes int, eligible func(Kind) bool) {
	first, last := c.ends()
	var some []int
	for i := range c.items {
		if c.keep[i] && i != first && i != last && eligible(c.items[i].kind) {
			some = append(some, i)
		}
	}
	// What is dropped grows outwards from the middle: some[low:high].
	low := len(some) / 2
	high := low
	for high-low < len(some) && c.over(maxCount, maxBytes) {
		if left := low + len(some) - high; left/2 < low {
			low--
			c.drop(some[low])
		} else {
			c.drop(some[high])
			high++
		}
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

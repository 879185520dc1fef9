package replay

import "container/heap"

// wakes is a heap of scopes by the time at which their owner must look at
// them.
type wakes []*scope

func (h wakes) Len() int { return len(h) }

func (h wakes) Less(i, j int) bool {
	if h[i].wake != h[j].wake {
		return h[i].wake < h[j].wake
	}
	return h[i].number < h[j].number
}

func (h wakes) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push and Pop belong to package heap.
func (h *wakes) Push(x any) {
	s := x.(*scope)
	s.index = len(*h)
	*h = append(*h, s)
}

// Pop takes the last scope off.
func (h *wakes) Pop() any {
	old := *h
	s := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	s.index = -1
	return s
}

// arm sets the time at which the scope is looked at again.
func (w *World) arm(s *scope) {
	at, ok := w.wakeAt(s)
	switch {
	case ok && s.index < 0:
		s.wake = at
		heap.Push(&w.wakes, s)
	case ok && s.wake != at:
		s.wake = at
		heap.Fix(&w.wakes, s.index)
	case !ok && s.index >= 0:
		heap.Remove(&w.wakes, s.index)
	}
}

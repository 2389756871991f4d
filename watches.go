package limiter

// watches is a heap of waiters by what they need, then by arrival.
type watches []*waiter

func (h watches) Len() int { return len(h) }

func (h watches) Less(i, j int) bool {
	a, b := h[i], h[j]
	if x, y := a.lack(a.watched).need, b.lack(b.watched).need; x != y {
		return x < y
	}
	return a.arrived < b.arrived
}

func (h watches) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push adds a waiter.
func (h *watches) Push(x any) {
	me, _ := x.(*waiter) // heap.Push is called with nothing else
	me.index = len(*h)
	*h = append(*h, me)
}

// Pop removes the last waiter.
func (h *watches) Pop() any {
	last := len(*h) - 1
	me := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return me
}

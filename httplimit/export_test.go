package httplimit

// Pauses returns the number of pauses in memory.
func (t *Transport) Pauses() int {
	t.pauses.mu.Lock()
	defer t.pauses.mu.Unlock()
	return len(t.pauses.until)
}

package llm

import "time"

// ForgetPurses makes what the limiter knows of money old, as time does.
func (l *Limiter) ForgetPurses() {
	l.purses.mu.Lock()
	defer l.purses.mu.Unlock()
	for _, at := range l.purses.entries {
		p := l.purses.entry(at).value
		p.mu.Lock()
		p.read = time.Time{}
		p.mu.Unlock()
	}
}

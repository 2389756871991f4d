package web

import "sync"

// Bound is the most that a holder may have of some [Places] at a time. The holder is
// one of a group, such as a client among clients; a Bound without names counts all
// holders. Full is the error if there is no room.
type Bound struct {
	Group, Name string
	Most        int64
	Full        error
}

// Places counts amounts that calls hold for a while, such as a place among the calls
// under way, or the bytes of a body. Each amount counts under every bound with which
// it was taken, so that one client cannot have the places of all. The zero value is
// ready to use. It is safe for concurrent use.
type Places struct {
	mu   sync.Mutex
	held map[holder]int64
}

type holder struct{ group, name string }

// Take takes n places under some bounds, which the caller gives back with Give. If
// there is no room under one of them, it takes none and returns the error of the first
// that is full.
func (p *Places) Take(n int64, bounds ...Bound) error {
	p.mu.Lock()
	defer p.mu.Unlock()

	for _, b := range bounds {
		if p.held[holder{b.Group, b.Name}]+n > b.Most {
			return b.Full
		}
	}
	p.add(n, bounds)
	return nil
}

// Give gives back n places that were taken under some bounds.
func (p *Places) Give(n int64, bounds ...Bound) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.add(-n, bounds)
}

func (p *Places) add(n int64, bounds []Bound) {
	if p.held == nil {
		p.held = map[holder]int64{}
	}
	for _, b := range bounds {
		at := holder{b.Group, b.Name}
		// A zero entry goes, or names that clients invent would fill the map.
		if p.held[at] += n; p.held[at] == 0 {
			delete(p.held, at)
		}
	}
}

// Held returns what the holder of a bound has.
func (p *Places) Held(b Bound) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held[holder{b.Group, b.Name}]
}

// Holders returns how many holders have anything, all together counted as one.
func (p *Places) Holders() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.held)
}

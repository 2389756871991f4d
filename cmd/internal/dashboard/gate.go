package dashboard

import (
	"context"
	"sync"
	"time"
)

// gate lets calls of viewers pass before work in the background, since both spend
// one read budget.
type gate struct {
	mu   sync.Mutex
	busy int // calls under way
	// free is closed when busy becomes 0. It is nil if no work waits.
	free chan struct{}
}

// enter counts a call until leave.
func (g *gate) enter() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy++
}

// leave ends a call.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy--; g.busy == 0 && g.free != nil {
		close(g.free)
		g.free = nil
	}
}

// yield waits until no call is under way, ctx ends or patience is over.
func (g *gate) yield(ctx context.Context, patience time.Duration) {
	g.mu.Lock()
	if g.busy == 0 {
		g.mu.Unlock()
		return
	}

	if g.free == nil {
		g.free = make(chan struct{})
	}
	free := g.free
	g.mu.Unlock()

	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-free:
	case <-ctx.Done():
	case <-timer.C:
	}
}

// places bounds how many calls of a kind run at a time.
type places chan struct{}

// enter waits for a place.
func (p places) enter(ctx context.Context) error {
	select {
	case p <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p places) leave() { <-p }

package escrow

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// janitor returns the tokens of grants that have ended. One goroutine does this
// until close.
type janitor struct {
	*escrow
	ctx     context.Context //nolint:containedctx // returns outlive the calls that cause them
	mu      sync.Mutex
	idle    sync.Cond // broadcast when the last return of an epoch ends
	closed  bool
	due     dueHeap       // grants that will end
	ended   []*grant      // to return
	epoch   int64         // grows with each flush
	pending map[int64]int // by epoch: ended grants that are not returned yet
	tokens  int64         // of these
	wake    chan struct{}
	done    chan struct{}
}

// Limits of the janitor's work.
const (
	sweepEvery    = 10 * time.Second
	returnsAtOnce = 64
)

func (j *janitor) init(e *escrow) {
	j.escrow, j.ctx, j.wake, j.done = e, context.Background(), make(chan struct{}, 1), make(chan struct{})
	j.idle.L, j.pending = &j.mu, map[int64]int{}
	go j.run()
}

// watch makes sure that a grant of a pot ends in time. It reports false after close:
// then the caller has to end the grant.
func (j *janitor) watch(p *pot, g *grant) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	heap.Push(&j.due, dueGrant{g.due(), p, g})
	j.poke()
	return !j.closed
}

// give has the tokens of an ended grant returned.
func (j *janitor) give(g *grant) {
	tokens := g.tokens()
	if tokens == 0 {
		return
	}

	j.mu.Lock()
	defer j.mu.Unlock()

	// The janitor has ended, so nothing would send this grant. Its request was
	// stuck for longer than Close waits.
	if j.closed {
		j.dropped.Add(tokens)
		return
	}

	j.ended = append(j.ended, g)
	g.epoch = j.epoch
	j.pending[g.epoch]++
	j.tokens += tokens
	j.poke()
}

// poke wakes the goroutine.
func (j *janitor) poke() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// flush waits until all grants that have ended so far are returned or dropped. It
// does not wait for grants that end meanwhile. An error says that ctx ended first.
func (j *janitor) flush(ctx context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()

	// Grants that end from here on belong to the next epoch, so that a busy pot
	// cannot keep this call waiting.
	epoch := j.epoch
	j.epoch++
	if !j.pendingUpTo(epoch) {
		return nil
	}

	defer context.AfterFunc(ctx, func() {
		// The lock keeps this signal from coming between the check of ctx below
		// and Wait, where it would be lost.
		j.mu.Lock()
		defer j.mu.Unlock()
		j.idle.Broadcast()
	})()

	for j.pendingUpTo(epoch) && ctx.Err() == nil {
		j.idle.Wait()
	}

	if j.pendingUpTo(epoch) {
		return ctx.Err()
	}
	return nil
}

func (j *janitor) pendingUpTo(epoch int64) bool {
	for e := range j.pending {
		if e <= epoch {
			return true
		}
	}
	return false
}

// held returns the tokens that are on their way back.
func (j *janitor) held() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.tokens
}

// close waits for the returns, until ctx ends, and ends the goroutine.
func (j *janitor) close(ctx context.Context) {
	// What is not back by the end of ctx is dropped.
	_ = j.flush(ctx)

	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()

	j.poke()

	// A credit that ignores its context must not keep Close waiting.
	select {
	case <-j.done:
	case <-ctx.Done():
	}
}

func (j *janitor) run() {
	defer close(j.done)

	timer := time.NewTimer(sweepEvery)
	defer timer.Stop()

	swept := j.machine()

	// A burst of ended grants must not open hundreds of requests to the store
	// at once.
	slots := make(chan struct{}, returnsAtOnce)

	for {
		now := j.machine()
		if now-swept >= sweepEvery {
			swept = now
			for _, all := range j.everyPots() {
				all.sweep()
			}
		}

		wait, closed := j.endDue(now)
		if closed {
			return
		}

		for _, g := range j.takeEnded() {
			slots <- struct{}{}
			go func() {
				defer func() { <-slots }()
				j.send(g)
			}()
		}

		timer.Reset(min(wait, swept+sweepEvery-now))
		// wake keeps one signal, so a grant that was given before this select
		// still ends the wait.
		select {
		case <-timer.C:
		case <-j.wake:
		}
	}
}

// endDue ends the grants whose hold is over, and returns the time until the next
// one.
func (j *janitor) endDue(now time.Duration) (wait time.Duration, closed bool) {
	for {
		// A pot gives its grants to the janitor under the pot's lock. So the
		// janitor must not lock a pot under its own lock, or both could wait for
		// each other.
		j.mu.Lock()
		if j.closed {
			j.mu.Unlock()
			return 0, true
		}

		if len(j.due) == 0 || j.due[0].at > now {
			wait = sweepEvery
			if len(j.due) > 0 {
				wait = j.due[0].at - now
			}
			j.mu.Unlock()
			return wait, false
		}

		next := heap.Pop(&j.due).(dueGrant) //nolint:forcetypeassert // the heap holds nothing else
		j.mu.Unlock()

		next.pot.mu.Lock()
		// A call may have ended the grant already. Its entry stays in the heap
		// until it is due, since a search would cost more.
		if !next.grant.ended {
			next.pot.end(next.grant)
		}
		next.pot.mu.Unlock()
	}
}

func (j *janitor) takeEnded() []*grant {
	j.mu.Lock()
	defer j.mu.Unlock()
	taken := j.ended
	j.ended = nil
	return taken
}

// send returns the tokens of a grant, or drops them if that would be too late.
func (j *janitor) send(g *grant) {
	tokens := g.tokens()
	credits, lost := g.credits(g.callersTime(j.machine()).UnixMilli())
	err := j.credit(g, credits, func(ctx context.Context, now time.Time) error {
		return g.store.Credit(ctx, now, credits...)
	})
	if err == nil {
		// The bucket has these tokens back, so what it refused before may fit.
		g.pots.returnedTo(credits)
		j.returned.Add(tokens - lost)
		j.dropped.Add(lost)
	} else {
		// It is too late, or unknown whether the store has them: a second
		// attempt could give them back twice.
		j.dropped.Add(tokens)
	}

	j.mu.Lock()
	defer j.mu.Unlock()
	j.tokens -= tokens
	if j.pending[g.epoch]--; j.pending[g.epoch] == 0 {
		delete(j.pending, g.epoch)
		j.idle.Broadcast()
	}
}

// credit calls send within the second hold, at the time of the grant plus the
// machine's time since.
func (j *janitor) credit(g *grant, credits []limiter.Credit, send func(context.Context, time.Time) error) error {
	// The windows of all these tokens have ended.
	if len(credits) == 0 {
		return nil
	}

	now := j.machine()

	// The promise of the package allows for tokens that are out for two holds,
	// and not for longer.
	left := g.deadline() - now
	if left <= 0 || g.late {
		return context.DeadlineExceeded
	}

	ctx, cancel := context.WithTimeout(j.ctx, left)
	defer cancel()
	return send(ctx, g.callersTime(now))
}

// dueGrant is a grant of a pot that ends at a machine time.
type dueGrant struct {
	at    time.Duration
	pot   *pot
	grant *grant
}

// dueHeap orders grants by their end.
type dueHeap []dueGrant

// Len implements heap.Interface.
func (h dueHeap) Len() int { return len(h) }

// Less implements heap.Interface.
func (h dueHeap) Less(a, b int) bool { return h[a].at < h[b].at }

// Swap implements heap.Interface.
func (h dueHeap) Swap(a, b int) { h[a], h[b] = h[b], h[a] }

// Push implements heap.Interface.
func (h *dueHeap) Push(x any) { *h = append(*h, x.(dueGrant)) } //nolint:forcetypeassert,errcheck // only watch pushes

// Pop implements heap.Interface.
func (h *dueHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

package dynamo

import (
	"context"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/pause"
)

// budget limits the read units that requests use. Units accumulate for a second
// at most. A request reserves the units that it is expected to use, and waits
// until they are there. A reply that used more leaves a debt, which the next
// requests wait for.
type budget struct {
	// Units a second, and the most that accumulate.
	rate float64
	// Holds the right to wait for units, so that requests go in order.
	turn chan struct{}

	mu      sync.Mutex
	balance float64
	at      time.Time // of balance
	used    float64
	recent  recentUnits
	// For reads that are not urgent. No call waits for it.
	spare *budget
}

func newBudget(units float64) *budget {
	// Written like this, the condition also replaces NaN.
	if !(units >= 1) {
		units = 1
	}

	b := &budget{rate: units, turn: make(chan struct{}, 1), balance: units, at: time.Now()}
	b.spare = &budget{rate: units * sparePart, balance: units * sparePart, at: b.at}
	return b
}

// reserve waits for units, or for as many as accumulate if that is less. It
// returns a function that the caller must call with the units that were used. If
// alone is set, because the units are unknown, other requests wait for this call.
func (b *budget) reserve(ctx context.Context, units float64, alone bool) (settle func(used float64), err error) {
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}

	for {
		wait := b.take(units)
		if wait == 0 {
			break
		}
		if err := pause.For(ctx, wait); err != nil {
			<-b.turn
			return nil, err
		}
	}

	// The cost of a request with unknown units may be a large debt. The others
	// wait until it is known.
	if !alone {
		<-b.turn
	}

	return func(used float64) {
		b.settle(units, used)
		if alone {
			<-b.turn
		}
	}, nil
}

// take takes units and returns 0, or returns how long to wait for them.
func (b *budget) take(units float64) (wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill()

	// More than the units of a second never accumulate. With 10 units a second,
	// a request of 50 begins at 10 and leaves a debt of 40.
	if missing := min(units, b.rate) - b.balance; missing > 0 {
		// A wait that is rounded to 0 would mean that the units were taken.
		return max(time.Duration(missing/b.rate*float64(time.Second)), time.Millisecond)
	}

	b.balance -= units
	return 0
}

// refill adds the units that have accumulated. The caller holds mu.
func (b *budget) refill() {
	now := time.Now()
	if passed := now.Sub(b.at).Seconds(); passed > 0 {
		b.balance, b.at = min(b.rate, b.balance+passed*b.rate), now
	}
}

// settle replaces reserved units by used ones.
func (b *budget) settle(reserved, used float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill()
	b.balance = min(b.rate, b.balance+reserved-used)
	b.used += used
	b.recent.add(b.at, used)
}

// Used returns the units spent so far.
func (b *budget) Used() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Rate returns the units spent per second, over the last few seconds.
func (b *budget) Rate() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.recent.rate(time.Now())
}

// recentSeconds is the time over which Rate averages.
const recentSeconds = 5

// recentUnits holds the units of the last seconds, by the second modulo their
// number.
type recentUnits struct {
	second [recentSeconds]int64
	units  [recentSeconds]float64
}

func (r *recentUnits) add(at time.Time, units float64) {
	second := at.Unix()
	i := second % recentSeconds

	// The slot may hold the units of an earlier second.
	if r.second[i] != second {
		r.second[i], r.units[i] = second, 0
	}
	r.units[i] += units
}

func (r *recentUnits) rate(at time.Time) (sum float64) {
	for i, second := range r.second {
		if second > at.Unix()-recentSeconds {
			sum += r.units[i]
		}
	}
	return sum / recentSeconds
}

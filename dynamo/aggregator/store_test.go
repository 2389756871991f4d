package aggregator_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
)

// key identifies a snapshot.
type key struct {
	aggregator.ID
	Window limiter.Window
	Start  time.Time
}

// sum is the content of a snapshot.
type sum struct {
	Counters map[string]int64
	Events   int64
	mark     aggregator.Position
}

// model is a Store in memory. Each snapshot has the position of its last entry.
type model struct {
	mu      sync.Mutex
	usage   map[key]*sum
	refills []aggregator.ID
	fails   func() error // returns the error of a write
	after   bool         // the write fails after it was made
}

func newModel() *model { return &model{usage: map[key]*sum{}, fails: func() error { return nil }} }

// AddUsage adds the entries that follow the position.
func (m *model) AddUsage(_ context.Context, a aggregator.Addition) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.fails()
	if err != nil && !m.after {
		return err
	}
	k := key{a.Bucket, a.Window, a.Start}
	s := m.usage[k]
	if s == nil {
		s = &sum{Counters: map[string]int64{}}
		m.usage[k] = s
	}
	for _, e := range a.Entries {
		if s.mark.Feed == e.Position.Feed && e.Position.Number <= s.mark.Number {
			continue
		}
		for limit, n := range e.Used {
			s.Counters[limit] += n
		}
		s.Events++
		s.mark = e.Position
	}
	return err
}

// Refill records the call.
func (m *model) Refill(_ context.Context, _ time.Time, bucket aggregator.ID, _ *aggregator.State) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refills = append(m.refills, bucket)
	return true, m.fails()
}

var errDown = errors.New("the store is down")

// failRandomly fails one write in oneIn, before or after it is made.
func (m *model) failRandomly(rng *rand.Rand, oneIn int) {
	m.fails = func() error {
		if rng.IntN(oneIn) > 0 {
			return nil
		}
		m.after = rng.IntN(2) == 0
		return errDown
	}
}

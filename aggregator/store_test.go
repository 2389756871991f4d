package aggregator_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
)

// key is a snapshot.
type key struct {
	aggregator.ID
	Window limiter.Window
	Start  time.Time
}

// sum is what a snapshot holds.
type sum struct {
	Counters map[string]int64
	Events   int64
	mark     aggregator.Position
}

// model is the meaning of a Store: usage as a map, with a mark that says up to
// where each snapshot was counted.
type model struct {
	mu      sync.Mutex
	usage   map[key]*sum
	refills []aggregator.ID
	fails   func() error // before or after the write, as it likes
	after   bool         // whether a failing write was made all the same
}

func newModel() *model { return &model{usage: map[key]*sum{}, fails: func() error { return nil }} }

// AddUsage adds what is new.
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

// Refill remembers that it was asked to.
func (m *model) Refill(_ context.Context, _ time.Time, bucket aggregator.ID, _ *aggregator.State) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refills = append(m.refills, bucket)
	return true, m.fails()
}

var errDown = errors.New("the store is down")

// unsteady fails one write in so many, before it or after it.
func (m *model) unsteady(rng *rand.Rand, oneIn int) {
	m.fails = func() error {
		if rng.IntN(oneIn) > 0 {
			return nil
		}
		m.after = rng.IntN(2) == 0
		return errDown
	}
}

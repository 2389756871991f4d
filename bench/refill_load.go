package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Limits refill often enough to show within seconds. A call takes one of rpm
// and tpmEach of tpm.
const (
	refillTable     = "refill"
	refillPerSecond = 20
	tpmEach         = 100
)

func refillLimits() []limiter.Limit {
	return []limiter.Limit{
		limiter.PerMinute("rpm", 60*refillPerSecond),
		limiter.PerMinute("tpm", 60*refillPerSecond*tpmEach),
	}
}

// load is a number of takers that share one bucket.
type load struct {
	who     string
	takers  int
	left    int64         // calls that the bucket covers at the start
	offered float64       // calls, as a fraction of those that the refill covers
	looks   time.Duration // interval at which an aggregator reads the stream
	halves  bool          // whether the aggregator has to halve the second requests
}

// arrival is a scheduled call.
type arrival struct {
	at    time.Duration
	taker int
}

// arrivals returns all calls within a span.
func (l load) arrivals(span time.Duration, seed uint64) (all []arrival) {
	// The takers share the load, so each of them makes a part of the calls.
	period := time.Duration(float64(time.Second) * float64(l.takers) / (l.offered * refillPerSecond))

	for taker := range l.takers {
		for _, at := range steady(period, span, seed*100+uint64(taker)) {
			all = append(all, arrival{at, taker})
		}
	}

	slices.SortFunc(all, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	return all
}

// steady returns times within a span: one at a random point of every period.
func steady(period, span time.Duration, seed uint64) (all []time.Duration) {
	random := rand.New(rand.NewPCG(seed, 0))
	for begin := time.Duration(0); begin < span; begin += period {
		all = append(all, begin+time.Duration(random.Int64N(int64(period))))
	}
	return all
}

// roundTrip is the duration of a request. Calls that begin within it are sent
// concurrently.
const roundTrip = 5 * time.Millisecond

// together returns how many of the arrivals, from the first on, are sent
// concurrently.
func together(all []arrival) int {
	n := 1
	for n < len(all) && all[n].at < all[0].at+roundTrip {
		n++
	}
	return n
}

// loaded is the outcome of a load.
type loaded struct {
	asked, admitted int
	second          int   // admitted, but not by their first request
	trips           int64 // requests of all calls
}

func (l loaded) share() float64    { return float64(l.second) / float64(l.admitted) }
func (l loaded) requests() float64 { return float64(l.trips) / float64(l.asked) }
func (l loaded) taken() float64    { return float64(l.admitted) }

func summed(all []loaded) (sum loaded) {
	for _, l := range all {
		sum.asked += l.asked
		sum.admitted += l.admitted
		sum.second += l.second
		sum.trips += l.trips
	}
	return sum
}

// loading is a running load. It passes the time of the arrivals to its calls,
// so the speed of the machine does not matter.
type loading struct {
	table  *refillRig
	begin  time.Time
	takers []*service
	mu     sync.Mutex
	loaded
}

// run makes the calls of the takers, and lets an aggregator read the stream at
// the given times.
func (l *loading) run(ctx context.Context, all []arrival, looks []time.Duration) error {
	for len(all) > 0 {
		for len(looks) > 0 && looks[0] <= all[0].at {
			if err := l.table.aggregate(ctx, l.begin.Add(looks[0])); err != nil {
				return err
			}
			looks = looks[1:]
		}

		n := together(all)
		if err := errors.Join(l.takeAll(ctx, all[:n]), ctx.Err()); err != nil {
			return err
		}

		all = all[n:]
	}
	return nil
}

func (l *loading) takeAll(ctx context.Context, all []arrival) error {
	var wg sync.WaitGroup
	errs := make([]error, len(all))

	for i, a := range all {
		wg.Go(func() { errs[i] = l.take(ctx, a) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (l *loading) take(ctx context.Context, a arrival) error {
	admitted, trips, err := l.takers[a.taker].take(ctx, l.begin.Add(a.at))

	// Calls within a round trip run concurrently.
	l.mu.Lock()
	defer l.mu.Unlock()

	l.asked++
	l.trips += trips
	if admitted {
		l.admitted++
		if trips > 1 {
			l.second++
		}
	}
	return err
}

func (l *loading) close() error {
	var errs []error
	for _, t := range l.takers {
		errs = append(errs, t.repo.Close())
	}
	return errors.Join(errs...)
}

// The amounts of a call, in thousandths.
const rpmTaken, tpmTaken = bucket.Milli, tpmEach * bucket.Milli

// checkBalance checks that the bucket holds its old balance and the refill,
// less the tokens taken: none are lost, and none are made.
func (l *loading) checkBalance(was, is storedBucket) error {
	limits, calls := refillLimits(), int64(l.admitted)
	want := storedBucket{
		refilled: is.refilled,
		rpm:      was.rpm + bucket.Accrued(was.refilled, is.refilled, rateOf(limits[0])) - calls*rpmTaken,
		tpm:      was.tpm + bucket.Accrued(was.refilled, is.refilled, rateOf(limits[1])) - calls*tpmTaken,
	}

	// A balance below 0 would be an admission beyond the limit.
	if is != want || is.rpm < 0 || is.tpm < 0 {
		return fmt.Errorf("the bucket holds %v after %d calls, want %v: tokens were lost or made", is, l.admitted, want)
	}
	return nil
}

package dynamo

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/pause"
)

// A read budget travels in the context of a call. Middleware makes each read of the
// call wait for the units that it is expected to use, and replaces them with those
// that the table bills. Reads that others may wait for, or that have a timeout, do
// not wait: their call has waited before (prepay).

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

var _ limiter.ReadBudgeter = (*Repository)(nil)

// NewReadBudget starts a budget of read units a second. Reads of calls with a
// context that spend returns use it. spent returns the units used so far, and those
// used a second over the last few seconds.
func (r *Repository) NewReadBudget(
	units float64,
) (spend func(context.Context) context.Context, spent func() (units, rate float64)) {
	b := newBudget(units)
	return b.spend, b.spent
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

// spent returns the units used so far, and those used a second lately.
func (b *budget) spent() (units, rate float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used, b.recent.rate(time.Now())
}

// spending is how a call pays for its reads, in its context.
type spending struct {
	*budget
	// Reports that the call has waited. Its reads are counted and do not wait.
	prepaid bool
	// When a request that still waits for units fails with errUnpaid; zero for
	// never.
	until time.Time
}

// errUnpaid is the error of a request whose units did not come in time.
var errUnpaid = errors.New("the read budget is used up")

type spendingKey struct{}

// spendingOf returns how a call pays for its reads. Without a budget, it has none.
func spendingOf(ctx context.Context) spending {
	s, _ := ctx.Value(spendingKey{}).(spending)
	return s
}

// in returns a context whose reads are paid like this.
func (s spending) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, spendingKey{}, s)
}

// spend returns a context whose reads use a budget.
func (b *budget) spend(ctx context.Context) context.Context { return spending{budget: b}.in(ctx) }

// hasBudget reports whether the reads of a call use a budget.
func hasBudget(ctx context.Context) bool { return spendingOf(ctx).budget != nil }

// withoutBudget returns a context whose reads use no budget. It is for reads
// that calls without a budget may wait for.
func withoutBudget(ctx context.Context) context.Context {
	if !hasBudget(ctx) {
		return ctx
	}
	return spending{}.in(ctx)
}

// spendUntil returns a context whose reads fail with errUnpaid if they cannot be
// paid until a time. It returns ctx if its reads use no budget.
func spendUntil(ctx context.Context, until time.Time) context.Context {
	s := spendingOf(ctx)
	if s.budget == nil {
		return ctx
	}
	s.until = until
	return s.in(ctx)
}

// prepay waits for a unit of the call's budget, if it has one. Reads with the
// returned context do not wait again: a timeout is about to start, or other calls
// will wait for them. The function gives the unit back, since the reads count what
// they use.
func prepay(ctx context.Context) (paid context.Context, end func(), err error) {
	s := spendingOf(ctx)
	if s.budget == nil || s.prepaid {
		return ctx, func() {}, nil
	}

	settle, err := s.reserve(ctx, 1, false)
	if err != nil {
		return nil, nil, err
	}

	s.prepaid = true
	return s.in(ctx), func() { settle(0) }, nil
}

// prepayLookup does what prepay does, before a lookup, because other calls wait
// for a read of the cache. If the cache has all facts, it does not wait. A read
// that is necessary all the same, because of an eviction, is counted without a
// wait.
func (c *cache) prepayLookup(
	ctx context.Context, at moment, life time.Duration, keys []factKey,
) (paid context.Context, end func(), err error) {
	s := spendingOf(ctx)
	if s.budget == nil || s.prepaid || !c.has(at, life, keys) {
		return prepay(ctx)
	}

	s.prepaid = true
	return s.in(ctx), func() {}, nil
}

// begin waits until a request can be paid. The function takes the units it used.
func (s spending) begin(ctx context.Context, units float64, alone bool) (settle func(used float64), err error) {
	if s.prepaid {
		return func(used float64) { s.settle(0, used) }, nil
	}

	patient := ctx
	if !s.until.IsZero() {
		var cancel context.CancelFunc
		patient, cancel = context.WithDeadline(ctx, s.until)
		defer cancel()
	}

	// If the caller's own context has ended, its error counts.
	if settle, err = s.reserve(patient, units, alone); err != nil && ctx.Err() == nil {
		err = errUnpaid
	}
	return settle, err
}

// budgetMeter is middleware that makes reads of a call with a budget wait, and
// counts their units.
type budgetMeter struct{}

// ID returns the name of the middleware.
func (budgetMeter) ID() string { return "ReadBudget" }

// HandleInitialize makes the call when its budget allows it. A call that fails
// counts as if it had used what was expected.
func (budgetMeter) HandleInitialize(
	ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler,
) (out middleware.InitializeOutput, metadata middleware.Metadata, err error) {
	s := spendingOf(ctx)
	units, alone := expectedUnits(in.Parameters)
	if s.budget == nil || units == 0 {
		return next.HandleInitialize(ctx, in)
	}

	settle, err := s.begin(ctx, units, alone)
	if err != nil {
		return out, metadata, err
	}

	// Only a response that names its capacity shows what was billed.
	ask(in.Parameters)
	used := units
	defer func() { settle(used) }()

	out, metadata, err = next.HandleInitialize(ctx, in)
	if err == nil {
		var billed usedCapacity
		capacityMeter{&billed}.add(out.Result)
		used, _ = billed.units()
	}
	return out, metadata, err
}

// expectedUnits returns the read units that a request is expected to use, 0 if it
// is no read. It reports as unknown whether it may use many more.
func expectedUnits(parameters any) (units float64, unknown bool) {
	switch in := parameters.(type) {
	case *dynamodb.GetItemInput:
		return unitsPerItem(in.ConsistentRead), false
	case *dynamodb.BatchGetItemInput:
		for _, wanted := range in.RequestItems {
			units += float64(len(wanted.Keys)) * unitsPerItem(wanted.ConsistentRead)
		}
		return units, false
	case *dynamodb.TransactGetItemsInput:
		return 2 * float64(len(in.TransactItems)), false
	case *dynamodb.QueryInput:
		// Assumes items of half a kibibyte. A unit reads four kibibytes.
		const itemsPerUnit = 8
		pages := (max(1, aws.ToInt32(in.Limit)) + itemsPerUnit - 1) / itemsPerUnit
		return float64(pages) * unitsPerItem(in.ConsistentRead), in.Limit == nil
	case *dynamodb.ScanInput:
		return 1, true
	}
	return 0, false
}

// unitsPerItem returns the units for an item of up to four kibibytes.
func unitsPerItem(consistent *bool) float64 {
	if aws.ToBool(consistent) {
		return 1
	}
	return 0.5
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

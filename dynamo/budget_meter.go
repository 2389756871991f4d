package dynamo

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"
)

// spending is the budget of a call, in its context.
type spending struct {
	*budget
	// Units that the call has reserved already, guarded by the budget. It is
	// nil if each request waits by itself.
	prepaid *float64
	// When a request that still waits for units fails with errUnpaid; zero for
	// never.
	until time.Time
}

// errUnpaid is the error of a request whose units did not come in time.
var errUnpaid = errors.New("the read budget is used up")

type spendingKey struct{}

// spend returns a context whose reads use a budget.
func (b *budget) spend(ctx context.Context) context.Context {
	return context.WithValue(ctx, spendingKey{}, spending{budget: b})
}

// spendUntil returns a context whose reads fail with errUnpaid if they cannot be
// paid until a time. It returns ctx if its reads use no budget.
func spendUntil(ctx context.Context, until time.Time) context.Context {
	s, _ := ctx.Value(spendingKey{}).(spending)
	if s.budget == nil {
		return ctx
	}
	s.until = until
	return context.WithValue(ctx, spendingKey{}, s)
}

// withoutBudget returns a context whose reads use no budget. It is for reads
// that calls without a budget may wait for.
func withoutBudget(ctx context.Context) context.Context {
	if ctx.Value(spendingKey{}) == nil {
		return ctx
	}
	return context.WithValue(ctx, spendingKey{}, spending{})
}

// prepay waits for a unit of the call's budget, if it has one. Reads with the
// returned context do not wait again: a timeout is about to start, or other calls
// will wait for them. The function ends the reservation.
func prepay(ctx context.Context) (paid context.Context, end func(), err error) {
	s, _ := ctx.Value(spendingKey{}).(spending)
	if s.budget == nil || s.prepaid != nil {
		return ctx, func() {}, nil
	}

	if _, err := s.reserve(ctx, 1, false); err != nil {
		return nil, nil, err
	}

	s.prepaid = new(1.0)
	return context.WithValue(ctx, spendingKey{}, s), func() { s.settle(s.takePrepaid(), 0) }, nil
}

// prepayLookup does what prepay does, before a lookup, because other calls wait
// for a read of the cache. If the cache has all facts, it does not wait. A read
// that is necessary all the same, because of an eviction, is counted without a
// wait.
func (c *cache) prepayLookup(
	ctx context.Context, at moment, life time.Duration, keys []factKey,
) (paid context.Context, end func(), err error) {
	s, _ := ctx.Value(spendingKey{}).(spending)
	if s.budget == nil || s.prepaid != nil || !c.has(at, life, keys) {
		return prepay(ctx)
	}

	s.prepaid = new(0.0)
	return context.WithValue(ctx, spendingKey{}, s), func() {}, nil
}

// takePrepaid returns the prepaid units that no request has used.
func (s spending) takePrepaid() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	units := *s.prepaid
	*s.prepaid = 0
	return units
}

// hasBudget reports whether the reads of a call use a budget.
func hasBudget(ctx context.Context) bool {
	s, _ := ctx.Value(spendingKey{}).(spending)
	return s.budget != nil
}

// begin waits until a request can be paid. The function takes the units it used.
func (s spending) begin(ctx context.Context, units float64, alone bool) (settle func(used float64), err error) {
	if s.prepaid == nil && s.until.IsZero() {
		return s.reserve(ctx, units, alone)
	}

	if s.prepaid == nil {
		patient, cancel := context.WithDeadline(ctx, s.until)
		defer cancel()

		// If the caller's own context has ended, its error counts.
		if settle, err = s.reserve(patient, units, alone); err != nil && ctx.Err() == nil {
			err = errUnpaid
		}
		return settle, err
	}

	// The call has waited before its first request, which takes over what is
	// left of the reservation.
	return func(used float64) { s.settle(s.takePrepaid(), used) }, nil
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
	s, _ := ctx.Value(spendingKey{}).(spending)
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

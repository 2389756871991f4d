package dynamo

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"
)

// billingTable answers reads after a while, with the units that it bills.
type billingTable struct {
	mu    sync.Mutex
	rng   *rand.Rand
	bills []bill
}

type bill struct {
	at    time.Time
	units float64
}

// HandleInitialize answers a query with up to 16 units, and a batch with what its
// items cost.
func (b *billingTable) HandleInitialize(
	_ context.Context, in middleware.InitializeInput,
) (out middleware.InitializeOutput, metadata middleware.Metadata, err error) {
	b.mu.Lock()
	units := float64(1+b.rng.IntN(32)) / 2
	delay := time.Duration(b.rng.IntN(50)) * time.Millisecond
	if batch, ok := in.Parameters.(*dynamodb.BatchGetItemInput); ok {
		units = 0.5 * float64(len(batch.RequestItems["t"].Keys))
	}
	b.bills = append(b.bills, bill{time.Now(), units})
	b.mu.Unlock()
	time.Sleep(delay)
	billed := types.ConsumedCapacity{CapacityUnits: &units}
	switch in.Parameters.(type) {
	case *dynamodb.BatchGetItemInput:
		out.Result = &dynamodb.BatchGetItemOutput{ConsumedCapacity: []types.ConsumedCapacity{billed}}
	case *dynamodb.QueryInput:
		out.Result = &dynamodb.QueryOutput{ConsumedCapacity: &billed}
	}
	return out, metadata, nil
}

func (b *billingTable) sum() (units float64) {
	for _, bill := range b.bills {
		units += bill.units
	}
	return units
}

// TestBudgetHolds checks that many callers together stay within the budget, in
// every window of time: what accumulates, plus the debt of one reply.
func TestBudgetHolds(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{3, 25, 400} {
		synctest.Test(t, func(t *testing.T) {
			const seconds, largest = 60, 16
			b, table := newBudget(rate), &billingTable{rng: rand.New(rand.NewPCG(1, uint64(rate)))}
			ctx, cancel := context.WithTimeout(b.spend(t.Context()), seconds*time.Second)
			defer cancel()
			var callers sync.WaitGroup
			for i := range 20 {
				callers.Go(func() {
					for ctx.Err() == nil {
						var in any = &dynamodb.QueryInput{}
						if i%2 == 0 {
							in = &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
								"t": {Keys: make([]map[string]types.AttributeValue, 10)},
							}}
						}
						_, _, _ = budgetMeter{}.HandleInitialize(ctx, middleware.InitializeInput{Parameters: in}, table)
					}
				})
			}
			callers.Wait()
			sum, lowest := 0.0, math.Inf(1) // of what was spent beyond the rate, before any bill
			for i, bill := range table.bills {
				paid := rate * bill.at.Sub(table.bills[0].at).Seconds()
				lowest = min(lowest, sum-paid)
				if sum += bill.units; sum-paid-lowest > rate+2*largest {
					t.Fatalf("bill %d is %g units beyond a budget of %g", i, sum-paid-lowest, rate)
				}
			}
			if used, _ := b.spent(); used != table.sum() || used < 0.9*rate*seconds {
				t.Errorf("%g units used by the budget, %g billed, want at least 90 %% of %g", used, table.sum(),
					rate*seconds)
			}
			if _, got := b.spent(); got < 0.7*rate-largest/recentSeconds || got > 1.3*rate+largest {
				t.Errorf("a rate of %g units, by a budget of %g", got, rate)
			}
			time.Sleep(recentSeconds * time.Second)
			if _, got := b.spent(); got != 0 {
				t.Errorf("a rate of %g units after a pause", got)
			}
		})
	}
}

// TestBudgetWaitsEndWithTheContext checks that a call that leaves takes nothing and
// blocks no other.
func TestBudgetWaitsEndWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(1)
		settle, err := b.reserve(t.Context(), 1, false)
		if err != nil {
			t.Fatal(err)
		}
		settle(11)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range 3 {
			if _, err := b.reserve(ctx, 1, true); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v, want the end of the context", err)
			}
		}
		begin := time.Now()
		if _, err := b.reserve(t.Context(), 1, false); err != nil || time.Since(begin) < 9*time.Second ||
			time.Since(begin) > 11*time.Second {
			t.Errorf("%v after %v, want nil after the 10 s that pay the debt", err, time.Since(begin))
		}
	})
}

// TestPrepaidReadsDoNotWait checks that reads inside a reservation do not wait, are
// counted, and that a reservation without reads costs nothing.
func TestPrepaidReadsDoNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, table := newBudget(10), &billingTable{rng: rand.New(rand.NewPCG(1, 1))}
		for range 100 {
			_, end, err := prepay(b.spend(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			end()
		}
		ctx, end, err := prepay(b.spend(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if _, _, err := prepay(ctx); err != nil || time.Since(begin) != 0 {
			t.Errorf("%v after %v, want nil at once", err, time.Since(begin))
		}
		for range 10 {
			_, _, _ = budgetMeter{}.HandleInitialize(ctx,
				middleware.InitializeInput{Parameters: &dynamodb.QueryInput{Limit: aws.Int32(100)}}, table)
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("reads waited for %v", took)
		}
		end()
		if used, _ := b.spent(); used != table.sum() || used < 20 {
			t.Errorf("%g units used, %g billed", used, table.sum())
		}
		begin = time.Now()
		if _, err := b.reserve(t.Context(), 1, false); err != nil || time.Since(begin).Seconds() < (table.sum()-20)/10 {
			t.Errorf("%v after %v, want a wait for the debt of %g units", err, time.Since(begin), table.sum())
		}
	})
}

func TestExpectedUnits(t *testing.T) {
	t.Parallel()
	keys := make([]map[string]types.AttributeValue, 100)
	for name, c := range map[string]struct {
		in      any
		units   float64
		unknown bool
	}{
		"a write": {in: &dynamodb.UpdateItemInput{}},
		"an item": {in: &dynamodb.GetItemInput{ConsistentRead: aws.Bool(true)}, units: 1},
		"a batch": {
			in:    &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{"t": {Keys: keys}}},
			units: 50,
		},
		"a consistent batch": {
			in: &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{"t": {
				Keys: keys, ConsistentRead: aws.Bool(true),
			}}},
			units: 100,
		},
		"a transaction": {
			in: &dynamodb.TransactGetItemsInput{TransactItems: make([]types.TransactGetItem, 3)}, units: 6,
		},
		"a few of a query": {in: &dynamodb.QueryInput{Limit: aws.Int32(24)}, units: 1.5},
		"a query":          {in: &dynamodb.QueryInput{}, units: 0.5, unknown: true},
		"a scan":           {in: &dynamodb.ScanInput{}, units: 1, unknown: true},
	} {
		if units, unknown := expectedUnits(c.in); units != c.units || unknown != c.unknown {
			t.Errorf("%s: %g units, unknown %v; want %g, %v", name, units, unknown, c.units, c.unknown)
		}
	}
}

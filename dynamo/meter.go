package dynamo

import (
	"context"
	"errors"
	"math"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"
)

// usedCapacity sums capacity units, in thousandths.
type usedCapacity struct{ reads, writes atomic.Int64 }

const unitParts = 1000

func (u *usedCapacity) units() (reads, writes float64) {
	return float64(u.reads.Load()) / unitParts, float64(u.writes.Load()) / unitParts
}

// capacityMeter is middleware that asks for the consumed capacity of each call
// and adds it up.
type capacityMeter struct{ used *usedCapacity }

// ID returns the name of the middleware.
func (capacityMeter) ID() string { return "CapacityMeter" }

// HandleInitialize asks for the consumed capacity, makes the call and adds it up.
func (m capacityMeter) HandleInitialize(
	ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler,
) (middleware.InitializeOutput, middleware.Metadata, error) {
	ask(in.Parameters)
	out, metadata, err := next.HandleInitialize(ctx, in)
	m.count(out.Result, err)
	return out, metadata, err
}

// count adds the capacity of a call. The service names no capacity in the error
// of a conditional write, but bills at least one unit.
func (m capacityMeter) count(result any, err error) {
	if _, refused := errors.AsType[*types.ConditionalCheckFailedException](err); refused {
		m.used.writes.Add(unitParts)
	}
	if err == nil {
		m.add(result)
	}
}

// ask sets the parameter that makes the service return the consumed capacity.
func ask(parameters any) {
	const total = types.ReturnConsumedCapacityTotal

	switch in := parameters.(type) {
	case *dynamodb.GetItemInput:
		in.ReturnConsumedCapacity = total
	case *dynamodb.BatchGetItemInput:
		in.ReturnConsumedCapacity = total
	case *dynamodb.TransactGetItemsInput:
		in.ReturnConsumedCapacity = total
	case *dynamodb.QueryInput:
		in.ReturnConsumedCapacity = total
	case *dynamodb.ScanInput:
		in.ReturnConsumedCapacity = total
	case *dynamodb.PutItemInput:
		in.ReturnConsumedCapacity = total
	case *dynamodb.UpdateItemInput:
		in.ReturnConsumedCapacity = total
	case *dynamodb.DeleteItemInput:
		in.ReturnConsumedCapacity = total
	case *dynamodb.BatchWriteItemInput:
		in.ReturnConsumedCapacity = total
	case *dynamodb.TransactWriteItemsInput:
		in.ReturnConsumedCapacity = total
	}
}

// add adds the capacity in a response.
func (m capacityMeter) add(result any) {
	switch out := result.(type) {
	case *dynamodb.GetItemOutput:
		addTo(&m.used.reads, out.ConsumedCapacity)
	case *dynamodb.BatchGetItemOutput:
		addAll(&m.used.reads, out.ConsumedCapacity)
	case *dynamodb.TransactGetItemsOutput:
		addAll(&m.used.reads, out.ConsumedCapacity)
	case *dynamodb.QueryOutput:
		addTo(&m.used.reads, out.ConsumedCapacity)
	case *dynamodb.ScanOutput:
		addTo(&m.used.reads, out.ConsumedCapacity)
	case *dynamodb.PutItemOutput:
		addTo(&m.used.writes, out.ConsumedCapacity)
	case *dynamodb.UpdateItemOutput:
		addTo(&m.used.writes, out.ConsumedCapacity)
	case *dynamodb.DeleteItemOutput:
		addTo(&m.used.writes, out.ConsumedCapacity)
	case *dynamodb.BatchWriteItemOutput:
		addAll(&m.used.writes, out.ConsumedCapacity)
	case *dynamodb.TransactWriteItemsOutput:
		addAll(&m.used.writes, out.ConsumedCapacity)
	}
}

func addTo(sum *atomic.Int64, c *types.ConsumedCapacity) {
	if c != nil && c.CapacityUnits != nil {
		sum.Add(int64(math.Round(*c.CapacityUnits * unitParts)))
	}
}

func addAll(sum *atomic.Int64, all []types.ConsumedCapacity) {
	for i := range all {
		addTo(sum, &all[i])
	}
}

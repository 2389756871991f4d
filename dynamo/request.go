package dynamo

import (
	"context"
	"iter"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/pause"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// Limits of the service.
const (
	maxGets   = 100 // keys in a BatchGetItem
	maxWrites = 25  // deletes in a BatchWriteItem
)

// get returns an item, nil if there is none. All reads are consistent.
func (s *store) get(ctx context.Context, k key) (item, error) {
	ctx, cancel, err := s.withTimeout(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()

	out, err := s.api(ctx).GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &s.table, Key: k.at(), ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		return nil, s.explainTimeout(ctx, s.explain(err))
	}
	return out.Item, nil
}

// getActive checks that the namespace is active, and returns an item as get does.
// Both together have the time of one read.
func (r *Repository) getActive(ctx context.Context, k key) (item, error) {
	ctx, cancel, err := r.withTimeout(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()

	if err := r.requireActive(ctx); err != nil {
		return nil, r.explainTimeout(ctx, err)
	}
	return r.get(ctx, k)
}

// getTogether returns up to 100 items as of one moment. It fails if one of them is
// written meanwhile.
func (s *store) getTogether(ctx context.Context, keys []key) (map[key]item, error) {
	ctx, cancel, err := s.withTimeout(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()

	gets := make([]types.TransactGetItem, len(keys))
	for i, k := range keys {
		gets[i].Get = &types.Get{TableName: &s.table, Key: k.at()}
	}

	out, err := s.api(ctx).TransactGetItems(ctx, &dynamodb.TransactGetItemsInput{TransactItems: gets})
	if err != nil {
		return nil, s.explainTimeout(ctx, s.explain(err))
	}

	found := make(map[key]item, len(keys))
	for _, r := range out.Responses {
		if len(r.Item) > 0 {
			found[item(r.Item).key()] = r.Item
		}
	}
	return found, nil
}

// query iterates over the items of a query that are in a namespace. An index may
// hold others: a client whose policy allows only the partition keys of one
// namespace can still write index keys of another. From the index by resource it
// returns whole items, even if the index holds only their keys.
func (s *store) query(ctx context.Context, ns string, in *dynamodb.QueryInput) iter.Seq2[item, error] {
	in.TableName = &s.table
	found := rules.Pages(func(start item) ([]item, *item, error) {
		in.ExclusiveStartKey = start
		out, err := s.api(ctx).Query(ctx, in)
		if err != nil {
			return nil, nil, s.explain(err)
		}
		items, next := page(out.Items, out.LastEvaluatedKey)
		return slices.DeleteFunc(items, func(it item) bool { return !it.in(ns) }), next, nil
	})

	if aws.ToString(in.IndexName) == indexResource {
		return s.wholeItems(ctx, found)
	}
	return found
}

// scan iterates over the items of a scan.
func (s *store) scan(ctx context.Context, in *dynamodb.ScanInput) iter.Seq2[item, error] {
	in.TableName, in.ConsistentRead = &s.table, aws.Bool(true)
	return rules.Pages(func(start item) ([]item, *item, error) {
		in.ExclusiveStartKey = start
		out, err := s.api(ctx).Scan(ctx, in)
		if err != nil {
			return nil, nil, s.explain(err)
		}
		items, next := page(out.Items, out.LastEvaluatedKey)
		return items, next, nil
	})
}

// page returns the items of a response, and the start of the next page, nil after
// the last.
func page(found []map[string]types.AttributeValue, last item) (items []item, next *item) {
	for _, it := range found {
		items = append(items, it)
	}
	if len(last) > 0 {
		next = &last
	}
	return items, next
}

// queryPrefix returns a query for the items of a partition whose sort keys begin
// with a prefix, in the order of those keys.
func queryPrefix(pk, prefix string) *dynamodb.QueryInput {
	return &dynamodb.QueryInput{
		KeyConditionExpression:    aws.String("#pk = :pk AND begins_with(#sk, :sk)"),
		ExpressionAttributeNames:  map[string]string{"#pk": attrPK, "#sk": attrSK},
		ExpressionAttributeValues: item{":pk": text(pk), ":sk": text(prefix)},
		ConsistentRead:            aws.Bool(true),
	}
}

// queryPartition returns a query for all items of a partition.
func queryPartition(pk string) *dynamodb.QueryInput {
	return &dynamodb.QueryInput{
		KeyConditionExpression:    aws.String("#pk = :pk"),
		ExpressionAttributeNames:  map[string]string{"#pk": attrPK},
		ExpressionAttributeValues: item{":pk": text(pk)},
		ConsistentRead:            aws.Bool(true),
	}
}

// queryIndex returns a query like queryPrefix's for an index, which lags a little
// behind the table. An empty prefix selects all items.
func queryIndex(index, pk, prefix string) *dynamodb.QueryInput {
	in := queryPrefix(pk, prefix)

	if prefix == "" { // a request must not hold an empty key
		in = queryPartition(pk)
	}

	// The service does not read an index consistently. The keys of an index
	// have its name before that of the table's key, as in GSI4PK.
	in.IndexName, in.ConsistentRead = &index, nil
	for placeholder, attr := range in.ExpressionAttributeNames {
		in.ExpressionAttributeNames[placeholder] = index + attr
	}
	return in
}

// deleteAll deletes items without a condition.
func (s *store) deleteAll(ctx context.Context, keys []key) error {
	for len(keys) > 0 {
		n := min(len(keys), maxWrites)
		if err := s.deleteSome(ctx, keys[:n]); err != nil {
			return s.explain(err)
		}
		keys = keys[n:]
	}
	return nil
}

// deleteSome deletes up to maxWrites items.
func (s *store) deleteSome(ctx context.Context, keys []key) error {
	var writes []types.WriteRequest
	for _, k := range keys {
		writes = append(writes, types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: k.at()}})
	}

	for try := 0; len(writes) > 0; try++ {
		if err := pause.For(ctx, backoff(try)); err != nil {
			return err
		}

		out, err := s.api(ctx).BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{
			RequestItems: map[string][]types.WriteRequest{s.table: writes},
		})
		if err != nil {
			return err
		}

		// A busy table leaves some of the items.
		writes = out.UnprocessedItems[s.table]
	}
	return nil
}

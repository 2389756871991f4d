package dynamo

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// Limits of the service.
const (
	maxGets   = 100 // keys in a BatchGetItem
	maxWrites = 25  // deletes in a BatchWriteItem
)

// get reads one item, nil if there is none. All reads are consistent.
func (s *store) get(ctx context.Context, k key) (item, error) {
	ctx, cancel, err := s.timed(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	out, err := s.api(ctx).GetItem(ctx, &dynamodb.GetItemInput{TableName: &s.table, Key: k.at(), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return nil, s.overdue(ctx, s.explain(err))
	}
	return out.Item, nil
}

// look is get for a call about data, which takes no longer in all than one read
// may.
func (r *Repository) look(ctx context.Context, k key) (item, error) {
	ctx, cancel, err := r.timed(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	if err := r.requireActive(ctx); err != nil {
		return nil, r.overdue(ctx, err)
	}
	return r.get(ctx, k)
}

// getAll reads items; those that are not there are not in the map.
func (s *store) getAll(ctx context.Context, keys []key) (map[key]item, error) {
	ctx, cancel, err := s.timed(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	found := make(map[key]item, len(keys))
	for len(keys) > 0 {
		n := min(len(keys), maxGets)
		if err := s.getSome(ctx, keys[:n], found); err != nil {
			return nil, s.overdue(ctx, s.explain(err))
		}
		keys = keys[n:]
	}
	return found, nil
}

func (s *store) getSome(ctx context.Context, keys []key, found map[key]item) error {
	wanted := types.KeysAndAttributes{ConsistentRead: aws.Bool(true)}
	for _, k := range keys {
		wanted.Keys = append(wanted.Keys, k.at())
	}
	for try := 0; len(wanted.Keys) > 0; try++ {
		if err := pause(ctx, try); err != nil {
			return err
		}
		out, err := s.api(ctx).BatchGetItem(ctx, &dynamodb.BatchGetItemInput{
			RequestItems: map[string]types.KeysAndAttributes{s.table: wanted},
		})
		if err != nil {
			return err
		}
		for _, it := range out.Responses[s.table] {
			found[item(it).key()] = it
		}
		wanted = out.UnprocessedKeys[s.table]
	}
	return nil
}

// getTogether reads up to 100 items as they are at one moment, once: what is
// written meanwhile conflicts with it.
func (s *store) getTogether(ctx context.Context, keys []key) (map[key]item, error) {
	ctx, cancel, err := s.timed(ctx)
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
		return nil, s.overdue(ctx, s.explain(err))
	}
	found := make(map[key]item, len(keys))
	for _, r := range out.Responses {
		if len(r.Item) > 0 {
			found[item(r.Item).key()] = r.Item
		}
	}
	return found, nil
}

// query yields the items of a query that are in a namespace, page after page.
// An index may hold others: who may write only under the partition keys of one
// namespace may still give the items there the index keys of another.
func (s *store) query(ctx context.Context, ns string, in *dynamodb.QueryInput) iter.Seq2[item, error] {
	in.TableName = &s.table
	return rules.Pages(func(start item) ([]item, *item, error) {
		in.ExclusiveStartKey = start
		out, err := s.api(ctx).Query(ctx, in)
		if err != nil {
			return nil, nil, s.explain(err)
		}
		items, next := page(out.Items, out.LastEvaluatedKey)
		return slices.DeleteFunc(items, func(it item) bool { return !it.in(ns) }), next, nil
	})
}

// scan yields the items of a scan, page after page.
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

// page is the items of a reply, and where the next one begins, nil if this was
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

// within is a query of the items of a partition whose sort key begins with a
// prefix, in the order of that key.
func within(pk, prefix string) *dynamodb.QueryInput {
	return &dynamodb.QueryInput{
		KeyConditionExpression:    aws.String("#pk = :pk AND begins_with(#sk, :sk)"),
		ExpressionAttributeNames:  map[string]string{"#pk": attrPK, "#sk": attrSK},
		ExpressionAttributeValues: item{":pk": text(pk), ":sk": text(prefix)},
		ConsistentRead:            aws.Bool(true),
	}
}

// partition is a query of all items of a partition.
func partition(pk string) *dynamodb.QueryInput {
	return &dynamodb.QueryInput{
		KeyConditionExpression:    aws.String("#pk = :pk"),
		ExpressionAttributeNames:  map[string]string{"#pk": attrPK},
		ExpressionAttributeValues: item{":pk": text(pk)},
		ConsistentRead:            aws.Bool(true),
	}
}

// indexed is within for an index, which may lag a little. No prefix is all.
func indexed(index, pk, prefix string) *dynamodb.QueryInput {
	in := within(pk, prefix)
	if prefix == "" { // which a request may not hold
		in = partition(pk)
	}
	in.IndexName, in.ConsistentRead = &index, nil
	for placeholder, attr := range in.ExpressionAttributeNames {
		in.ExpressionAttributeNames[placeholder] = index + attr
	}
	return in
}

// transact writes all items or none. It may be sent again safely, so it is: by
// the client, under one token, after failures, and here after conflicts. A
// refusal is a *types.TransactionCanceledException with a reason for each item.
func (s *store) transact(ctx context.Context, items ...types.TransactWriteItem) error {
	for try := 0; ; try++ {
		_, err := s.api(ctx).TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: items})
		if err == nil || resultOf(err) != notExecuted || !retryable(err) || try == maxTries {
			return err
		}
		if err := pause(ctx, try+1); err != nil {
			return err
		}
	}
}

// refusedAt tells whether a transaction was refused because of its item i, and
// what is stored there.
func refusedAt(err error, i int) (stored item, ok bool) {
	cancelled, is := errors.AsType[*types.TransactionCanceledException](err)
	if !is || i >= len(cancelled.CancellationReasons) {
		return nil, false
	}
	reason := cancelled.CancellationReasons[i]
	return reason.Item, deref(reason.Code) == codeConditionFailed
}

// deleteAll deletes items, whatever they hold.
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

func (s *store) deleteSome(ctx context.Context, keys []key) error {
	var writes []types.WriteRequest
	for _, k := range keys {
		writes = append(writes, types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: k.at()}})
	}
	for try := 0; len(writes) > 0; try++ {
		if err := pause(ctx, try); err != nil {
			return err
		}
		out, err := s.api(ctx).BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{
			RequestItems: map[string][]types.WriteRequest{s.table: writes},
		})
		if err != nil {
			return err
		}
		writes = out.UnprocessedItems[s.table]
	}
	return nil
}

// maxTries is how often one call sends a write again.
const maxTries = 8

// pause waits before a try that is not the first, longer each time.
func pause(ctx context.Context, try int) error {
	if try == 0 {
		return nil
	}
	return sleep(ctx, delay(try))
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

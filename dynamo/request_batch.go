package dynamo

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/pause"
)

// getAll returns items by key. The map lacks items that do not exist. All requests
// together have the time of one read.
func (s *store) getAll(ctx context.Context, keys []key) (map[key]item, error) {
	ctx, cancel, err := s.withTimeout(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()

	found, err := s.getBatches(ctx, keys, 0, true)
	return found, s.explainTimeout(ctx, err)
}

// getListed returns items as getAll does, for a listing: a batch may be long, the
// line slow, and the table busy. Options.Timeout starts anew with each reply that
// brings items, as it does with each page.
func (s *store) getListed(ctx context.Context, keys []key) (map[key]item, error) {
	return s.getBatches(ctx, keys, s.listTimeout(ctx), true)
}

// getLagging returns items as getListed does, for half the price. They may lag
// behind the table a little.
func (s *store) getLagging(ctx context.Context, keys []key) (map[key]item, error) {
	return s.getBatches(ctx, keys, s.listTimeout(ctx), false)
}

// listTimeout returns how long a listing waits for the next item, 0 for as long as
// it takes.
func (s *store) listTimeout(ctx context.Context) time.Duration {
	// A long operation, or a call with a timeout of its own, needs no other
	// limit.
	if _, ok := ctx.Value(tryTimeoutKey{}).(time.Duration); ok {
		return 0
	}
	return max(0, s.opts.Timeout)
}

// getBatches returns items by key. It gives up after timeout without an item,
// unless timeout is 0.
func (s *store) getBatches(
	ctx context.Context, keys []key, timeout time.Duration, consistent bool,
) (map[key]item, error) {
	found := make(map[key]item, len(keys))
	for len(keys) > 0 {
		n := min(len(keys), maxGets)
		if err := s.getBatch(ctx, keys[:n], found, timeout, consistent); err != nil {
			return nil, err
		}
		keys = keys[n:]
	}
	return found, nil
}

// getBatch adds up to maxGets items to found. A busy table leaves out some of
// them, and getBatch asks for those again.
func (s *store) getBatch(
	ctx context.Context, keys []key, found map[key]item, timeout time.Duration, consistent bool,
) error {
	wanted := types.KeysAndAttributes{ConsistentRead: &consistent}
	for _, k := range keys {
		wanted.Keys = append(wanted.Keys, k.at())
	}

	since := time.Now() // the last progress
	for try := 0; len(wanted.Keys) > 0; try++ {
		wait := backoff(try)
		if timeout > 0 {
			left := timeout - time.Since(since)
			if left <= 0 {
				return s.busyError(len(wanted.Keys), timeout)
			}
			wait = min(wait, left)
		}

		if err := pause.For(ctx, wait); err != nil {
			return err
		}

		out, err := s.api(ctx).BatchGetItem(ctx, &dynamodb.BatchGetItemInput{
			RequestItems: map[string]types.KeysAndAttributes{s.table: wanted},
		})
		if err != nil {
			return s.explain(err)
		}

		for _, it := range out.Responses[s.table] {
			found[item(it).key()] = it
		}
		rest := out.UnprocessedKeys[s.table]

		// A table that returns some of the items is slow and not stuck, so the
		// timeout starts anew.
		if len(rest.Keys) < len(wanted.Keys) {
			try, since = 0, time.Now()
		}
		wanted = rest
	}
	return nil
}

// busyError returns the error for a table that answers but returns no items.
func (s *store) busyError(items int, after time.Duration) error {
	return &timeoutError{text: fmt.Sprintf(
		"table %q is too busy: it returned none of %d items within %v; try again later, or raise its read capacity",
		s.table, items, after,
	)}
}

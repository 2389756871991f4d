package dynamo

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
)

// resourceProjection returns the attributes that the index by resource of a new
// table holds.
func resourceProjection(lean bool) types.ProjectionType {
	if lean {
		return types.ProjectionTypeKeysOnly
	}
	return types.ProjectionTypeAll
}

// checkResourceIndex returns limiter.ErrExists if Options.LeanIndex is set and the
// table has the other index. No request can change the projection of an index.
func (s *store) checkResourceIndex(index types.GlobalSecondaryIndexDescription) error {
	if !s.opts.LeanIndex || index.Projection == nil || index.Projection.ProjectionType == resourceProjection(true) {
		return nil
	}
	return fmt.Errorf(
		"table %q: %w, and its index by resource holds whole items; only a new table can have a lean index",
		s.table, limiter.ErrExists,
	)
}

// isKeysOnly reports whether an item from the index by resource holds nothing but
// keys.
func (it item) isKeysOnly() bool {
	for attr := range it {
		switch attr {
		case attrPK, attrSK, attrGSI2PK, attrGSI2SK:
		default:
			return false
		}
	}
	return true
}

// wholeItems replaces items of an index that hold nothing but keys by the items of
// the table, in the same order. It reads them in batches, and leaves out those
// that have been deleted since the index was read. Other items pass unchanged.
func (s *store) wholeItems(ctx context.Context, found iter.Seq2[item, error]) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		var batch []item // begins with an item that holds nothing but keys
		for it, err := range found {
			if err != nil {
				// What came before the error is complete, so it is yielded
				// first.
				if s.yieldWhole(ctx, batch, yield) {
					yield(nil, err)
				}
				return
			}

			// A whole item needs no read. It waits all the same if items before
			// it wait for their batch, since the order must not change.
			if len(batch) == 0 && !it.isKeysOnly() {
				if !yield(it, nil) {
					return
				}
				continue
			}

			if batch = append(batch, it); len(batch) == maxGets {
				if !s.yieldWhole(ctx, batch, yield) {
					return
				}
				batch = nil
			}
		}
		s.yieldWhole(ctx, batch, yield)
	}
}

// yieldWhole yields a batch of wholeItems, and reports whether to continue.
func (s *store) yieldWhole(ctx context.Context, batch []item, yield func(item, error) bool) bool {
	var keys []key
	for _, it := range batch {
		// A change of index keys can show an item twice, and a batch must not.
		if k := it.key(); it.isKeysOnly() && !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}

	stored, err := s.getListed(ctx, keys)
	if err != nil {
		yield(nil, err)
		return false
	}

	for _, it := range batch {
		if it.isKeysOnly() {
			it = stored[it.key()]
		}
		// An item that was deleted since the index was read is not in stored.
		if it != nil && !yield(it, nil) {
			return false
		}
	}
	return true
}

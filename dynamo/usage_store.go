package dynamo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// DefaultUsageRetention is the default time for which snapshots are kept.
const DefaultUsageRetention = 90 * 24 * time.Hour

// UsageStore implements [aggregator.Store] for all namespaces of a table.
type UsageStore struct {
	repo      *Repository
	retention time.Duration
}

var _ aggregator.Store = (*UsageStore)(nil)

// UsageStore returns the usage store of the repository's table. A retention of 0
// means DefaultUsageRetention.
func (r *Repository) UsageStore(retention time.Duration) *UsageStore {
	if retention <= 0 {
		retention = DefaultUsageRetention
	}
	return &UsageStore{r, retention}
}

// AddUsage adds entries to a snapshot in one write. The snapshot holds the
// position of the last change it counts, so that a write with entries it already
// counts is refused; AddUsage retries without these. It drops the usage of a
// namespace that is purged or being purged.
func (u *UsageStore) AddUsage(ctx context.Context, a aggregator.Addition) error {
	ctx = withoutTryTimeout(ctx)
	namespace := &Repository{store: u.repo.store, ns: a.Bucket.Namespace, view: true}
	facts, _, err := namespace.lookup(ctx, 0, 0, []factKey{namespace.namespaceFact()}) // not from the cache: a purge may have ended
	if err != nil || !facts[0].exists {
		return err
	}
	k := usageKey(a.Bucket.Namespace, a.Bucket.Entity, a.Bucket.Resource, a.Window, a.Start.UTC().Format(stampLayout))
	for len(a.Entries) > 0 {
		in := u.addUpdate(k, &a).input(&u.repo.table, k)
		in.ReturnValues = types.ReturnValueNone
		_, err := u.repo.slow.UpdateItem(ctx, in)
		if err == nil {
			return nil
		}
		if isWrongType(err) {
			return &limiter.CorruptError{Item: k.String(), Reason: "a counter is not a number; correct it, or delete the item"}
		}
		refusal, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
		if !ok {
			return u.repo.explain(err)
		}
		counted := item(refusal.Item).text(attrMark)
		before := len(a.Entries)
		a.Entries = slices.DeleteFunc(slices.Clone(a.Entries), func(e aggregator.Entry) bool { return mark(e.Position) <= counted })
		if len(a.Entries) == before {
			return fmt.Errorf("snapshot %s: refused though nothing is counted twice: %w", k, u.repo.explain(err))
		}
	}
	return nil
}

// mark returns a position as a snapshot stores it. Numbers of one feed have equal
// length, so marks sort as text.
func mark(p aggregator.Position) string { return p.Feed + ":" + p.Number }

// addUpdate returns the update that adds all entries, unless the snapshot counts
// the first of them already.
func (u *UsageStore) addUpdate(k key, a *aggregator.Addition) *update {
	first, last := a.Entries[0].Position, a.Entries[len(a.Entries)-1].Position
	start := a.Start.UTC().Format(stampLayout)
	up := newUpdate()
	for _, attr := range []struct{ name, value string }{
		{attrEntity, a.Bucket.Entity},
		{attrGSI2PK, resourcePK(a.Bucket.Namespace, a.Bucket.Resource)},
		{attrGSI2SK, usageGSIPrefix + start + "#" + a.Bucket.Entity},
	} {
		up.setTo(up.attr(attr.name), text(attr.value))
	}
	for _, attr := range []struct {
		name  string
		value types.AttributeValue
	}{
		{attrResource, text(a.Bucket.Resource)},
		{attrWindow, text(string(a.Window))},
		{attrWindowStart, text(start)},
		{attrGSI4PK, text(a.Bucket.Namespace)},
		{attrGSI4SK, text(k.pk)},
		{attrTTL, number(u.repo.clock().Add(u.retention).Unix())},
	} {
		name := up.attr(attr.name)
		up.set = appendWords(up.set, ", ", name, "= if_not_exists("+name+",", up.value(attr.value)+")")
	}
	for limit, n := range sumEntries(a.Entries) {
		up.addTo(up.attr(limit), n)
	}
	up.addTo(up.attr(attrEvents), int64(len(a.Entries)))
	sq := up.attr(attrMark)
	up.setTo(sq, text(mark(last)))
	feed := up.value(text(last.Feed + ":"))
	up.when("(attribute_not_exists("+sq+")", "OR NOT begins_with("+sq+",", feed+")", "OR", sq, "<", up.value(text(mark(first)))+")")
	return up
}

// sumEntries returns what entries add to each counter. It skips limits with an
// invalid name, which only other programs allow, since the name could be that of
// another attribute.
func sumEntries(entries []aggregator.Entry) map[string]int64 {
	sums := map[string]int64{}
	for _, e := range entries {
		for limit, n := range e.Used {
			if (limiter.Limit{Name: limit, Capacity: 1, Refill: 1, Period: time.Second}).Validate() == nil {
				sums[limit] = bucket.Add(sums[limit], n)
			}
		}
	}
	return sums
}

// isWrongType reports whether an update failed because of the type of a stored
// attribute.
func isWrongType(err error) bool {
	return errorCode(err) == "ValidationException" && strings.Contains(err.Error(), "type")
}

// Refill refills every limit of a bucket up to now in one write, so that the next
// charge finds the tokens there. It reports false, and changes nothing, if the
// bucket was refilled since state was read, has other limits, or holds so many
// tokens that a limit would overflow. The bucket keeps its TTL, since a refill is
// not a use.
func (u *UsageStore) Refill(ctx context.Context, now time.Time, of aggregator.ID, state *aggregator.State) (bool, error) {
	img, ok := state.Ref.(*image)
	if !ok {
		return false, nil
	}
	up := refillUpdate(img, u.repo.tableTime(ctx, now))
	ctx = withoutTryTimeout(ctx)
	if up == nil {
		return false, nil
	}
	in := up.input(&u.repo.table, bucketKey(of.Namespace, of.Entity, of.Resource))
	in.ReturnValues = types.ReturnValueNone
	_, err := u.repo.updateOnce(ctx, in)
	if resultOf(err) == refused {
		return false, nil
	}
	return err == nil, u.repo.explain(err)
}

// refillUpdate returns the update that refills the bucket of an image up to now,
// or nil if it would change nothing.
func refillUpdate(img *image, now int64) *update {
	if now <= img.refill {
		return nil
	}
	up := newUpdate()
	changed := false
	for i := range img.cells {
		c := &img.cells[i]
		up.requireRate(c)
		after := bucket.Advance(c.tokens, img.refill, now, c.rate)
		gain, full := bucket.Sub(after, c.tokens), after >= c.rate.Capacity
		if gain <= 0 && !full { // nothing accrued; the next accrual includes the fraction
			continue
		}
		tokens := up.attr(bucketAttr(c.name, fieldTokens))
		if full { // the gain depends on the stored tokens
			up.when(tokens, "=", up.number(c.tokens))
		} else {
			up.when(tokens, "<=", up.number(bucket.Sub(c.rate.Capacity, gain)))
		}
		if gain > 0 {
			changed = true
			up.addTo(tokens, gain)
		}
	}
	if !changed {
		return nil
	}
	up.requireShape(img)
	refill := up.attr(attrRefill)
	up.when(refill, "=", up.number(img.refill))
	up.setTo(refill, number(now))
	return up
}

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
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
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

// AddUsage adds entries to a snapshot in one write, and what shadow limits would have
// refused to the item beside it in another. Each item holds the position of the last
// change it counts, so that a write with entries it already counts is refused;
// AddUsage retries without these. It drops the usage of a namespace that is purged or
// being purged.
func (u *UsageStore) AddUsage(ctx context.Context, a aggregator.Addition) error {
	ctx = withoutTryTimeout(ctx)
	namespace := &Repository{store: u.repo.store, ns: a.Bucket.Namespace, view: true}

	// This reads the table: a purge may have ended since the cache was filled, and
	// must stay complete. A namespace that is only deleted exists, since it may be
	// recovered.
	facts, _, err := namespace.lookup(ctx, 0, 0, []factKey{namespace.namespaceFact()})
	if err != nil || !facts[0].exists {
		return err
	}

	k := usageKey(a.Bucket.Namespace, a.Bucket.Entity, a.Bucket.Resource, a.Window, a.Start.UTC().Format(stampLayout))
	if err := u.addEntries(ctx, k, a, u.addUpdate); err != nil {
		return err
	}

	// Python takes every number in a snapshot for a limit, so these counts have an
	// item of their own. Most changes have nothing for it, and it then costs no
	// write.
	a.Entries = slices.DeleteFunc(slices.Clone(a.Entries), func(e aggregator.Entry) bool {
		return len(e.WouldRefuse) == 0
	})
	return u.addEntries(ctx, k.shadowKey(), a, u.shadowUpdate)
}

// addEntries adds the entries that an item does not count yet, by the update that
// build returns for them.
func (u *UsageStore) addEntries(
	ctx context.Context, k key, a aggregator.Addition, build func(key, *aggregator.Addition) *update,
) error {
	for len(a.Entries) > 0 {
		in := build(k, &a).input(&u.repo.table, k)
		in.ReturnValues = types.ReturnValueNone
		_, err := u.repo.slow.UpdateItem(ctx, in)
		if err == nil {
			return nil
		}

		if isWrongType(err) {
			return &limiter.CorruptError{
				Item: k.String(), Reason: "a counter is not a number; correct it, or delete the item",
			}
		}

		refusal, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
		if !ok {
			return u.repo.explain(err)
		}

		counted := item(refusal.Item).text(attrMark)
		before := len(a.Entries)
		a.Entries = slices.DeleteFunc(slices.Clone(a.Entries), func(e aggregator.Entry) bool {
			return mark(e.Position) <= counted
		})
		// Without an entry less, the next try would end like this one.
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
	start := a.Start.UTC().Format(stampLayout)
	up := newUpdate()
	for _, attr := range []struct{ name, value string }{
		{attrEntity, a.Bucket.Entity},
		{attrGSI2PK, resourcePK(a.Bucket.Namespace, a.Bucket.Resource)},
		{attrGSI2SK, usageGSIPrefix + start + "#" + a.Bucket.Entity},
	} {
		up.setTo(up.attr(attr.name), text(attr.value))
	}

	u.describe(up, k, a)
	for limit, n := range sumEntries(a.Entries, func(e aggregator.Entry) map[string]int64 { return e.Used }) {
		up.addTo(up.attr(limit), n)
	}
	up.addTo(up.attr(attrEvents), int64(len(a.Entries)))

	if slices.ContainsFunc(a.Entries, func(e aggregator.Entry) bool { return len(e.WouldRefuse) > 0 }) {
		up.setTo(up.attr(attrHasShadow), text("1"))
	}
	up.countOnce(a.Entries)
	return up
}

// shadowUpdate does what addUpdate does, for the item that counts what shadow limits
// would have refused. The snapshot leads to it, so that no index by resource does.
func (u *UsageStore) shadowUpdate(k key, a *aggregator.Addition) *update {
	up := newUpdate()
	up.setTo(up.attr(attrEntity), text(a.Bucket.Entity))
	u.describe(up, k, a)
	for limit, n := range sumEntries(a.Entries, func(e aggregator.Entry) map[string]int64 { return e.WouldRefuse }) {
		up.addTo(up.attr(limit), n)
	}
	up.countOnce(a.Entries)
	return up
}

// describe sets the attributes that a snapshot gets once.
func (u *UsageStore) describe(up *update, k key, a *aggregator.Addition) {
	for _, attr := range []struct {
		name  string
		value types.AttributeValue
	}{
		{attrResource, text(a.Bucket.Resource)},
		{attrWindow, text(string(a.Window))},
		{attrWindowStart, text(a.Start.UTC().Format(stampLayout))},
		{attrGSI4PK, text(a.Bucket.Namespace)},
		{attrGSI4SK, text(k.pk)},
		{attrTTL, number(u.repo.clock().Add(u.retention).Unix())},
	} {
		name := up.attr(attr.name)
		up.set = appendWords(up.set, ",", name, "= if_not_exists("+name+",", up.value(attr.value)+")")
	}
}

// countOnce moves the position of a snapshot to the last entry, on condition that the
// snapshot does not count the first one yet.
func (u *update) countOnce(entries []aggregator.Entry) {
	first, last := entries[0].Position, entries[len(entries)-1].Position
	sq := u.attr(attrMark)
	u.setTo(sq, text(mark(last)))
	// Positions of an earlier stream say nothing about the order in this one.
	feed := u.value(text(last.Feed + ":"))
	u.when("(attribute_not_exists("+sq+")", "OR NOT begins_with("+sq+",", feed+")", "OR", sq, "<",
		u.value(text(mark(first)))+")")
}

// sumEntries returns what entries add to each counter. It skips limits with an
// invalid name, which only other programs allow, since the name could be that of
// another attribute.
func sumEntries(entries []aggregator.Entry, counts func(aggregator.Entry) map[string]int64) map[string]int64 {
	sums := map[string]int64{}
	for _, e := range entries {
		for limit, n := range counts(e) {
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
// tokens that a limit would overflow. It steps quotas that are due. The bucket keeps
// its TTL, since a refill is not a use.
func (u *UsageStore) Refill(
	ctx context.Context, now time.Time, of aggregator.ID, state *aggregator.State,
) (bool, error) {
	img, ok := state.Ref.(*image)
	if !ok {
		return false, nil
	}

	at := u.repo.tableTime(ctx, now)
	ctx = withoutTryTimeout(ctx)
	up := refillUpdate(img, at)
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
	gains := img.gains(now)
	if !gains && !img.due(now) {
		return nil
	}

	up := newUpdate()
	for c := range img.all() {
		if c.due(now) {
			step := c.steps(now)
			up.changeLimit(c, &step)
		}
		if c.every != 0 || !gains {
			continue
		}
		// A write that moves the refill time has to know how every rate fills.
		up.requireRate(c)

		after := bucket.Advance(c.tokens, img.refill, now, c.rate)
		gain, full := bucket.Sub(after, c.tokens), after >= c.rate.Capacity
		if gain <= 0 && !full {
			// Nothing has accrued. The next refill includes the fraction.
			continue
		}

		tokens := up.attr(bucketAttr(c.name, fieldTokens))
		if full {
			// What a limit gains before it is full depends on the stored
			// tokens. If a charge has taken some meanwhile, the write would lose
			// what has accrued since.
			up.when(tokens, "=", up.number(c.tokens))
		} else {
			up.when(tokens, "<=", up.number(bucket.Sub(c.rate.Capacity, gain)))
		}
		if gain > 0 {
			up.addTo(tokens, gain)
		}
	}

	up.requireShape(img)
	up.requireLife(img.life)

	if gains {
		refill := up.attr(attrRefill)
		up.when(refill, "=", up.number(img.refill))
		up.setTo(refill, number(now))
	}
	return up
}

// gains reports whether a rate gains anything until now.
func (img *image) gains(now int64) bool {
	for c := range img.all() {
		if c.every == 0 && now > img.refill && bucket.Advance(c.tokens, img.refill, now, c.rate) > c.tokens {
			return true
		}
	}
	return false
}

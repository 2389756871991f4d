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

// DefaultUsageRetention is how long snapshots are kept.
const DefaultUsageRetention = 90 * 24 * time.Hour

// UsageStore is where an aggregator keeps the usage of a table, of all its
// namespaces.
type UsageStore struct {
	repo      *Repository
	retention time.Duration
}

var _ aggregator.Store = (*UsageStore)(nil)

// UsageStore is that of the repository's table. A retention of 0 is
// DefaultUsageRetention.
func (r *Repository) UsageStore(retention time.Duration) *UsageStore {
	if retention <= 0 {
		retention = DefaultUsageRetention
	}
	return &UsageStore{r, retention}
}

// AddUsage adds entries to a snapshot in one write. The snapshot remembers up to
// which change it is counted, so that entries it holds are refused, and left
// out of the next try. What belongs to a namespace whose data are gone, or
// going, is dropped: nobody would find it.
func (u *UsageStore) AddUsage(ctx context.Context, a aggregator.Addition) error {
	ctx = patient(ctx)
	space := &Repository{store: u.repo.store, ns: a.Bucket.Namespace, view: true}
	facts, _, err := space.lookup(ctx, 0, 0, []factKey{space.namespaceFact()}) // not a remembered one: a purge may be over by now
	if err != nil || !facts[0].there {
		return err
	}
	k := usageKey(a.Bucket.Namespace, a.Bucket.Entity, a.Bucket.Resource, a.Window, a.Start.UTC().Format(stampLayout))
	for len(a.Entries) > 0 {
		in := u.addition(k, &a).input(&u.repo.table, k)
		in.ReturnValues = types.ReturnValueNone
		_, err := u.repo.slow.UpdateItem(ctx, in)
		if err == nil {
			return nil
		}
		if isWrongType(err) {
			return &limiter.CorruptError{Item: k.String(), Reason: "a counter is no number; correct it, or delete the item"}
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

// mark is a position as a snapshot remembers it. Numbers of one feed are equally
// long.
func mark(p aggregator.Position) string { return p.Feed + ":" + p.Number }

// addition is the write of all entries, unless the first of them is counted.
func (u *UsageStore) addition(k key, a *aggregator.Addition) *update {
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
		up.set = words(up.set, ", ", name, "= if_not_exists("+name+",", up.value(attr.value)+")")
	}
	for limit, n := range summed(a.Entries) {
		up.addTo(up.attr(limit), n)
	}
	up.addTo(up.attr(attrEvents), int64(len(a.Entries)))
	sq := up.attr(attrMark)
	up.setTo(sq, text(mark(last)))
	feed := up.value(text(last.Feed + ":"))
	up.when("(attribute_not_exists("+sq+")", "OR NOT begins_with("+sq+",", feed+")", "OR", sq, "<", up.value(text(mark(first)))+")")
	return up
}

// summed is what entries add to each counter. A limit that is named like an
// attribute of snapshots, as only other programs allow, is not counted.
func summed(entries []aggregator.Entry) map[string]int64 {
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

// isWrongType tells whether a write was refused for what the item holds.
func isWrongType(err error) bool {
	return errorCode(err) == "ValidationException" && strings.Contains(err.Error(), "type")
}

package dynamo

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// A bucket below a level of its entity that is off holds a copy of the switch. A
// charge writes a bucket only if it has none, so that a process whose cache is
// older than the switch learns of it from its first write. The copy decides
// nothing by itself: the process then reads the switches. A copy that is left
// although no level is off is removed by the next charge.

// maxCopies is how many copies a transaction holds beside the switch and its event:
// the service allows 100 writes.
const maxCopies = 98

// copySwitches returns the writes that make the copies on the buckets of a scope
// match the switches of its entity. If there are too many buckets, it leaves out
// those that have not been refilled for longest.
func (r *Repository) copySwitches(ctx context.Context, of limiter.Scope, off rules.Switches, event string) ([]types.TransactWriteItem, error) {
	buckets, err := r.bucketsOf(ctx, of)
	if err != nil {
		return nil, err
	}
	refills := make(map[key]int64, len(buckets))
	for _, it := range buckets {
		refills[it.key()], _ = it.number(attrRefill)
	}
	slices.SortStableFunc(buckets, func(a, b item) int { return cmp.Compare(refills[b.key()], refills[a.key()]) })
	var writes []types.TransactWriteItem
	for _, it := range buckets {
		k := it.key()
		u := newUpdate()
		attr := u.attr(attrOff)
		if s := off.Refusing(of.Entity, "", strings.TrimPrefix(k.sk, bucketSKPrefix)); s != nil {
			u.setTo(attr, copyOf(*s, event))
		} else if it[attrOff] != nil {
			u.remove = append(u.remove, attr...)
		} else {
			continue
		}
		u.when("attribute_exists(" + u.attr(attrRefill) + ")")
		w := u.item(&r.table, k)
		if len(u.values) == 0 {
			w.Update.ExpressionAttributeValues = nil // the service rejects an empty map
		}
		if writes = append(writes, w); len(writes) == maxCopies {
			break
		}
	}
	return writes, nil
}

// bucketsOf returns the keys, refill times and copies of the buckets of an entity,
// or of an entity and a resource.
func (r *Repository) bucketsOf(ctx context.Context, of limiter.Scope) ([]item, error) {
	in := queryPrefix(entityPK(r.ns, of.Entity), bucketSKPrefix)
	if of.Resource != "" {
		k := bucketKey(r.ns, of.Entity, of.Resource)
		in = between(k.pk, k.sk, k.sk)
	}
	in.ProjectionExpression = aws.String("#pk, #sk, #rf, #off")
	in.ExpressionAttributeNames["#rf"], in.ExpressionAttributeNames["#off"] = attrRefill, attrOff
	var buckets []item
	for it, err := range r.query(ctx, r.ns, in) {
		if err != nil {
			return nil, err
		}
		if it[attrRefill] != nil {
			buckets = append(buckets, it)
		}
	}
	return buckets, nil
}

// lateCopy is the event of the copy in a bucket that a late charge creates while a
// level of its entity is off.
const lateCopy = "late"

// requireOn requires that the bucket has no copy of a switch.
func (u *update) requireOn() { u.when("attribute_not_exists(" + u.attr(attrOff) + ")") }

// hasStrayCopy reports whether an image has the copy of a switch although no level
// is off.
func (p *payer) hasStrayCopy(img *image) bool { return img.off != nil && p.off == nil }

// dropStrayCopy makes a write remove a stray copy, on condition that it is still
// the same.
func (p *payer) dropStrayCopy(u *update) {
	if !p.hasStrayCopy(p.cached.image) {
		return
	}
	attr := u.attr(attrOff)
	u.remove = appendWords(u.remove, ", ", attr)
	u.when(attr, "=", u.value(p.cached.image.off))
}

package dynamo

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go"
)

// listing iterates over the items of a query for which decode returns true. Each
// iteration runs the query anew.
func listing[T any](
	ctx context.Context, r *Repository, query func() *dynamodb.QueryInput, decode func(item) (T, bool, error),
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		if err := r.requireActive(ctx); err != nil {
			yield(zero, err)
			return
		}

		for it, err := range r.query(ctx, r.ns, query()) {
			if err != nil {
				yield(zero, err)
				return
			}

			v, ok, err := decode(it)
			if err != nil {
				yield(zero, err)
				return
			}
			if ok && !yield(v, nil) {
				return
			}
		}
	}
}

// maxListed limits the items that a listing of a whole namespace can sort. No
// index orders them by time, so it holds all their keys in memory.
const maxListed = 100_000

// sortedListing iterates over the items of a namespace for which keep and decode
// return true, in the given order of their keys. Their partition keys begin with
// prefix. It reads all keys from the index of the namespace first, and then the
// items in batches.
func sortedListing[T any](
	ctx context.Context, r *Repository, prefix string, keep func(key) bool, order func(a, b key) int,
	decode func(item) (T, bool, error),
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		if err := r.requireActive(ctx); err != nil {
			yield(zero, err)
			return
		}

		keys, err := r.indexedKeys(ctx, prefix, keep)
		if err != nil {
			yield(zero, err)
			return
		}

		slices.SortFunc(keys, order)
		for batch := range slices.Chunk(keys, maxGets) {
			found, err := r.getListed(ctx, batch)
			if err != nil {
				yield(zero, err)
				return
			}
			for _, k := range batch {
				it := found[k]
				if it == nil { // deleted since the index was read
					continue
				}

				v, ok, err := decode(it)
				if err != nil {
					yield(zero, err)
					return
				}
				if ok && !yield(v, nil) {
					return
				}
			}
		}
	}
}

// indexedKeys returns the keys of a namespace's items for which keep returns
// true, from partitions whose keys begin with prefix.
func (r *Repository) indexedKeys(ctx context.Context, prefix string, keep func(key) bool) ([]key, error) {
	var keys []key
	for it, err := range r.query(ctx, r.ns, queryIndex(indexNamespace, r.ns, prefix)) {
		if err != nil {
			return nil, err
		}
		k := it.key()
		// An index key may be forged, so it need not begin like the key of its
		// item.
		if !strings.HasPrefix(k.pk, prefix) || !keep(k) {
			continue
		}

		if keys = append(keys, k); len(keys) > maxListed {
			return nil, &limiter.InvalidError{
				Field: "query",
				Reason: "matches more than " + strconv.Itoa(maxListed) + " items; filter by entity or " +
					"resource, or set a later start",
			}
		}
	}
	return keys, nil
}

// allEvents iterates over the audit events of a namespace, newest first.
func (r *Repository) allEvents(ctx context.Context, after string) iter.Seq2[limiter.AuditEvent, error] {
	older := func(k key) bool {
		return strings.HasPrefix(k.sk, auditSKPrefix) && (after == "" || k.sk < auditSKPrefix+after)
	}
	newestFirst := func(a, b key) int { return cmp.Or(cmp.Compare(b.sk, a.sk), cmp.Compare(a.pk, b.pk)) }

	return sortedListing(ctx, r, auditPK(r.ns, ""), older, newestFirst,
		func(it item) (limiter.AuditEvent, bool, error) {
			ev := decodeEvent(it)
			return ev, ev.Action != "", nil
		})
}

// allUsage iterates over the parts of snapshots of a namespace that may match q,
// newest first.
func (r *Repository) allUsage(ctx context.Context, q limiter.UsageQuery) iter.Seq2[usagePart, error] {
	first, last := startRange("", q)
	during := func(k key) bool {
		start := usageStart(k)
		return start != "" && start >= first && start <= last
	}
	newestFirst := func(a, b key) int {
		return cmp.Or(cmp.Compare(usageStart(b), usageStart(a)), cmp.Compare(a.sk, b.sk), cmp.Compare(a.pk, b.pk))
	}

	return sortedListing(ctx, r, entityPKPrefix(r.ns), during, newestFirst, decodeUsage)
}

// usageStart returns the start of a snapshot's window as its key spells it, or ""
// for the key of another item.
func usageStart(k key) string {
	rest, ok := strings.CutPrefix(k.sk, usageSKPrefix)
	if !ok {
		return ""
	}

	// The rest is RESOURCE#START in Python's keys and for an hour, and
	// RESOURCE#START#WINDOW otherwise.
	_, rest, _ = strings.Cut(rest, "#") // after the resource
	start, _, _ := strings.Cut(rest, "#")
	return start
}

// between returns a query of the items of a partition whose sort key is in a
// range, both ends included, in the order of that key.
func between(pk, first, last string) *dynamodb.QueryInput {
	return &dynamodb.QueryInput{
		KeyConditionExpression:    aws.String("#pk = :pk AND #sk BETWEEN :first AND :last"),
		ExpressionAttributeNames:  map[string]string{"#pk": attrPK, "#sk": attrSK},
		ExpressionAttributeValues: item{":pk": text(pk), ":first": text(first), ":last": text(last)},
		ConsistentRead:            aws.Bool(true),
	}
}

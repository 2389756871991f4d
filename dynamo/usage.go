package dynamo

import (
	"context"
	"iter"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// Usage iterates over the snapshots that match a query, newest first. An
// aggregator writes them from the table's stream, so they lag behind.
func (r *Repository) Usage(ctx context.Context, q limiter.UsageQuery) iter.Seq2[limiter.UsageSnapshot, error] {
	parts := listing(ctx, r, func() *dynamodb.QueryInput { return r.usageQuery(q) }, decodeUsage)
	if q.Entity == "" && q.Resource == "" {
		parts = r.allUsage(ctx, q)
	}
	// Keys that begin with the time are sorted, so only snapshots with the same
	// start need sorting. Keys that begin with a resource are all read first.
	ordered := q.Resource != "" || q.Entity == ""
	return func(yield func(limiter.UsageSnapshot, error) bool) {
		var group []limiter.UsageSnapshot
		for part, err := range parts {
			if err != nil {
				yield(limiter.UsageSnapshot{}, err)
				return
			}
			if !q.Match(part) {
				continue
			}
			if ordered && len(group) > 0 && !group[0].Start.Equal(part.Start) {
				if !yieldUsage(group, yield) {
					return
				}
				group = nil
			}
			group = append(group, part)
		}
		yieldUsage(group, yield)
	}
}

// usageQuery returns the request that finds the snapshots. It may find others.
func (r *Repository) usageQuery(q limiter.UsageQuery) *dynamodb.QueryInput {
	var in *dynamodb.QueryInput
	switch {
	case q.Resource == "":
		in = queryPrefix(entityPK(r.ns, q.Entity), usageSKPrefix)
	case q.Entity == "":
		first, last := startRange(usageGSIPrefix, q)
		in = between(resourcePK(r.ns, q.Resource), first, last)
		in.IndexName, in.ConsistentRead = aws.String(indexResource), nil
		in.ExpressionAttributeNames = map[string]string{"#pk": attrGSI2PK, "#sk": attrGSI2SK}
	default:
		first, last := startRange(usageSKPrefix+q.Resource+"#", q)
		in = between(entityPK(r.ns, q.Entity), first, last)
	}
	in.ScanIndexForward = aws.Bool(false)
	return in
}

// startRange returns the range of keys of the snapshots that start in the time of
// the query. A key may continue after the time.
func startRange(prefix string, q limiter.UsageQuery) (first, last string) {
	const afterAll = "~"
	first, last = prefix, prefix
	if !q.From.IsZero() {
		first += q.From.UTC().Format(stampLayout)
	}
	if !q.To.IsZero() && q.To.UTC().Year() <= lastYear {
		last += q.To.UTC().Format(stampLayout)
	}
	if last += afterAll; first > last { // the service rejects an inverted range
		first = last
	}
	return first, last
}

// lastYear is the last year whose times sort correctly as text.
const lastYear = 9999

// decodeUsage decodes a snapshot, and reports whether the item is a complete one.
func decodeUsage(it item) (limiter.UsageSnapshot, bool, error) {
	u := limiter.UsageSnapshot{
		Entity: it.text(attrEntity), Resource: it.text(attrResource), Window: limiter.Window(it.text(attrWindow)),
		Counters: map[string]int64{},
	}
	start := it.time(attrWindowStart)
	if u.Entity == "" || u.Resource == "" || start.IsZero() || !slices.Contains(rules.Windows, u.Window) {
		return u, false, nil
	}
	u.Start, u.End = u.Window.Bounds(start)
	for attr, v := range it {
		if _, ok := v.(*types.AttributeValueMemberN); !ok || attr == attrTTL {
			continue
		}
		n, err := it.number(attr)
		if err != nil {
			return u, false, err
		}
		if attr == attrEvents {
			u.Events = n
		} else {
			u.Counters[attr] = n
		}
	}
	return u, true, nil
}

// yieldUsage merges and yields snapshots, and reports whether to continue.
func yieldUsage(parts []limiter.UsageSnapshot, yield func(limiter.UsageSnapshot, error) bool) bool {
	for _, u := range mergeUsage(parts) {
		if !yield(u, nil) {
			return false
		}
	}
	return true
}

// mergeUsage sums the parts of each snapshot, since two aggregators may write the
// same window under two keys. It omits counters of 0.
func mergeUsage(parts []limiter.UsageSnapshot) []limiter.UsageSnapshot {
	slices.SortFunc(parts, rules.NewestFirst)
	var all []limiter.UsageSnapshot
	for _, part := range parts {
		if n := len(all); n > 0 && rules.NewestFirst(all[n-1], part) == 0 {
			all[n-1].Events = bucket.Add(all[n-1].Events, part.Events)
			for limit, count := range part.Counters {
				all[n-1].Counters[limit] = bucket.Add(all[n-1].Counters[limit], count)
			}
			continue
		}
		all = append(all, part)
	}
	for _, u := range all {
		for limit, count := range u.Counters {
			if count == 0 {
				delete(u.Counters, limit)
			}
		}
	}
	return all
}

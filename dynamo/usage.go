package dynamo

import (
	"context"
	"iter"
	"maps"
	"slices"
	"time"

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
		g := usageGroup{repo: r}
		for part, err := range parts {
			if err != nil {
				yield(limiter.UsageSnapshot{}, err)
				return
			}
			if !q.Match(part.UsageSnapshot) {
				continue
			}

			if ordered && g.ends(part.Start) && !g.yield(ctx, yield) {
				return
			}
			g.add(part)
		}
		g.yield(ctx, yield)
	}
}

// usagePart is a snapshot as one item holds it.
type usagePart struct {
	limiter.UsageSnapshot
	shadow key // of the item that counts what shadow limits would have refused; zero for none
}

// usageGroup holds snapshots that are to be merged and yielded.
type usageGroup struct {
	repo  *Repository
	parts []usagePart
	keys  []key // of the items beside them
}

func (g *usageGroup) add(part usagePart) {
	g.parts = append(g.parts, part)
	if part.shadow != (key{}) {
		g.keys = append(g.keys, part.shadow)
	}
}

// ends reports whether the group ends before a snapshot with a later start. A group
// that has to read other items grows until they are worth a request.
func (g *usageGroup) ends(next time.Time) bool {
	n := len(g.parts)
	return n > 0 && !g.parts[n-1].Start.Equal(next) && (len(g.keys) == 0 || len(g.keys) >= maxGets)
}

// yield merges and yields the snapshots, and empties the group. It reports whether to
// continue.
func (g *usageGroup) yield(ctx context.Context, yield func(limiter.UsageSnapshot, error) bool) bool {
	all := make([]limiter.UsageSnapshot, len(g.parts))
	for i := range g.parts {
		all[i] = g.parts[i].UsageSnapshot
	}

	if err := g.readShadow(ctx, all); err != nil {
		yield(limiter.UsageSnapshot{}, err)
		return false
	}

	g.parts, g.keys = nil, nil
	for _, u := range mergeUsage(all) {
		if !yield(u, nil) {
			return false
		}
	}
	return true
}

// readShadow adds to snapshots what shadow limits would have refused. It sends no
// request if there is nothing to add.
func (g *usageGroup) readShadow(ctx context.Context, all []limiter.UsageSnapshot) error {
	for keys := range slices.Chunk(g.keys, maxGets) {
		found, err := g.repo.getListed(ctx, keys)
		if err != nil {
			return err
		}

		for i, part := range g.parts {
			if it := found[part.shadow]; it != nil {
				if _, err := countNumbers(it, func(limit string, n int64) {
					all[i].WouldRefuse = rules.AddCount(all[i].WouldRefuse, limit, n)
				}); err != nil {
					return err
				}
			}
		}
	}
	return nil
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
func decodeUsage(it item) (usagePart, bool, error) {
	u := usagePart{UsageSnapshot: limiter.UsageSnapshot{
		Entity: it.text(attrEntity), Resource: it.text(attrResource), Window: limiter.Window(it.text(attrWindow)),
		Counters: map[string]int64{},
	}}

	start := it.time(attrWindowStart)
	if u.Entity == "" || u.Resource == "" || start.IsZero() || !slices.Contains(rules.Windows, u.Window) {
		return u, false, nil
	}

	u.Start, u.End = u.Window.Bounds(start)
	if it.text(attrHasShadow) != "" {
		u.shadow = it.key().shadowKey()
	}

	var err error
	u.Events, err = countNumbers(it, func(limit string, n int64) { u.Counters[limit] = n })
	return u, err == nil, err
}

// countNumbers calls count for each counter of a snapshot, and returns the number of
// events.
func countNumbers(it item, count func(limit string, n int64)) (events int64, err error) {
	for attr, v := range it {
		// Texts describe the snapshot. Every number but the ttl is a counter.
		if _, ok := v.(*types.AttributeValueMemberN); !ok || attr == attrTTL {
			continue
		}
		n, err := it.number(attr)
		if err != nil {
			return 0, err
		}

		if attr == attrEvents {
			events = n
		} else {
			count(attr, n)
		}
	}
	return events, nil
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
			for limit, count := range part.WouldRefuse {
				all[n-1].WouldRefuse = rules.AddCount(all[n-1].WouldRefuse, limit, count)
			}
			continue
		}
		all = append(all, part)
	}

	isZero := func(_ string, count int64) bool { return count == 0 }
	for i := range all {
		u := &all[i]
		maps.DeleteFunc(u.Counters, isZero)
		if maps.DeleteFunc(u.WouldRefuse, isZero); len(u.WouldRefuse) == 0 {
			u.WouldRefuse = nil
		}
	}
	return all
}

package dynamo

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go"
)

// maxListed is how many items a listing of a whole namespace chooses from. Their
// keys are in memory at once: no index has them by time.
const maxListed = 100_000

// allEvents lists the audit events of a namespace, newest first.
func (r *Repository) allEvents(ctx context.Context, after string) iter.Seq2[limiter.AuditEvent, error] {
	older := func(k key) bool {
		return strings.HasPrefix(k.sk, auditSKPrefix) && (after == "" || k.sk < auditSKPrefix+after)
	}
	newestFirst := func(a, b key) int { return cmp.Or(cmp.Compare(b.sk, a.sk), cmp.Compare(a.pk, b.pk)) }
	return everything(ctx, r, auditPK(r.ns, ""), older, newestFirst, func(it item) (limiter.AuditEvent, bool, error) {
		ev := decodeEvent(it)
		return ev, ev.Action != "", nil
	})
}

// allUsage lists the parts of snapshots of a namespace that may match, newest
// first.
func (r *Repository) allUsage(ctx context.Context, q limiter.UsageQuery) iter.Seq2[limiter.UsageSnapshot, error] {
	first, last := startRange("", q)
	during := func(k key) bool {
		start := usageStart(k)
		return start != "" && start >= first && start <= last
	}
	newestFirst := func(a, b key) int {
		return cmp.Or(cmp.Compare(usageStart(b), usageStart(a)), cmp.Compare(a.sk, b.sk), cmp.Compare(a.pk, b.pk))
	}
	return everything(ctx, r, entityPKPrefix(r.ns), during, newestFirst, decodeUsage)
}

// usageStart is when the window of a snapshot begins, as its key says it, "" if
// the key is that of something else.
func usageStart(k key) string {
	rest, ok := strings.CutPrefix(k.sk, usageSKPrefix)
	if !ok {
		return ""
	}
	_, rest, _ = strings.Cut(rest, "#") // after the resource
	start, _, _ := strings.Cut(rest, "#")
	return start
}

// everything yields what decode takes of the items in partitions whose keys begin
// with a prefix, as far as keep wants them, in the order of their keys. It reads
// the index of the namespace first, and the items as they are asked for.
func everything[T any](ctx context.Context, r *Repository, prefix string, keep func(key) bool, order func(a, b key) int, decode func(item) (T, bool, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		if err := r.requireActive(ctx); err != nil {
			yield(zero, err)
			return
		}
		keys, err := r.keysWithin(ctx, prefix, keep)
		if err != nil {
			yield(zero, err)
			return
		}
		slices.SortFunc(keys, order)
		for batch := range slices.Chunk(keys, maxGets) {
			found, err := r.getAll(ctx, batch)
			if err != nil {
				yield(zero, err)
				return
			}
			for _, k := range batch {
				it := found[k]
				if it == nil { // it has gone meanwhile
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

func (r *Repository) keysWithin(ctx context.Context, prefix string, keep func(key) bool) ([]key, error) {
	var keys []key
	for it, err := range r.query(ctx, r.ns, indexed(indexNamespace, r.ns, prefix)) {
		if err != nil {
			return nil, err
		}
		k := it.key()
		if !strings.HasPrefix(k.pk, prefix) || !keep(k) {
			continue
		}
		if keys = append(keys, k); len(keys) > maxListed {
			return nil, &limiter.InvalidError{
				Field: "listing", Value: "all",
				Reason: "is of more than " + strconv.Itoa(maxListed) + " items; name an entity or a resource, or a later time to begin at",
			}
		}
	}
	return keys, nil
}

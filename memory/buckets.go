package memory

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// Buckets iterates over the buckets of an entity, a resource or both, by resource,
// then entity.
func (r *Repository) Buckets(ctx context.Context, now time.Time, of limiter.Scope) iter.Seq2[limiter.Bucket, error] {
	return rules.Sequence(func() ([]limiter.Bucket, error) {
		if err := r.requireActive(ctx); err != nil {
			return nil, err
		}

		all := r.buckets(now.UnixMilli(), of)
		slices.SortFunc(all, func(a, b limiter.Bucket) int {
			return cmp.Or(cmp.Compare(a.Account.Resource, b.Account.Resource),
				cmp.Compare(a.Account.Entity, b.Account.Entity))
		})
		return all, nil
	})
}

func (n *namespace) buckets(now int64, of limiter.Scope) (all []limiter.Bucket) {
	n.mu.RLock()
	defer n.mu.RUnlock()

	for i := range n.shards {
		if of.Entity != "" && i != n.index(of.Entity) {
			continue
		}

		s := &n.shards[i]
		s.mu.Lock()
		for e := range s.each(of) {
			if local, back := n.machine.Local(&e.Bucket, now); !e.Gone(local) {
				all = append(all, n.view(local, back, keyOf(e), e))
			}
		}
		s.mu.Unlock()
	}
	return all
}

// view returns the bucket as the next charge would find it.
func (n *namespace) view(now, back int64, key limiter.Scope, e *entry) limiter.Bucket {
	b := e.Clone()
	b.PullBack(back)
	updated := b.At

	in := n.resolve(key)
	// The copy is not stored, so its idle time does not matter.
	if in.limits != nil {
		_, _ = b.Repair(now, account(key, in, e), 0, rules.NoBook)
	}

	seen := rules.Begin(&b, now).View
	if in.limits == nil {
		seen.Account = rules.WithoutLevel(seen.Account)
	}
	seen.Updated = updated
	return seen
}

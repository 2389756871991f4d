package dynamo_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

// apart is how far an aggregator's clock must be behind the latest time of a
// comparison for no later call to be earlier: clients are up to two seconds
// ahead or behind, and changes of limits are dated in whole seconds.
const apart = 5 * time.Second

// compareBeside compares memory with DynamoDB beside an aggregator with a store
// of its own.
func compareBeside(
	tb testing.TB, seed uint64, ops int, opts aggregator.Options, store func(*stream, *dynamo.Repository) aggregator.Store, except ...string,
) *beside {
	tb.Helper()
	s := newStream(tb, newTable(tb))
	o := exactly
	o.AWS = s.config(engine(tb))
	repo, reference := connect(tb, s.table, &o), memory.New(nil)
	b := newBeside(tb, s, store(s, repo), opts)
	b.behind, b.rng, b.eager, b.agree = apart, rand.New(rand.NewPCG(seed, 3)), 40, agrees(repo, reference)
	// Without Forget: the aggregator's clock is behind, and a cold process does not
	// know the latest time of a bucket.
	warm := struct{ limiter.Repository }{&aggregated{repo, b, b.run}}
	repotest.Compare(tb, seed, ops, warm, reference, except...)
	return b
}

// agrees checks that two repositories show the same of a bucket of the first at
// the time of its refill: nobody else may be able to tell.
func agrees(repo *dynamo.Repository, other limiter.Repository) func(*beside, aggregator.Change) {
	return func(b *beside, c aggregator.Change) {
		if c.Bucket.Namespace != repo.NamespaceID() {
			return
		}
		var seen [2][]string
		for i, r := range []limiter.Repository{repo, other} {
			for v, err := range r.Buckets(context.Background(), b.clock, limiter.Scope{Entity: c.Bucket.Entity, Resource: c.Bucket.Resource}) {
				must(b.tb, err)
				seen[i] = append(seen[i], fmt.Sprint(v.Account.Limits, v.Tokens))
			}
		}
		if diff := cmp.Diff(seen[1], seen[0]); diff != "" {
			b.tb.Fatalf("%v, refilled at %s from %+v (-without +with the refill):\n%s", c.Bucket, b.clock, c.State, diff)
		}
	}
}

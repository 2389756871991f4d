package repotest

import (
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func bucketChecks() []check {
	return []check{
		{"a missing bucket starts full", missingStartsFull},
		{"balances are in the order of the limits, by name", balancesByName},
		{"a charge takes every amount or none", allOrNone},
		{"a refused charge writes nothing", refusedWritesNothing},
		{"a first charge that is refused leaves no bucket", refusedLeavesNoBucket},
		{"an amount of zero is refused in debt only", zeroRefusedInDebt},
		{"a limit that is not named may be in debt", unnamedMayBeInDebt},
		{"more than the capacity is refused, not an error", aboveCapacityRefused},
		{"without limits nothing is admitted", noLimits},
		{"an unknown limit is invalid and nothing is charged", unknownLimit},
		{"entities and resources have buckets of their own", separateBuckets},
		{"many limits in one charge", manyLimits},
		{"the list is by resource, then entity", listOrder},
		{"the list is refilled to now", listRefilled},
		{"answers are the caller's to change", answersAreCopies},
	}
}

func missingStartsFull(f *fixture) {
	f.setDefaults(perMinute60)
	out := f.take(0, ask("key-1", rpm(1)))
	f.equal("outcome", out, limiter.Outcome{Admitted: true, Payers: []limiter.Bucket{{
		Account: &limiter.Account{
			Entity: "key-1", Resource: model, Limits: []limiter.Limit{perMinute60},
			Source: limiter.Scope{Resource: model},
		},
		Tokens: []int64{59_000},
	}}})
}

func balancesByName(f *fixture) {
	a, b, c := limiter.PerMinute("a", 10), limiter.PerMinute("b", 20), limiter.PerMinute("c", 30)

	f.setDefaults(c, a, b)
	out := f.take(0, ask("key-1", limiter.Tokens("c", 3).And("a", 1)), 9_000, 20_000, 27_000)
	f.equal("limits", out.Payers[0].Account.Limits, []limiter.Limit{a, b, c})
}

func allOrNone(f *fixture) {
	f.setDefaults(perMinute60, limiter.PerMinute("tpm", 6000))

	f.take(0, ask("key-1", rpm(1).And("tpm", 1000)), 59_000, 5_000_000)
	// One of the two limits falls short in each charge, so a store that pays
	// them one by one would take from the other.
	f.refuse(0, ask("key-1", rpm(1).And("tpm", 5001)), 59_000, 5_000_000)
	f.refuse(0, ask("key-1", rpm(60).And("tpm", 1)), 59_000, 5_000_000)

	f.take(0, ask("key-1", rpm(59).And("tpm", 5000)), 0, 0)
}

func refusedWritesNothing(f *fixture) {
	f.setDefaults(perMinute60)

	f.take(0, ask("key-1", rpm(60)), 0)
	f.refuse(30*time.Second, ask("key-1", rpm(31)), 30_000)

	// A refusal that advanced the bucket's time would change its refill.
	f.holds(10*time.Second, "key-1", 10_000)
	f.take(10*time.Second, ask("key-1", rpm(10)), 0)
}

func refusedLeavesNoBucket(f *fixture) {
	f.setDefaults(perMinute60)
	f.refuse(0, ask("key-1", rpm(61)), 60_000)
	f.unlisted(0, "key-1")
}

func zeroRefusedInDebt(f *fixture) {
	f.setDefaults(perMinute60)
	out := f.take(0, ask("key-1", rpm(60)), 0)
	f.take(0, ask("key-1", rpm(0)), 0)

	f.credit(0, out.Payers[0].Account, rpm(-1))
	f.refuse(0, ask("key-1", rpm(0)), -1_000)
	// A debt of one thousandth refuses as well.
	f.refuse(ms(999), ask("key-1", rpm(0)), -1)
	f.take(time.Second, ask("key-1", rpm(0)), 0)
}

func unnamedMayBeInDebt(f *fixture) {
	f.setDefaults(perMinute60, limiter.PerMinute("tpm", 6000))
	out := f.take(0, ask("key-1", rpm(1)), 59_000, 6_000_000)
	f.credit(0, out.Payers[0].Account, tpm(-7000))

	f.take(0, ask("key-1", rpm(1)), 58_000, -1_000_000)
	f.refuse(0, ask("key-1", rpm(1).And("tpm", 0)), 58_000, -1_000_000)
}

func aboveCapacityRefused(f *fixture) {
	f.setDefaults(perMinute60)

	// In thousandths, the amount exceeds an int64.
	f.refuse(0, ask("key-1", rpm(1<<63-1)), 60_000)
	f.take(0, ask("key-1", rpm(60)), 0)
	f.refuse(time.Hour, ask("key-1", rpm(61)), 60_000)
}

func noLimits(f *fixture) {
	_, err := f.repo.Consume(f.ctx, epoch, ask("key-1", rpm(1)))
	f.invalid("Consume", err)
	f.fails("Consume", err, limiter.ErrNoLimits)

	_, err = f.repo.Peek(f.ctx, epoch, ask("key-1", limiter.Amounts{}))
	f.invalid("Peek", err)
	f.fails("Peek", err, limiter.ErrNoLimits)

	f.unlisted(0, "key-1")
}

func unknownLimit(f *fixture) {
	f.setDefaults(perMinute60)
	charge := ask("key-1", rpm(1).And("nonsense", 1))

	_, err := f.repo.Consume(f.ctx, epoch, charge)
	f.invalid("Consume of an unknown limit", err)
	f.unlisted(0, "key-1")

	// A store may judge a bucket that exists by what it remembers, on a path of
	// its own.
	f.take(0, ask("key-1", rpm(1)), 59_000)
	_, err = f.repo.Consume(f.ctx, epoch, charge)
	f.invalid("Consume of an unknown limit", err)

	_, err = f.repo.Peek(f.ctx, epoch, ask("key-1", limiter.Tokens("nonsense", 0)))
	f.invalid("Peek of an unknown limit", err)
	f.holds(0, "key-1", 59_000)
}

func separateBuckets(f *fixture) {
	f.setLimits(limiter.Scope{}, perMinute60)
	f.take(0, ask("key-1", rpm(60)), 0)

	f.take(0, ask("key-2", rpm(1)), 59_000)

	// The name begins with another one and has a slash, so keys that are made
	// from names could collide.
	other := ask("key-1", rpm(2))
	other.Resource = "gpt-4/mini"
	f.take(0, other, 58_000)

	f.holds(0, "key-1", 0)
}

// manyLimits charges more limits than Amounts keeps inline.
func manyLimits(f *fixture) {
	var limits []limiter.Limit
	var amounts limiter.Amounts
	var want []int64

	for i := range int64(12) {
		name := string(rune('a' + i))
		limits = append(limits, limiter.PerMinute(name, 100))
		amounts = amounts.And(name, i)
		want = append(want, (100-i)*1000)
	}

	f.setDefaults(limits...)
	f.take(0, ask("key-1", amounts), want...)
	f.holds(0, "key-1", want...)
}

func listOrder(f *fixture) {
	f.setLimits(limiter.Scope{}, perMinute60)
	// Names are ordered by their bytes: B comes before a, and x before x/1.
	for _, key := range [][2]string{
		{"b", "x"}, {"a", "y"}, {"b", "y"}, {"a", "x"}, {"a", "x/1"}, {"B", "x"}, {"d", "x"}, {"c", "x"}, {"1", "x"},
	} {
		c := ask(key[0], rpm(1))
		c.Resource = key[1]
		f.take(0, c)
	}

	names := func(of limiter.Scope) (all []string) {
		for _, b := range f.buckets(0, of) {
			all = append(all, b.Account.Resource+" "+b.Account.Entity)
		}
		return all
	}

	f.equal("of an entity", names(limiter.Scope{Entity: "a"}), []string{"x a", "x/1 a", "y a"})
	f.equal("of a resource", names(limiter.Scope{Resource: "x"}), []string{"x 1", "x B", "x a", "x b", "x c", "x d"})
	f.equal("of both", names(limiter.Scope{Entity: "b", Resource: "y"}), []string{"y b"})
	f.equal("of an unknown entity", names(limiter.Scope{Entity: "e"}), []string(nil))
}

func listRefilled(f *fixture) {
	f.setDefaults(perMinute60)

	f.take(10*time.Second, ask("key-1", rpm(60)), 0)
	f.listed(15*time.Second, "key-1", 5_000)
	// A caller that is behind the bucket's own time gets no refill.
	f.listed(0, "key-1", 0)
	f.listed(75*time.Second, "key-1", 60_000)
}

func answersAreCopies(f *fixture) {
	f.setDefaults(perMinute60)
	out := f.take(0, ask("key-1", rpm(1)), 59_000)

	clear(out.Payers[0].Tokens)
	clear(f.peek(0, ask("key-1", rpm(1))).Payers[0].Tokens)
	clear(first(f, "Buckets", f.buckets(0, limiter.Scope{Entity: "key-1"})).Tokens)

	f.holds(0, "key-1", 59_000)
}

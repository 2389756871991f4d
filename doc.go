// Package limiter limits the rate at which entities use resources: how many
// requests and tokens an API key may spend on a model a minute, say. Limits are
// token buckets in a store that many processes share.
//
// # Five lines
//
//	repo, err := sqlite.Open(ctx, "limits.db", nil) // or memory.New(nil), dynamo.Connect(ctx, "my-app", nil)
//	lim, err := limiter.New(repo, nil)
//	err = lim.SetResourceDefaults(ctx, "gpt-4", limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 10_000))
//	lease, err := lim.Acquire(ctx, limiter.Request{Entity: "key-abc", Resource: "gpt-4",
//		Consume: limiter.Tokens("rpm", 1).And("tpm", 500)})
//	defer lease.Rollback(ctx) // does nothing after Commit
//
// # Acquire, work, settle
//
// [RateLimiter.Acquire] takes an estimate of every limit, or nothing: then the
// error is an [*ExceededError] that says which limits refused and when to come
// back. The [Lease] it returns is corrected by [Lease.Used] when the real
// amounts are known, which may leave a bucket in debt, and ended by
// [Lease.Commit] or [Lease.Rollback]. [RateLimiter.Do] does all of that around a
// function; [RateLimiter.Wait] waits for room instead of failing.
//
// # Where limits come from
//
// The most specific level that holds limits gives all of them: those of an
// entity for a resource, of an entity, of a resource, of the system, and last
// [Options].Limits, which are stored nowhere. A [Request] may carry its own, for
// that call. An [Entity] that cascades makes its parent pay too.
//
// # Promises
//
// Over any window of time, what was admitted, less what was given back, is at
// most the capacity plus the refill of that window, by the limits in force. (A
// limit that only requests bring begins anew when calls without it come
// between.) Refill is never lost to rounding, never minted by clocks that
// disagree, and giving back never lifts a bucket above its capacity.
//
// So [PerMinute] of 10,000 admits nearly 20,000 in the first minute: what the
// bucket held, and what refilled. [Within] never admits more than n in a window
// of its period: its capacity, a tenth of n, and its refill add up to n.
//
// Late corrections are outside this promise. [Lease.Adjust] upwards is charged
// even where there is no room, and leaves debt. To bound the debt, estimate high
// and give back what was not used, or take more with [Lease.Consume] in steps,
// which is refused where there is no room.
//
// # Errors
//
// Data is a type ([*ExceededError], [*InvalidError], [*UnavailableError],
// [*CorruptError], [*VersionError]), state is a sentinel ([ErrNotFound],
// [ErrExists], ...). Input that can be checked without the store is checked
// before it is asked.
//
// # Stores
//
// Packages memory and sqlite need nothing installed; package dynamo keeps
// everything in one DynamoDB table, for many machines. Another store implements
// [Repository] and is tested by package repotest.
package limiter

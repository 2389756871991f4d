// Package limiter limits the rate at which entities use resources, such as the
// requests and tokens per minute that an API key may spend on a model. Limits are
// token buckets in a store that many processes share.
//
// # Getting started
//
//	repo, err := sqlite.Open(ctx, "limits.db", nil)
//	lim, err := limiter.New(repo, nil)
//	err = lim.SetResourceDefaults(ctx, "gpt-4", limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 10_000))
//	err = lim.Do(ctx, limiter.Request{Entity: "key-abc", Resource: "gpt-4",
//		Consume: limiter.Tokens("rpm", 1).And("tpm", 500)},
//		func(ctx context.Context, lease *limiter.Lease) error {
//			used, err := callModel(ctx)
//			return errors.Join(err, lease.Used("tpm", used))
//		})
//
// Most programs need three calls: [New], [RateLimiter.SetResourceDefaults] (or
// [Options].Limits), and [RateLimiter.Do].
//
// # Stores
//
//   - Package memory keeps everything inside the process, for tests and for
//     programs that run alone.
//   - Package sqlite keeps everything in one file, for the processes of one
//     machine.
//   - Package dynamo keeps everything in one DynamoDB table, for many machines.
//     Function infra.Open deploys the table first.
//
// Another store implements [Repository]. Package repotest tests it.
//
// # Leases
//
// [RateLimiter.Acquire] takes an estimate of every limit, or nothing. If it takes
// nothing, the error is an [*ExceededError] with the limits that refused and the
// time to retry. If it succeeds, it returns a [Lease]. [Lease.Used] corrects the
// lease when the real amounts are known, which may leave a bucket in debt.
// [Lease.Commit] or [Lease.Rollback] ends it. [RateLimiter.Do] does all of this
// around a function, and package httplimit around an HTTP handler.
// [RateLimiter.Wait] waits for tokens instead of failing.
//
// # Levels of limits
//
// Limits are stored at four levels. The most specific level that holds limits
// provides all of them: entity and resource, entity, resource, system. If no level
// holds limits, [Options].Limits applies. [Request].Limits replaces all levels for
// one call. An [Entity] that cascades makes its parent pay too.
//
// # Guarantees
//
// Over any window of time, the admitted amount, less the amount given back, is at
// most the capacity plus the refill of that window, under the limits in force.
// There is one exception: package dynamo admits up to 2 % of the capacity more,
// unless its Options.Exact is set. A limit that is removed and comes back has what it
// had, refilled. Rounding loses no refill, clocks that disagree create none, and
// giving back never lifts a bucket above its capacity.
//
// So [PerMinute] of 10,000 admits nearly 20,000 in the first minute: the capacity
// and the refill. [Within] never admits more than n in a window of its period: its
// capacity, a tenth of n, and its refill add up to n.
//
// Late corrections are outside this guarantee. [Lease.Adjust] charges more even if
// the bucket is empty, and leaves debt. To bound the debt, estimate high and give
// back the unused amount, or take more in steps with [Lease.Consume], which the
// store can refuse.
//
// # Errors
//
// Errors with data are types: [*ExceededError], [*InvalidError],
// [*UnavailableError], [*CorruptError] and [*VersionError]. Errors that name a
// state are variables, such as [ErrNotFound] and [ErrExists]. Every method checks
// its input before it calls the store.
package limiter

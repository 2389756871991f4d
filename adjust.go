package limiter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Adjust records use that no lease holds, such as the size of an answer that
// another process reports after the fact. It takes the amounts of req.Consume
// from the entity and, if it cascades, from its ancestors, even if that leaves them
// in debt. A negative amount gives tokens back, up to the capacity. Nothing
// checks that they were taken before, so callers must not pass on what a client
// claims.
//
// Adjust never refuses for lack of tokens, nor because a level is disabled: the
// work is done. It returns the status of every limit afterwards. The end of ctx does
// not stop it once it has begun. The errors are the same as for Acquire, except that
// an outage is always an error. After an outage the adjustment may be stored in part.
func (l *RateLimiter) Adjust(ctx context.Context, req Request) (Decision, error) {
	if err := ctx.Err(); err != nil {
		return Decision{}, err
	}

	if err := req.validateTarget(); err != nil {
		return Decision{}, err
	}
	if err := validAdjustment(&req.Consume); err != nil {
		return Decision{}, err
	}

	// The work is done, so the end of the caller's context must not lose its
	// record.
	ctx, cancel := l.settleContext(ctx)
	defer cancel()

	charge := l.charge(&req)
	// What does not fit becomes debt, and is not spared.
	charge.Strict = true
	out, err := l.adjust(ctx, charge)
	// A disabled level refuses before anything is stored, so the same
	// charge can be made again.
	if _, disabled := errors.AsType[*DisabledError](err); disabled {
		charge.Late = true
		out, err = l.adjust(ctx, charge)
	}

	if err != nil {
		return Decision{}, translateError(ctx, "adjust", req.Entity, req.Resource, err)
	}

	// Nothing was asked of the limits, so the decision shows none as
	// exceeded.
	charge.Strict, charge.Amounts = false, Amounts{}
	return newDecision(&charge, out), nil
}

// validAdjustment checks the amounts of Adjust.
func validAdjustment(a *Amounts) error {
	if a.n == 0 {
		return invalid("consume", "", "must not be empty; name at least one limit")
	}
	for limit, n := range a.All() {
		value := limit + "=" + strconv.FormatInt(n, 10)
		if limit == "" {
			return invalid("consume", value, "must name a limit")
		}
		// Stores count thousandths in an int64, which must not overflow.
		if n > maxAdjusted || n < -maxAdjusted {
			return invalid("consume", value,
				fmt.Sprintf("is more than one call can adjust; at most %d", int64(maxAdjusted)))
		}
	}
	return nil
}

// adjust takes what fits with the first request. The rest is credited to the
// accounts of a charge of nothing, which creates missing buckets and is never
// refused.
func (l *RateLimiter) adjust(ctx context.Context, charge Charge) (Outcome, error) {
	rest := charge.Amounts
	// The amounts that fit are taken at once. Give-backs are credits in any
	// case.
	if charge.Amounts = rest.positive(); charge.Amounts.n > 0 {
		out, err := l.repo.Consume(ctx, l.now(), charge)
		if err != nil {
			return Outcome{}, err
		}
		// A refused charge took nothing, so all amounts become credits.
		if out.Admitted {
			rest = rest.negative()
		}
		if rest.n == 0 {
			return out, nil
		}
	}

	charge.Amounts = Amounts{}
	out, err := l.repo.Consume(ctx, l.now(), charge)
	if err != nil {
		return Outcome{}, err
	}

	return l.creditAccounts(ctx, out, rest)
}

// creditAccounts makes each account of out pay the amounts that it has a limit
// for, and returns out with the new balances.
func (l *RateLimiter) creditAccounts(ctx context.Context, out Outcome, amounts Amounts) (Outcome, error) {
	// A charge of nothing does not look at the names of limits.
	for limit := range amounts.All() {
		if !anyHasLimit(out.Payers, limit) {
			return Outcome{}, unknown("consume", limit, "is not a limit of the entity or of its ancestors")
		}
	}

	var credits []Credit
	for _, b := range out.Payers {
		if part := amounts.forLimits(b.Account.Limits).nonzero(); part.n > 0 {
			credits = append(credits, Credit{Account: b.Account, Amounts: part.negated()})
		}
	}

	if len(credits) == 0 {
		return out, nil
	}

	if err := l.repo.Credit(ctx, l.now(), credits...); err != nil {
		return Outcome{}, err
	}

	// Waiters of this process may fit into what was given back.
	l.queues.credited(namespaceID(l.repo, ""), credits, time.Now())
	return out.after(amounts), nil
}

func anyHasLimit(buckets []Bucket, limit string) bool {
	for _, b := range buckets {
		if hasLimit(b.Account.Limits, limit) {
			return true
		}
	}
	return false
}

// after returns o with amounts taken from the balances.
func (o Outcome) after(amounts Amounts) Outcome {
	o.Payers = slices.Clone(o.Payers)
	for i := range o.Payers {
		b := &o.Payers[i]
		tokens := make([]int64, len(b.Tokens))
		for j := range tokens {
			// Like the store, this stops at the capacity.
			limit := b.Account.Limits[j]
			left := bucket.Sub(b.Tokens[j], bucket.Thousandths(amounts.Get(limit.Name)))
			tokens[j] = min(left, bucket.Thousandths(limit.Capacity))
		}
		b.Tokens = tokens
	}
	return o
}

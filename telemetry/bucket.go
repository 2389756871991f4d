package telemetry

import (
	"context"
	"iter"
	"slices"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/zeroae/zae-limiter-go"
)

// Consume charges like the store, and counts the decision and its tokens.
func (r *Repository) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	about := r.resources.find(charge.Resource)
	ctx, c := r.beginCharge(ctx, opConsume, about, &charge)

	out, err := r.Repository.Consume(ctx, now, charge)
	res, failure := resultOf(&out, err)
	c.end(ctx, res, failure)

	// The API cannot read the counter of decisions, and the cost of a million
	// needs their number.
	if r.priced {
		r.counted.Add(1)
	}

	// A name becomes known only once a charge of it has found limits.
	if about == nil {
		about = r.newResource(&charge, &out, err)
	}

	// Without an SDK, the attributes would be made for nothing.
	if r.decisions.Enabled(ctx) {
		r.countDecision(ctx, about, &charge, &out, res, failure)
	}

	return out, err
}

// newResource returns the attributes of a resource that was not known. It becomes
// known by its first bucket, so that calls with made-up names, which find no
// limits, do not use up the maximum.
func (o *observer) newResource(charge *limiter.Charge, out *limiter.Outcome, err error) *resource {
	if err != nil || len(out.Payers) == 0 {
		return o.resources.other
	}
	return o.resources.get(charge.Resource)
}

// beginCharge starts a call about a charge. The resource is nil if it is not known.
func (o *observer) beginCharge(
	ctx context.Context, op int, about *resource, charge *limiter.Charge,
) (context.Context, call) {
	var c call
	if about != nil {
		ctx, c = o.begin(ctx, op, about.start)
	} else {
		// A span may have any name. Only the names of metrics are bounded.
		ctx, c = o.begin(ctx, op, o.resources.startUnknown(charge.Resource))
	}

	// The span has the resource from its start.
	if o.entities {
		c.about(charge.Entity, "")
	}
	return ctx, c
}

// countDecision counts a decision and its tokens.
func (o *observer) countDecision(
	ctx context.Context, about *resource, charge *limiter.Charge, out *limiter.Outcome, res result,
	failure error,
) {
	switch {
	// Failures and switches are rare, so their attributes are made each time.
	case failure != nil:
		o.decisions.Add(ctx, 1, about.failed(failure)...)
	case res == resultDisabled:
		o.decisions.Add(ctx, 1, about.options(attrResult.String(string(res)))...)
	case res == resultAdmitted:
		o.decisions.Add(ctx, 1, about.admitted...)
		for i := range charge.Amounts.Len() {
			limit, n := charge.Amounts.At(i)
			addTokens(ctx, o.admitted, about, limit, n)
		}
		o.countSpared(ctx, about, out)
	default:
		o.decisions.Add(ctx, 1, about.refused...)
		for i := range charge.Amounts.Len() {
			limit, n := charge.Amounts.At(i)
			if slices.ContainsFunc(out.Payers, func(b limiter.Bucket) bool { return lacks(charge, &b, limit, n) }) {
				addTokens(ctx, o.refused, about, limit, n)
			}
		}
	}
}

func addTokens(ctx context.Context, to metric.Int64Counter, about *resource, limit string, n int64) {
	if n > 0 {
		to.Add(ctx, n, about.limit(limit)...)
	}
}

// countSpared counts each limit that an admitted charge spared. A limit that several
// payers have counts once.
func (o *observer) countSpared(ctx context.Context, about *resource, out *limiter.Outcome) {
	var counted []string
	for i := range out.Payers {
		for _, limit := range spared(&out.Payers[i]) {
			if !slices.Contains(counted, limit) {
				o.spared.Add(ctx, 1, about.limit(limit)...)
				counted = append(counted, limit)
			}
		}
	}
}

// spared returns the limits of a bucket that a charge spared.
func spared(b *limiter.Bucket) (limits []string) {
	if b.Detail == nil {
		return nil
	}

	for i, isSpared := range b.Detail.Spared {
		if isSpared {
			limits = append(limits, b.Account.Limits[i].Name)
		}
	}
	return limits
}

// lacks reports whether a limit of a bucket refuses an amount.
func lacks(charge *limiter.Charge, b *limiter.Bucket, limit string, n int64) bool {
	const thousandths = 1000
	if b.Account == nil {
		return false
	}

	for i := range b.Account.Limits {
		// A shadow limit refuses only a strict charge.
		if l := &b.Account.Limits[i]; l.Name == limit && (charge.Strict || !l.IsShadow) {
			// The division rounds a debt of less than a token to 0, so a debt
			// is checked by itself. It refuses even an amount of 0.
			whole := b.Tokens[i] / thousandths
			return b.Tokens[i] < 0 || whole < n
		}
	}
	return false
}

// Peek calls Peek of the store. It is no decision.
func (r *Repository) Peek(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	ctx, c := r.beginCharge(ctx, opPeek, r.resources.find(charge.Resource), &charge)
	out, err := r.Repository.Peek(ctx, now, charge)

	res, failure := resultOf(&out, err)
	c.end(ctx, res, failure)
	return out, err
}

// Credit calls Credit of the store and counts the tokens.
func (r *Repository) Credit(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
	ctx, c := r.begin(ctx, opCredit, r.operations[opCredit].start)

	if len(credits) > 0 {
		c.about(credits[0].Account.Entity, credits[0].Account.Resource)
	}

	err := r.Repository.Credit(ctx, now, credits...)
	c.end(ctx, resultOK, err)
	if err == nil && r.returned.Enabled(ctx) {
		r.countCredits(ctx, credits)
	}
	return err
}

// countCredits counts the tokens of the credits of one lease. The accounts of an
// entity and its parent pay the same tokens, so only the larger amount of a limit
// counts.
func (o *observer) countCredits(ctx context.Context, credits []limiter.Credit) {
	for i := range credits {
		about := o.resources.get(credits[i].Account.Resource)
		for j := range credits[i].Amounts.Len() {
			limit, n := credits[i].Amounts.At(j)
			// If an entity gives back 5 and its parent 3, then 5 count.
			back, more := max(n, 0), max(-n, 0)
			for _, earlier := range credits[:i] {
				if earlier.Account.Resource == credits[i].Account.Resource {
					counted := earlier.Amounts.Get(limit)
					back, more = back-max(counted, 0), more-max(-counted, 0)
				}
			}

			addTokens(ctx, o.returned, about, limit, back)
			addTokens(ctx, o.admitted, about, limit, more)
		}
	}
}

// Buckets iterates over the buckets of the store.
func (r *Repository) Buckets(ctx context.Context, now time.Time, of limiter.Scope) iter.Seq2[limiter.Bucket, error] {
	return observeAll(ctx, r, opBuckets, func(ctx context.Context) iter.Seq2[limiter.Bucket, error] {
		return r.Repository.Buckets(ctx, now, of)
	}, of.Entity, of.Resource)
}

// Fill calls Fill of the store.
func (r *Repository) Fill(ctx context.Context, now time.Time, f limiter.Fill, ev limiter.AuditEvent) (bool, error) {
	return observe(ctx, r, opFill, func(ctx context.Context) (bool, error) {
		return r.Repository.Fill(ctx, now, f, ev)
	}, f.Entity, f.Resource)
}

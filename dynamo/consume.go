package dynamo

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/chain"
	"github.com/zeroae/zae-limiter-go/internal/pause"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// A charge passes through these states. Its payers are the entity's bucket and, if the
// entity cascades, those of its ancestors.
//
//	gather  finds each payer's namespace, entity, switches, limits and the last image
//	        of its bucket. A level that is off ends the charge. It costs nothing
//	        while all are cached, and otherwise one consistent batch read for each
//	        payer.
//	judge   decides from the images whether every payer covers the amounts, and
//	        whether a bucket needs a repair. It costs nothing.
//	verify  reads what the decision rests on if that may be stale: limits, switches,
//	        entity and bucket in one transaction before a repair, and before the
//	        creation of a bucket whose namespace this call has not read; the
//	        buckets alone before a refusal; the limits in force, unless they are
//	        cached, before a bucket follows an override with another quota; and,
//	        once a second, the switches of a payer that has none of the limits.
//	        Then the charge is judged again. A refusal of the last second is
//	        repeated without a read.
//	write   sends one conditional write for each payer that has one of the limits,
//	        in parallel. If all buckets are new, they are one transaction. A payer has paid, or
//	        the response holds the image that contradicts the decision, or the
//	        charge fails. A caller that leaves meanwhile does not end the requests:
//	        what they turn out to have paid is undone.
//	retry   judges again from that image, up to maxRounds times. Then the charge
//	        is refused: an error would count as an outage and be admitted by
//	        callers that fail open. A charge of a shadow limit, which must not
//	        refuse, goes on up to maxShadowRounds times, and then fails.
//	undo    gives back what a payer paid for a charge that failed or was refused.
//	        It costs one transaction for each payer that has paid.
//
// A warm charge is gather, judge and write: one request for each payer. A stale
// image costs one more. The way to the table is consume.go (the states),
// consume_read.go (stale records), payer.go and payer_limits.go (limits, image,
// decision), facts.go and fact_cache.go (cached records), images.go (cached
// buckets), payer_write.go and payer_locked.go (writes, responses, retries) and
// update.go (expressions). consume_undo.go gives back. Package rules does the
// arithmetic, and request.go sends reads.

// maxRounds is how often a charge decides again after others changed a bucket.
const maxRounds = 8

// maxShadowRounds is maxRounds for a charge that names a shadow limit.
const maxShadowRounds = 4 * maxRounds

// errBusy is the error of a charge that no limit refuses, if others change its buckets
// each time before it can write.
var errBusy = errors.New("others changed the bucket each time before the charge was written")

// maxFactAge is the greatest age of a cached record that may reject a request as
// invalid, or because a level is off. Another process may just have stored the limit
// that the request names, or turned the level on.
const maxFactAge = time.Second

// consumeOp is a running Consume.
type consumeOp struct {
	repo   *Repository
	now    int64
	charge *limiter.Charge
	// The entity and those that the charge reaches, from the parent up. Nil until the
	// entity's records are gathered.
	chain []*payer
	// Those of the chain that pay, in the same order.
	payers []*payer
	// The writes have ended, or the caller has left: whichever comes first.
	ended atomic.Bool
	// The caller has left, so that everything else belongs to the writes.
	left bool
}

// Consume takes every amount, or nothing.
func (r *Repository) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	if err := r.requireNamespace(ctx); err != nil {
		return limiter.Outcome{}, err
	}

	// The caller's time is compared with the machine's clock before credentials
	// are fetched, which may take long.
	c := &consumeOp{repo: r, now: r.tableTime(ctx, now), charge: &charge}

	ctx, cancel, err := r.withTimeout(ctx)
	if err != nil {
		return limiter.Outcome{}, err
	}
	defer cancel()

	out, err := c.run(ctx)

	// The requests that are under way undo what they turn out to have paid.
	if c.left {
		return limiter.Outcome{}, r.explainTimeout(ctx, err)
	}

	if err != nil || !out.Admitted {
		c.undo(ctx)
	}

	if errorCode(err) == "ValidationException" {
		err = c.diagnose(ctx, err)
	}
	return out, r.explainTimeout(ctx, err)
}

// Peek returns the outcome that Consume would have, and writes nothing.
func (r *Repository) Peek(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	if err := r.requireNamespace(ctx); err != nil {
		return limiter.Outcome{}, err
	}

	c := &consumeOp{repo: r, now: r.tableTime(ctx, now), charge: &charge}
	ctx, cancel, err := r.withTimeout(ctx)
	if err != nil {
		return limiter.Outcome{}, err
	}
	defer cancel()

	// A peek sends no write that could be refused, so nothing would correct a
	// stale image. It reads the buckets.
	fits, err := c.begin(ctx, true)
	if err == nil {
		fits, err = c.verify(ctx, fits)
	}
	if err != nil {
		return limiter.Outcome{}, r.explainTimeout(ctx, err)
	}

	if fits {
		for _, p := range c.payers {
			p.take(&charge.Amounts)
		}
	}
	return c.outcome(fits), nil
}

// run charges the payers, and decides again after each refused write.
func (c *consumeOp) run(ctx context.Context) (limiter.Outcome, error) {
	fits, err := c.begin(ctx, false)
	for round := 0; err == nil && round < c.maxRounds(); round++ {
		if fits, err = c.verify(ctx, fits); err != nil {
			break
		}
		if !fits {
			return c.refuse(ctx), nil
		}

		// The second round follows at once, because the refusal has just
		// returned the present image.
		if err = pause.For(ctx, backoff(max(0, round-1))); err != nil {
			break
		}

		var paid bool
		paid, err = c.write(ctx)
		switch {
		case c.left:
			return limiter.Outcome{}, err
		case err != nil || paid:
			return c.outcome(paid), err
		}

		fits, err = c.judge()
	}

	// A refusal would name a shadow limit, which does not refuse.
	if err == nil && fits && c.namesShadow() {
		err = c.repo.explain(errBusy)
	}
	if err != nil {
		return limiter.Outcome{}, err
	}
	return c.outcome(false), nil
}

// maxRounds returns how often the charge decides again.
func (c *consumeOp) maxRounds() int {
	if c.namesShadow() {
		return maxShadowRounds
	}
	return maxRounds
}

// namesShadow reports whether the charge names a limit that does not refuse it.
func (c *consumeOp) namesShadow() bool {
	return !c.charge.Strict && slices.ContainsFunc(c.payers, func(p *payer) bool {
		return slices.ContainsFunc(p.plan.view.Account.Limits, func(l limiter.Limit) bool {
			_, named := c.charge.Amounts.Lookup(l.Name)
			return named && l.IsShadow
		})
	})
}

// begin gathers and judges. If that finds the request invalid, or a level that is
// off, it does so once more from records no older than maxFactAge. With read set,
// it reads the buckets even if their images are cached.
func (c *consumeOp) begin(ctx context.Context, read bool) (fits bool, err error) {
	for _, maxAge := range []time.Duration{c.repo.factLife(ctx), maxFactAge} {
		if err = c.gather(ctx, maxAge, read); err == nil {
			fits, err = c.judge()
		}

		if !c.mayBeStale(err) {
			break
		}
	}
	return fits, err
}

// mayBeStale reports whether err may be due to cached records that others have
// changed.
func (c *consumeOp) mayBeStale(err error) bool {
	if _, invalid := errors.AsType[*limiter.InvalidError](err); invalid {
		return true
	}

	// A switch that this call has read itself is not stale.
	_, disabled := errors.AsType[*limiter.DisabledError](err)
	return disabled && !slices.ContainsFunc(c.chain, func(p *payer) bool { return p.off != nil && p.offRead })
}

// gather finds the payers by the records of their entities. It returns a
// *limiter.DisabledError if a level of one is off.
func (c *consumeOp) gather(ctx context.Context, maxAge time.Duration, read bool) error {
	c.chain, c.payers = nil, nil
	return c.climb(ctx, maxAge, read)
}

// climb finds the chain by the records of its entities. An entity that stays at its
// level keeps its records, and what it has paid.
func (c *consumeOp) climb(ctx context.Context, maxAge time.Duration, read bool) error {
	known := c.chain
	climb := chain.Begin(c.charge.Entity)
	c.chain, c.payers = nil, nil

	for entity := c.charge.Entity; entity != ""; {
		level := len(c.chain)
		var p *payer
		if level < len(known) && known[level].entity == entity {
			p = known[level]
		} else {
			var err error
			if p, err = c.repo.gatherPayer(ctx, c.now, entity, level, c.charge, maxAge, read); err != nil {
				return err
			}
		}

		c.chain = append(c.chain, p)
		if !p.exempt {
			c.payers = append(c.payers, p)
		}

		err := c.checkSwitch(p)
		if err == nil {
			entity, err = rules.Next(&climb, p.place)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkSwitch returns a *limiter.DisabledError if a level of a payer is off, unless
// the work is done.
func (c *consumeOp) checkSwitch(p *payer) error {
	if p.off == nil {
		return nil
	}

	// In an outage, LastSwitch finds the switch of an ancestor only if the ancestor is
	// known.
	if p.entity != c.charge.Entity {
		c.repo.seen.setAncestor(c.repo.entityFact(c.charge.Entity), p.entity)
	}

	// A late charge pays for work that is done already, so a switch does not
	// refuse it.
	if c.charge.Late {
		return nil
	}

	return p.off.Refuse(c.charge.Entity, c.charge.Resource)
}

// judge makes the plan of every payer that has not paid, and reports whether all
// cover their amounts.
func (c *consumeOp) judge() (fits bool, err error) {
	views := make([]limiter.Bucket, 0, len(c.payers))
	fits = true
	for _, p := range c.payers {
		if p.noLimits != nil {
			return false, p.noLimits
		}
		if !p.paid {
			p.decide(c.now)
			if err := checkLimits(p.limitCount()); err != nil {
				return false, err
			}
			fits = fits && p.covers(&c.charge.Amounts)
		}
		views = append(views, p.plan.view)
	}

	_, err = rules.Judge(c.charge, views)
	return fits, err
}

// write charges every payer that has not paid yet, and reports whether all have
// paid. It returns when all requests have ended, also on an error: undo then
// gives back what is known to be paid.
//
// If ctx ends first, write returns its error, and the caller leaves. The requests
// under way go on, since a request that is cut off may be executed or not. What
// their responses show to be paid is given back, and Close waits for it.
func (c *consumeOp) write(ctx context.Context) (paid bool, err error) {
	// Nothing is sent for a caller that has left.
	if err := ctx.Err(); err != nil {
		return false, err
	}

	c.ended.Store(false)
	done := make(chan error, 1)
	send := func() {
		err := c.send(ctx)

		// One of the two comes first, so a charge is either returned or undone,
		// and never both.
		if c.ended.CompareAndSwap(false, true) {
			done <- err
			return
		}
		c.undo(ctx)
	}

	if !c.repo.runInBackground(send) {
		return false, limiter.ErrClosed
	}

	select {
	case err = <-done:
	case <-ctx.Done():
		if c.ended.CompareAndSwap(false, true) {
			c.left = true
			return false, ctx.Err()
		}
		err = <-done
	}

	return !slices.ContainsFunc(c.payers, (*payer).owes), err
}

// send sends the debits of the payers that have not paid yet.
func (c *consumeOp) send(ctx context.Context) (err error) {
	amounts := &c.charge.Amounts
	var owing []*payer
	for _, p := range c.payers {
		if p.owes() {
			p.take(amounts)
			owing = append(owing, p)
		}
	}

	// One transaction creates all buckets or none, so that there is no part to
	// undo.
	isOld := func(p *payer) bool { return p.cached.image != nil }
	if len(c.payers) > 1 && len(owing) == len(c.payers) && !slices.ContainsFunc(owing, isOld) {
		return c.createAll(ctx)
	}

	errs := make([]error, len(owing))
	var wg sync.WaitGroup
	for i, p := range owing[1:] {
		wg.Go(func() { errs[i+1] = p.write(ctx, amounts) })
	}
	errs[0] = owing[0].write(ctx, amounts)
	wg.Wait()
	return joined(errs)
}

// joined returns the only error of a list as it is, and several joined.
func joined(errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

// createAll creates the buckets of all payers, or none.
func (c *consumeOp) createAll(ctx context.Context) error {
	var items []types.TransactWriteItem
	for _, p := range c.payers {
		items = append(items, types.TransactWriteItem{Put: &types.Put{
			TableName: &p.repo.table, Item: p.newItem(&c.charge.Amounts), ConditionExpression: aws.String(ifNoBucket),
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}})
	}

	// The end of ctx must not cut the transaction off, which then might have
	// been executed or not.
	err := c.repo.transact(context.WithoutCancel(ctx), items...)
	if err != nil && resultOf(err) != refused {
		return c.repo.explain(err)
	}

	for i, p := range c.payers {
		var applyErr error
		if err == nil {
			applyErr = p.applyResponse(items[i].Put.Item, nil)
		} else if stored, ok := refusedAt(err, i); ok {
			applyErr = p.applyRefusal(stored)
		}
		if applyErr != nil {
			return applyErr
		}
	}
	return nil
}

// refuse ends a charge that does not fit: it remembers the refusal, and repairs
// buckets that do not follow the limits in force, or an override that would be
// refused for too long.
func (c *consumeOp) refuse(ctx context.Context) limiter.Outcome {
	for _, p := range c.payers {
		if p.paid {
			p.untake(&c.charge.Amounts)
			continue
		}

		// A refusal is remembered only if this call has read the bucket. An
		// older image may lack a give-back.
		if p.verified && !p.covers(&c.charge.Amounts) {
			c.repo.images.refuse(p.key, p.changes, c.repo.moment(c.now))
		}

		if p.plan.repair && p.fresh && p.cached.image != nil && !p.plan.recreate && !p.override {
			p.repair(ctx, c.now, c.charge)
		}

		// Otherwise a bucket whose quota of a month is spent would refuse an
		// override of 10 a day until the month ends.
		if p.stored != nil && !p.plan.recreate && rules.AwaitsOverride(
			p.cached.image.limits(), p.plan.view, &c.charge.Amounts,
		) {
			p.storeOverride(ctx)
		}
	}
	return c.outcome(false)
}

// outcome returns the outcome by the payers' plans.
func (c *consumeOp) outcome(admitted bool) limiter.Outcome {
	out := limiter.Outcome{Admitted: admitted, Payers: make([]limiter.Bucket, 0, len(c.payers))}
	for _, p := range c.chain {
		if p.exempt {
			out.Exempt = append(out.Exempt, p.entity)
		} else {
			out.Payers = append(out.Payers, p.plan.view)
		}
	}
	return out
}

// diagnose returns the reason for a ValidationException if an attribute of a
// bucket is not a number, and err otherwise. Corrupt data is no outage.
func (c *consumeOp) diagnose(ctx context.Context, err error) error {
	for _, p := range c.payers {
		readErr := p.readBucket(ctx)
		if _, corrupt := errors.AsType[*limiter.CorruptError](readErr); corrupt {
			return readErr
		}
	}
	return err
}

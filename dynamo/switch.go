package dynamo

import (
	"context"
	"iter"
	"maps"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/pause"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// SetSwitch turns a level off, with its event. For an entity, it then marks the
// buckets one by one, so that the next write of every process is refused there. If
// it cannot mark all, it returns a *limiter.SwitchDelayedError. Elsewhere, other
// processes apply the change when their caches expire, and before they create a
// bucket.
func (r *Repository) SetSwitch(ctx context.Context, s limiter.Switch, ev limiter.AuditEvent) error {
	_, err := r.changeSwitches(ctx, s.Scope, ev, func(off rules.Switches) error {
		off.Set(s)
		return nil
	})
	if err != nil || s.Scope.Entity == "" {
		return err
	}
	return r.markBuckets(ctx, s, ev.ID)
}

// DeleteSwitch turns a level on, with its event. It returns limiter.ErrNotFound if
// it is not off. Other processes apply the change within a second. A copy of the
// switch that is left on a bucket costs its next charge a read.
func (r *Repository) DeleteSwitch(ctx context.Context, of limiter.Scope, ev limiter.AuditEvent) error {
	// The copies are read before the switch is deleted. One that differs
	// afterwards belongs to a later switch.
	copies := r.copiesOf(ctx, of)

	off, err := r.changeSwitches(ctx, of, ev, func(off rules.Switches) error {
		if _, found := off[of]; !found {
			return rules.NotOff(of)
		}
		delete(off, of)
		return nil
	})
	if err == nil {
		r.removeCopies(ctx, of.Entity, off, copies)
	}
	return err
}

// changeSwitches changes the switches in the item of a scope and the audit trail in
// one transaction, and returns the switches that the item then has.
func (r *Repository) changeSwitches(
	ctx context.Context, of limiter.Scope, ev limiter.AuditEvent, change func(rules.Switches) error,
) (rules.Switches, error) {
	if err := r.requireActiveNow(ctx, ev.At); err != nil {
		return nil, err
	}

	event, err := r.auditPut(ctx, ev)
	if err != nil {
		return nil, err
	}

	k := r.switchFact(of.Entity)
	for try := 0; ; try++ {
		if err := pause.For(ctx, backoff(try)); err != nil {
			return nil, err
		}

		stored, err := r.get(ctx, k.key())
		if err != nil {
			return nil, err
		}

		off := rules.Switches{}
		maps.Copy(off, decodeSwitches(of.Entity, stored))
		if err := change(off); err != nil {
			return nil, err
		}

		write, err := r.switchWrite(of.Entity, stored, off)
		if err != nil {
			return nil, err
		}

		err = r.change(ctx, write, event)

		// The outcome of a failure may be unknown, so the cached switches are
		// dropped in any case.
		r.cache.evict(k)
		switch {
		case err == nil:
			r.seen.set(k, off)
			return off, nil
		case try == maxTries, resultOf(err) != refused:
			return nil, err
		}
	}
}

// switchWrite returns the write of switches, if the item has not changed since
// stored was read. It deletes the item if nothing is off.
func (r *Repository) switchWrite(entity string, stored item, off rules.Switches) (types.TransactWriteItem, error) {
	unchanged := absent()
	if stored != nil {
		unchanged = present().same(stored, attrOffAll).same(stored, attrOffResources)
	}

	if len(off) == 0 {
		return r.deleteIf(switchKey(r.ns, entity), unchanged), nil
	}

	it, err := r.switchItem(entity, off)
	if err != nil {
		return types.TransactWriteItem{}, err
	}
	return r.putIf(it, unchanged), nil
}

// Switches iterates over the levels that are off, by entity, then resource. It
// reads the index of the entities with switches, which lags a little.
func (r *Repository) Switches(ctx context.Context) iter.Seq2[limiter.Switch, error] {
	return func(yield func(limiter.Switch, error) bool) {
		all, err := r.getActive(ctx, switchKey(r.ns, ""))
		if err != nil {
			yield(limiter.Switch{}, err)
			return
		}

		if !yieldSwitches("", all, yield) {
			return
		}

		for keys, err := range inBatches(r.switchKeys(ctx), maxGets) {
			var found map[key]item
			if err == nil {
				found, err = r.getListed(ctx, keys)
			}
			if err != nil {
				yield(limiter.Switch{}, err)
				return
			}

			for _, k := range keys {
				if !yieldSwitches(strings.TrimPrefix(k.pk, entityPKPrefix(r.ns)), found[k], yield) {
					return
				}
			}
		}
	}
}

// switchKeys iterates over the keys of the switches of entities, by entity.
func (r *Repository) switchKeys(ctx context.Context) iter.Seq2[key, error] {
	return listing(ctx, r, func() *dynamodb.QueryInput {
		in := queryPartition(switchesPK(r.ns))
		in.IndexName, in.ConsistentRead = aws.String(indexConfigs), nil
		in.ExpressionAttributeNames["#pk"] = attrGSI3PK
		return in
	}, func(it item) (key, bool, error) {
		return it.key(), it.key() == switchKey(r.ns, it.text(attrGSI3SK)), nil
	})
}

// yieldSwitches yields the switches in an item, by resource. It reports whether to
// continue.
func yieldSwitches(entity string, it item, yield func(limiter.Switch, error) bool) bool {
	for _, s := range decodeSwitches(entity, it).Sorted() {
		if !yield(s, nil) {
			return false
		}
	}
	return true
}

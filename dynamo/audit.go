package dynamo

import (
	"context"
	"errors"
	"iter"
	"math"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
)

// defaultDays is how long audit events are kept unless the table says
// otherwise.
const defaultDays = 90

const secondsOfDay = 24 * 60 * 60

// auditPut writes an event, to be sent with the change it is about.
func (r *Repository) auditPut(ctx context.Context, ev limiter.AuditEvent) (types.TransactWriteItem, error) {
	days, err := r.retentionDays(ctx, ev.At.UnixMilli())
	if err != nil {
		return types.TransactWriteItem{}, err
	}
	it := newItem(r.ns, auditKey(r.ns, ev.Entity, ev.ID))
	it[attrEntity] = text(ev.Entity)
	it[attrEventID] = text(ev.ID)
	it[attrTimestamp] = stamp(ev.At)
	it[attrAction] = text(ev.Action)
	it[attrPrincipal] = textOrNull(r.author(ctx, &ev))
	it[attrResource] = textOrNull(ev.Resource)
	it[attrDetails] = valueMap(ev.Details)
	it[attrTTL] = number(ev.At.Unix() + days*secondsOfDay)
	return r.putIf(it, nil), nil
}

// retentionDays is how long events are kept. Damaged limits beside it do not
// matter: a change that replaces them has an event too.
func (r *Repository) retentionDays(ctx context.Context, now int64) (int64, error) {
	var days int64
	system := r.configFact(limiter.Scope{})
	facts, err := r.facts(ctx, now, system)
	if err == nil {
		days = facts[0].days
	} else if _, damaged := errors.AsType[*limiter.CorruptError](err); damaged {
		var it item
		it, err = r.get(ctx, system.key())
		days, _ = it.number(attrRetention)
	}
	if days <= 0 {
		days = defaultDays
	}
	return min(days, math.MaxInt32), err
}

// AuditEvents yields the events of an entity, or of all, newest first.
func (r *Repository) AuditEvents(ctx context.Context, entity, after string) iter.Seq2[limiter.AuditEvent, error] {
	if entity == "" {
		return r.allEvents(ctx, after)
	}
	return listing(ctx, r, func() *dynamodb.QueryInput {
		in := within(auditPK(r.ns, entity), auditSKPrefix)
		if after != "" { // which need not be there
			in = between(auditPK(r.ns, entity), auditSKPrefix, auditSKPrefix+after)
		}
		in.ScanIndexForward = aws.Bool(false)
		return in
	}, func(it item) (limiter.AuditEvent, bool, error) {
		ev := decodeEvent(it)
		return ev, ev.Action != "" && ev.ID != after, nil
	})
}

// decodeEvent is the event in an item. Its ID is the one it is sorted by.
func decodeEvent(it item) limiter.AuditEvent {
	details, _ := plain(it[attrDetails]).(map[string]any)
	return limiter.AuditEvent{
		ID:        strings.TrimPrefix(it.text(attrSK), auditSKPrefix),
		Action:    it.text(attrAction),
		Entity:    it.text(attrEntity),
		Principal: it.text(attrPrincipal),
		Resource:  it.text(attrResource),
		At:        it.time(attrTimestamp),
		Details:   details,
	}
}

package dynamo

import (
	"context"
	"errors"
	"iter"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/zeroae/zae-limiter-go"
)

// defaultDays is the retention of audit events that the table does not override.
const defaultDays = 90

const secondsPerDay = 24 * 60 * 60

// auditPut returns the write of an event, to be sent in one transaction with the
// change that it records.
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
	it[attrTTL] = number(ev.At.Unix() + days*secondsPerDay)

	return r.putIf(it, nil), nil
}

// retentionDays returns how long events are kept. It tolerates damaged limits in
// the same item, because the change that replaces them has an event too.
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

	// Nothing bounds the days that are stored. Beyond this, the expiry in
	// seconds might overflow.
	return min(days, math.MaxInt32), err
}

// SetAuditRetention sets for how many days new audit events of this namespace
// are kept. Stored events keep their expiry. It does not change limits or mode.
//
// SetAuditRetention returns *limiter.InvalidError if days is not positive, and
// limiter.ErrNotFound if the namespace is not active.
func (r *Repository) SetAuditRetention(ctx context.Context, now time.Time, days int) error {
	if days <= 0 {
		return &limiter.InvalidError{
			Field: "audit retention", Value: strconv.Itoa(days), Reason: "must be at least 1 day",
		}
	}

	if err := r.requireActiveNow(ctx, now); err != nil {
		return err
	}

	// An update that fails may still have been executed, so the cached record
	// goes in any case.
	defer r.cache.evict(r.configFact(limiter.Scope{}))
	return r.change(ctx, r.indexedUpdate(configKey(r.ns, "", ""), ", #days = :days, #v = if_not_exists(#v, :v)",
		map[string]string{"#days": attrRetention, "#v": attrConfigVersion},
		item{":days": number(int64(days)), ":v": number(configVersion)}))
}

// AuditEvents iterates over the events of an entity, or of all if entity is
// empty, newest first.
func (r *Repository) AuditEvents(ctx context.Context, entity, after string) iter.Seq2[limiter.AuditEvent, error] {
	if entity == "" {
		return r.allEvents(ctx, after)
	}
	return listing(ctx, r, func() *dynamodb.QueryInput {
		in := queryPrefix(auditPK(r.ns, entity), auditSKPrefix)

		// The event of the cursor may have expired. Its key still bounds the
		// range, which includes it.
		if after != "" {
			in = between(auditPK(r.ns, entity), auditSKPrefix, auditSKPrefix+after)
		}

		in.ScanIndexForward = aws.Bool(false)
		return in
	}, func(it item) (limiter.AuditEvent, bool, error) {
		ev := decodeEvent(it)
		return ev, ev.Action != "" && ev.ID != after, nil
	})
}

// decodeEvent decodes an event. It takes the ID from the sort key.
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

// identity is the ARN of the caller in AWS. The first change without a principal
// fetches it, once.
type identity struct {
	fetch sync.Once
	done  chan struct{} // closed when arn is final
	arn   string        // "" if AWS did not answer
}

// identityTimeout limits the wait for the caller's identity, since a network may
// reach the table but not STS.
const identityTimeout = time.Second

// author returns the principal of ev, or else the identity of the caller. On a
// custom endpoint the caller has no identity.
func (s *store) author(ctx context.Context, ev *limiter.AuditEvent) string {
	if ev.Principal != "" || s.client.Options().BaseEndpoint != nil {
		return ev.Principal
	}

	id := &s.identity
	id.fetch.Do(func() {
		id.done = make(chan struct{})

		// Later changes use the answer too, so the request does not end with
		// this caller.
		if !s.runInBackground(func() { s.fetchIdentity(context.WithoutCancel(ctx)) }) {
			close(id.done)
		}
	})

	select {
	case <-id.done:
		return id.arn
	case <-ctx.Done():
		return ""
	}
}

// fetchIdentity asks STS for the identity of the caller, which needs no
// permission. It does not retry, so that later changes need not wait.
func (s *store) fetchIdentity(ctx context.Context) {
	defer close(s.identity.done)
	ctx, cancel := context.WithTimeout(ctx, identityTimeout)
	defer cancel()

	client := sts.NewFromConfig(s.config, func(o *sts.Options) { o.Retryer = aws.NopRetryer{} })
	out, err := client.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})

	if err == nil && strings.HasPrefix(aws.ToString(out.Arn), "arn:") {
		s.identity.arn = *out.Arn
	}
}

package dynamo

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/pause"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// A bucket below a level of its entity that is off holds a copy of the switch, its
// mark. A charge writes a bucket only if it has none, so that a process whose cache
// is older than the switch learns of it from its first write. The copy decides
// nothing by itself: the process then reads the switches. A copy that is left
// although no level is off is removed by the next charge.
//
// The switch is stored before the first mark. From then on, a charge that reads the
// switches is refused, and so is the creation of a bucket, except for one that was
// on its way. So the buckets are listed until no such creation can be left.

// maxMarking is how long SetSwitch tries to mark buckets without a deadline of its
// caller.
const maxMarking = 30 * time.Second

// marking is a running SetSwitch of an entity, after its switch was stored.
type marking struct {
	repo   *Repository
	of     limiter.Scope
	copy   types.AttributeValue
	event  string
	mu     sync.Mutex
	marked map[key]bool
	failed map[key]bool // found in the last pass, and not marked
	err    error        // of a mark in the last pass
}

// markBuckets marks the buckets of a scope, and looks for more until none was found
// for Options.SwitchWait.
func (r *Repository) markBuckets(ctx context.Context, s limiter.Switch, event string) error {
	m := &marking{repo: r, of: s.Scope, copy: copyOf(s, event), event: event, marked: map[key]bool{}}

	wait := r.opts.SwitchWait
	ctx, cancel := context.WithTimeout(ctx, maxMarking+wait)
	defer cancel()

	for quiet := time.Now(); ; {
		began := time.Now()
		found, err := m.pass(ctx)
		switch {
		case errors.Is(err, errSwitchGone):
			return nil
		case err != nil && !again(err):
			return m.delayed(err)
		case err != nil || found:
			quiet = time.Now()
		// Only a pass that began after the whole wait shows that nothing was
		// left by then.
		case began.Sub(quiet) >= wait:
			return nil
		}

		if err := pause.For(ctx, max(wait/passesPerWait, minPassPause)); err != nil {
			return m.delayed(err)
		}
	}
}

const (
	passesPerWait = 5                     // a bucket that appears later admits until the next pass
	minPassPause  = 10 * time.Millisecond // while a bucket cannot be marked
)

// errSwitchGone reports that another caller has turned the level on meanwhile.
var errSwitchGone = errors.New("the level is on again")

// again reports whether a request that failed may succeed later. Marking a bucket
// twice does no harm.
func again(err error) bool { return retryable(err) || resultOf(err) == unknown }

// pass lists the buckets and marks those without a mark. It reports whether it found
// any.
func (m *marking) pass(ctx context.Context) (found bool, err error) {
	r := m.repo
	stored, err := r.get(ctx, switchKey(r.ns, m.of.Entity))
	if err != nil {
		return false, err
	}
	if _, off := decodeSwitches(m.of.Entity, stored)[m.of]; !off {
		return false, errSwitchGone
	}

	buckets, err := r.bucketsOf(ctx, m.of)
	if err != nil {
		return false, err
	}
	buckets = slices.DeleteFunc(buckets, m.hasMark)

	m.failed, m.err = map[key]bool{}, nil
	for _, it := range buckets {
		m.failed[it.key()] = true
	}

	// A bucket that cannot be marked must not keep the others from it, so mark
	// records its error.
	_ = inParallel(ctx, inOrder(buckets), func(ctx context.Context, it item) error {
		m.mark(ctx, it.key())
		return nil
	})

	return len(buckets) > 0, m.err
}

// hasMark reports whether a bucket needs no mark of this call: it has one, or that of
// a later switch. The copy of an earlier switch does not suffice, since a charge that
// read no switch may be about to remove it.
func (m *marking) hasMark(it item) bool {
	copied, _ := it[attrOff].(*types.AttributeValueMemberM)
	if copied == nil {
		return false
	}
	return m.marked[it.key()] || item(copied.Value).text(fieldEvent) == m.event
}

// mark marks a bucket, and records the result.
func (m *marking) mark(ctx context.Context, k key) {
	u := newUpdate()
	u.setTo(u.attr(attrOff), m.copy)
	u.when("attribute_exists(" + u.attr(attrRefill) + ")")
	in := u.input(&m.repo.table, k)
	in.ReturnValues, in.ReturnValuesOnConditionCheckFailure = "", ""

	err := retry(ctx, func(err error, _ int) bool { return again(err) }, func() error {
		_, err := m.repo.updateOnce(ctx, in)
		return err
	})

	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err == nil:
		m.marked[k] = true
		delete(m.failed, k)
	case resultOf(err) == refused:
		// The bucket is gone.
		delete(m.failed, k)
	// An error that no retry heals ends the call, so it takes precedence.
	case m.err == nil || !again(err):
		m.err = m.repo.explain(err)
	}
}

// delayed returns the error of a call that could not mark every bucket.
func (m *marking) delayed(err error) error {
	late := &limiter.SwitchDelayedError{
		Scope: m.of, Within: cmp.Or(m.repo.opts.CacheTTL, defaultCacheTTL), Err: cmp.Or(m.err, err),
	}

	for k := range m.failed {
		late.Resources = append(late.Resources, strings.TrimPrefix(k.sk, bucketSKPrefix))
	}
	slices.Sort(late.Resources)
	return late
}

// inOrder returns a sequence of elements without an error.
func inOrder[T any](all []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, element := range all {
			if !yield(element, nil) {
				return
			}
		}
	}
}

// copiesOf returns the buckets of a scope that have the copy of a switch. Without
// them, charges remove the copies later, so an error does not matter.
func (r *Repository) copiesOf(ctx context.Context, of limiter.Scope) []item {
	if of.Entity == "" {
		return nil
	}
	buckets, _ := r.bucketsOf(ctx, of)
	return slices.DeleteFunc(buckets, func(it item) bool { return it[attrOff] == nil })
}

// removeCopies removes copies from buckets that no other switch of their entity
// concerns. It leaves copies that differ from those that were read before the switch
// was deleted: they belong to a later switch.
func (r *Repository) removeCopies(ctx context.Context, entity string, off rules.Switches, copies []item) {
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()

	copies = slices.DeleteFunc(copies, func(it item) bool {
		return off.Refusing([]string{entity}, strings.TrimPrefix(it.key().sk, bucketSKPrefix)) != nil
	})

	_ = inParallel(ctx, inOrder(copies), func(ctx context.Context, it item) error {
		u := newUpdate()
		attr := u.attr(attrOff)
		u.remove = append(u.remove, attr...)
		u.when(attr, "=", u.value(it[attrOff]))
		in := u.input(&r.table, it.key())
		in.ReturnValues, in.ReturnValuesOnConditionCheckFailure = "", ""
		_ = retry(ctx, func(err error, _ int) bool { return again(err) }, func() error {
			_, err := r.updateOnce(ctx, in)
			return err
		})
		return nil
	})
}

// bucketsOf returns the keys, refill times and copies of the buckets of an entity,
// or of an entity and a resource, those that were refilled last first.
func (r *Repository) bucketsOf(ctx context.Context, of limiter.Scope) ([]item, error) {
	in := queryPrefix(entityPK(r.ns, of.Entity), bucketSKPrefix)
	if of.Resource != "" {
		k := bucketKey(r.ns, of.Entity, of.Resource)
		in = between(k.pk, k.sk, k.sk)
	}
	in.ProjectionExpression = aws.String("#pk, #sk, #rf, #off")
	in.ExpressionAttributeNames["#rf"], in.ExpressionAttributeNames["#off"] = attrRefill, attrOff

	var buckets []item
	for it, err := range r.query(ctx, r.ns, in) {
		if err != nil {
			return nil, err
		}
		// Python's adjustments leave items without a refill time, which are no
		// buckets.
		if it[attrRefill] != nil {
			buckets = append(buckets, it)
		}
	}

	// Buckets that were refilled last are in use, so they are marked first.
	refills := make(map[key]int64, len(buckets))
	for _, it := range buckets {
		refills[it.key()], _ = it.number(attrRefill)
	}
	slices.SortStableFunc(buckets, func(a, b item) int { return cmp.Compare(refills[b.key()], refills[a.key()]) })
	return buckets, nil
}

// lateCopy is the event of the copy in a bucket that a late charge creates while a
// level of its entity is off.
const lateCopy = "late"

// requireOn requires that the bucket has no copy of a switch.
func (u *update) requireOn() { u.when("attribute_not_exists(" + u.attr(attrOff) + ")") }

// hasStrayCopy reports whether an image has the copy of a switch although no level
// is off.
func (p *payer) hasStrayCopy(img *image) bool { return img.off != nil && p.off == nil }

// dropStrayCopy makes a write remove a stray copy, on condition that it is still
// the same.
func (p *payer) dropStrayCopy(u *update) {
	if !p.hasStrayCopy(p.cached.image) {
		return
	}
	attr := u.attr(attrOff)
	u.remove = appendWords(u.remove, ",", attr)
	u.when(attr, "=", u.value(p.cached.image.off))
}

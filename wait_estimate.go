package limiter

import (
	"container/heap"
	"hash/maphash"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// estimates tracks the limits that the first waiters of all queues lack. For each
// limit that refused one of them it estimates the balance: the balance at the
// refusal, plus refill and the credits of this process since then, less the
// amounts reserved for woken waiters. A waiter wakes when the estimate covers its
// need, and the estimate reserves that need. So a credit or a refill wakes only as
// many waiters as it may serve. Only the first waiter of an estimate sets a timer
// for the refill; the others sleep until a signal.
//
// The estimate does not see other processes. If it is too high, a woken waiter is
// refused, which corrects it. If it is too low, the first waiter asks the store
// anyway after recheckInterval, and the answer wakes the others. So the number of
// requests grows with the waiters served, not with the waiters waiting.
//
// The mutex of waitQueues guards all fields.
type estimates struct {
	byKey map[limitKey]*estimate
	// credits counts credits, and lastCredit holds the count at the last credit
	// of the limits that share a slot. They reveal a credit to a limit that
	// became known only by the answer to a request that was under way. A reset of
	// a whole bucket has a slot too, and lastSwitch is the count at the last change
	// of a switch.
	credits    uint64
	lastCredit [512]uint64
	lastSwitch uint64
	seed       maphash.Seed
}

// limitKey identifies one limit of one bucket.
type limitKey struct{ namespace, entity, resource, limit string }

// bucket returns the key of the bucket as a whole.
func (k limitKey) bucket() limitKey { return limitKey{k.namespace, k.entity, k.resource, ""} }

// estimate is the estimated balance of a limit that waiters lack. Amounts are in
// thousandths.
type estimate struct {
	limitKey
	rate  bucket.Rate
	level int64 // the balance at time at, less reservations
	// at is in milliseconds. It is later than now if the bucket's own time is,
	// since the refill starts there.
	at       int64
	credited int64      // sum of the credits since the estimate exists
	refs     int        // waiters with a shortage of this limit
	waiters  waiterHeap // waiters that sleep; each is in the heap of one estimate
	recheck  time.Time  // when the first of them asks the store regardless of level
}

// shortage is the need of a waiter for one limit.
type shortage struct {
	*estimate
	need           int64
	creditedBefore int64 // estimate.credited when the waiter last asked the store
}

// beforeAcquire prepares for an answer of the store. Later credits add to that
// answer.
func (e *estimates) beforeAcquire(w *waiter) {
	e.removeFromHeap(w)

	w.askedAt, w.switched = e.credits, false
	// The answer under way will not contain credits that come from here on.
	for i := range w.shortages {
		w.shortages[i].creditedBefore = w.shortages[i].credited
	}
}

// admitted drops the shortages of a waiter whose lease has taken its need.
func (e *estimates) admitted(w *waiter, lease *Lease, now time.Time) {
	e.removeFromHeap(w)

	if w.corrects() && len(w.shortages) > 0 {
		// The balances of the lease correct the estimates for the waiters that
		// go on.
		left := newDecision(&Charge{}, Outcome{Admitted: true, Payers: lease.payers})
		for _, s := range w.shortages {
			s.advance(now)
			// The lease has taken the need, and no reservation has counted it
			// yet.
			if !w.reserved {
				s.level = bucket.Sub(s.level, s.need)
			}
			s.applyPassed(left, now)
		}
	}

	w.reserved, w.correcting = false, false
	e.dropShortages(w, now)
}

// abandon drops the shortages of a waiter that gives up, and its reservations.
func (e *estimates) abandon(w *waiter, now time.Time) {
	// A request without an answer corrected nothing, so the next waiter has to
	// ask.
	if w.waitsFor == nil && w.corrects() {
		for _, s := range w.shortages {
			s.recheck = now
		}
	}

	e.removeFromHeap(w)
	e.cancelReservation(w, now)
	e.dropShortages(w, now)
}

// dropShortages removes the shortages of a waiter and wakes waiters that may now
// fit.
func (e *estimates) dropShortages(w *waiter, now time.Time) {
	shortages := w.shortages
	w.shortages = nil

	// The freed reservation or the corrected level may serve others.
	for _, s := range shortages {
		e.wakeWaiters(s.estimate, now)
		e.unref(s.estimate)
	}
}

// cancelReservation returns the reserved needs of a waiter to the estimates.
func (e *estimates) cancelReservation(w *waiter, now time.Time) {
	if w.reserved {
		for _, s := range w.shortages {
			s.advance(now)
			s.level = bucket.Add(s.level, s.need)
		}
	}
	w.reserved, w.correcting = false, false
}

// corrects reports whether the next answer to the waiter corrects its estimates:
// it asks regardless of the level, or at the time of a recheck.
func (w *waiter) corrects() bool { return w.correcting || !w.reserved }

// refused replaces the shortages of a waiter by the violations in d. It reports
// whether the waiter should wait; otherwise it should ask again at once, since the
// tokens may be there by now.
func (e *estimates) refused(w *waiter, d Decision, now time.Time) (wait bool) {
	e.removeFromHeap(w)
	// A signal that came before this answer says nothing about it.
	select {
	case <-w.wake:
	default:
	}

	corrects := w.corrects()
	e.cancelReservation(w, now)
	old, missedCredit := w.shortages, e.lastSwitch > w.askedAt
	w.shortages = nil

	for _, v := range d.Violations() {
		s := shortage{
			estimate: e.estimate(limitKey{w.namespace, v.Entity, v.Resource, v.Limit.Name}),
			need:     bucket.Thousandths(v.Requested),
		}
		s.refs++

		credits, known := creditsSince(old, s.estimate)
		// A credit came while the store answered, to a limit that the waiter
		// did not know to lack. The answer may be older than the credit.
		if !known && max(e.lastCredit[e.slot(s.limitKey)], e.lastCredit[e.slot(s.bucket())]) > w.askedAt {
			missedCredit = true
		}

		s.applyViolation(v, credits, now)
		w.shortages = append(w.shortages, s)
	}

	for _, s := range old {
		// The store asked the limit and did not refuse, so its balance is
		// known.
		if _, still := creditsSince(w.shortages, s.estimate); corrects && !still {
			s.applyPassed(d, now)
		}
		e.wakeWaiters(s.estimate, now)
		e.unref(s.estimate)
	}

	// Others may fit into the corrected level.
	for _, s := range w.shortages {
		e.wakeWaiters(s.estimate, now)
	}

	// missedCredit is true once only: w asks after the change next time.
	return !missedCredit && !e.reserveOrSleep(w, now)
}

// creditsSince returns the credits to an estimate since its waiter asked, and
// reports whether the waiter knew the estimate then.
func creditsSince(shortages []shortage, of *estimate) (credits int64, known bool) {
	for _, s := range shortages {
		if s.estimate == of {
			return bucket.Sub(of.credited, s.creditedBefore), true
		}
	}
	return 0, false
}

// applyViolation sets the level to the balance in v, plus the credits since the
// store was asked.
func (s *shortage) applyViolation(v Status, credits int64, now time.Time) {
	s.rate, s.at = v.Limit.rate(), now.UnixMilli()
	whole := bucket.Thousandths(v.Available)
	level := whole
	if s.rate.Window != nil {
		// A clock that is ahead may have begun the window, and the next
		// boundary is that much later.
		s.at = max(s.at, v.WindowStart.UnixMilli())
		// The next boundary covers the need, also where the capacity was
		// lowered and the boundary adds more.
		if v.RetryAfter <= v.WindowLeft {
			s.rate.Peak = bucket.Sub(s.need, whole)
		}
	} else {
		// The refill begins at the bucket's own time, which the wait includes.
		if ahead := v.RetryAfter - bucket.Wait(bucket.Sub(s.need, whole), s.rate).Duration(); ahead > 0 {
			s.at += ahead.Milliseconds()
		}
		// Available is rounded down to a token. The wait shows the fraction, so
		// that no waiter asks too late by a part of a token.
		level = bucket.Sub(s.need, bucket.Accrued(0, v.RetryAfter.Milliseconds(), s.rate))
	}

	// The store has refused the need, so the level is below it, whatever the
	// rounding says.
	level = min(max(level, whole), bucket.Add(whole, bucket.Milli-1), s.need-1)
	s.level = min(s.rate.Capacity, bucket.Add(level, credits))

	s.recheck = now.Add(recheckInterval)
	// The boundary is a time of the limiter's clock, which may not be this one.
	if s.rate.Window != nil {
		s.recheck = now.Add(min(v.RetryAfter, recheckInterval))
	}
	// The store lost a race, so the level does not say when to retry.
	if v.Deficit() == 0 {
		s.recheck = now.Add(min(v.RetryAfter, recheckInterval))
	}
}

// applyPassed sets the level to the balance that d shows for a limit that is not
// exceeded. If d does not show the limit, the next waiter rechecks at once.
func (est *estimate) applyPassed(d Decision, now time.Time) {
	est.recheck = now
	for _, s := range d.Passed() {
		if s.Entity == est.entity && s.Resource == est.resource && s.Limit.Name == est.limit {
			est.advance(now)
			est.rate = s.Limit.rate()
			whole := bucket.Thousandths(s.Available)
			// The estimate may know the fraction of a token, which Available
			// leaves out.
			est.level = min(max(est.level, whole), bucket.Add(whole, bucket.Milli-1))
			est.recheck = now.Add(recheckInterval)
		}
	}
}

// reserveOrSleep reserves the needs of a waiter if the estimates cover all of
// them, and reports whether it did. Otherwise it adds the waiter to the heap of
// the estimate with the longest wait.
func (e *estimates) reserveOrSleep(w *waiter, now time.Time) (reserved bool) {
	var longest time.Duration
	var slowest *estimate
	for _, s := range w.shortages {
		if wait := s.wait(now); wait > longest {
			longest, slowest = wait, s.estimate
		}
	}

	// The longest wait decides: waking earlier could only end in a refusal by
	// that limit.
	if slowest != nil {
		w.waitsFor = slowest
		heap.Push(&slowest.waiters, w)
		e.reschedule(slowest, now)
		return false
	}

	for _, s := range w.shortages {
		s.level = bucket.Sub(s.level, s.need)
	}
	w.reserved = true
	return true
}

// wait returns how long until the estimate covers the need.
func (s *shortage) wait(now time.Time) time.Duration {
	s.advance(now)
	wait := bucket.WaitAt(bucket.Sub(s.need, s.level), s.at, s.rate)
	if wait.IsZero() {
		return 0
	}
	// The bucket's own time may be ahead, and the refill starts there.
	ahead := time.Duration(s.at-now.UnixMilli()) * time.Millisecond
	return time.Duration(bucket.Add(int64(ahead), int64(wait.Duration())))
}

// credit adds n tokens that the store was given, or subtracts tokens that were
// taken if n is negative.
func (e *estimates) credit(key limitKey, n int64, now time.Time) {
	// The count shows a waiter whose answer is on its way that a credit came
	// meanwhile.
	if n > 0 {
		e.credits++
		e.lastCredit[e.slot(key)] = e.credits
	}

	est := e.byKey[key]
	if est == nil {
		return
	}

	n = bucket.Thousandths(n)
	est.advance(now)
	est.level = min(est.rate.Capacity, bucket.Add(est.level, n))

	if n > 0 {
		est.credited = bucket.Add(est.credited, n)
		e.wakeWaiters(est, now)
	}
}

// reset fills the named limits of a bucket, or all if there are no names.
func (e *estimates) reset(bucketKey limitKey, limits []string, now time.Time) {
	e.credits++
	e.lastCredit[e.slot(bucketKey)] = e.credits

	for key, est := range e.byKey {
		if key.bucket() != bucketKey || len(limits) > 0 && !slices.Contains(limits, key.limit) {
			continue
		}

		est.advance(now)
		est.credited = bucket.Add(est.credited, max(0, bucket.Sub(est.rate.Capacity, est.level)))
		est.level = est.rate.Capacity
		e.wakeWaiters(est, now)
	}
}

// wakeWaiters wakes the waiters that the level covers, smallest need first. A
// waiter that lacks another limit moves to the heap of that estimate and does not
// block the waiters behind it.
func (e *estimates) wakeWaiters(est *estimate, now time.Time) {
	est.advance(now)
	for len(est.waiters) > 0 && est.level >= est.waiters[0].shortage(est).need {
		w := est.waiters[0]
		e.removeFromHeap(w)
		// Another limit is not covered yet, so the waiter sleeps in the heap of
		// that limit.
		if !e.reserveOrSleep(w, now) {
			continue
		}
		// One waiter at a time asks for the others, and the recheck is due.
		if !now.Before(est.recheck) {
			est.startRecheck(w, now)
		}
		w.signal()
	}

	e.reschedule(est, now)
}

// reschedule wakes the first waiter of an estimate if it has to wake earlier than
// its timer.
func (e *estimates) reschedule(est *estimate, now time.Time) {
	if len(est.waiters) == 0 {
		return
	}

	w := est.waiters[0]
	// A waiter that wakes in time already needs no signal.
	if at := est.wakeTime(now); at.Before(w.wakeAt) {
		w.wakeAt = at
		w.signal()
	}
}

// wakeTime returns when the first waiter of an estimate has to wake: when the
// level covers its need, or for the recheck.
func (est *estimate) wakeTime(now time.Time) time.Time {
	at := now.Add(est.waiters[0].shortage(est).wait(now))
	if est.recheck.Before(at) {
		return est.recheck
	}
	return at
}

// sleepTime returns how long a refused waiter sleeps before it calls sleepTime
// again, or 0 if it should ask the store.
func (e *estimates) sleepTime(w *waiter, now time.Time) time.Duration {
	// A reservation that was made by another call needs no second one.
	if !w.reserved {
		e.wakeWaiters(w.waitsFor, now)
	}
	if w.reserved {
		return 0
	}

	est := w.waitsFor
	first := est.waiters[0] == w
	// A need above the capacity never fits, which only the store's answer can
	// say.
	if first && !now.Before(est.recheck) || w.exceedsCapacity() || w.switched {
		e.removeFromHeap(w)
		est.startRecheck(w, now)
		e.reschedule(est, now)
		return 0
	}

	w.wakeAt = now.Add(recheckInterval)
	if first {
		w.wakeAt = est.wakeTime(now)
	}
	return w.wakeAt.Sub(now)
}

// startRecheck lets a waiter ask the store in order to correct the level. If the
// store does not answer, the next waiter does so after recheckInterval.
func (est *estimate) startRecheck(w *waiter, now time.Time) {
	w.correcting = true
	est.recheck = now.Add(recheckInterval)
}

// exceedsCapacity reports whether the waiter needs more than a full bucket holds,
// because a capacity was lowered.
func (w *waiter) exceedsCapacity() bool {
	return slices.ContainsFunc(w.shortages, func(s shortage) bool { return s.need > s.rate.Capacity })
}

func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// shortage returns the waiter's shortage of an estimated limit.
func (w *waiter) shortage(of *estimate) *shortage {
	for i := range w.shortages {
		if w.shortages[i].estimate == of {
			return &w.shortages[i]
		}
	}
	return &shortage{estimate: of}
}

// estimate returns the estimate of a limit and creates it if there is none.
func (e *estimates) estimate(key limitKey) *estimate {
	est := e.byKey[key]
	if est == nil {
		if e.byKey == nil {
			e.byKey = map[limitKey]*estimate{}
		}
		est = &estimate{limitKey: key}
		e.byKey[key] = est
	}
	return est
}

// unref deletes an estimate when its last waiter leaves.
func (e *estimates) unref(est *estimate) {
	if est.refs--; est.refs == 0 {
		delete(e.byKey, est.limitKey)
	}
}

func (e *estimates) removeFromHeap(w *waiter) {
	if w.waitsFor != nil {
		heap.Remove(&w.waitsFor.waiters, w.heapIndex)
		w.waitsFor = nil
	}
}

func (e *estimates) slot(key limitKey) uint64 {
	if e.seed == (maphash.Seed{}) {
		e.seed = maphash.MakeSeed()
	}
	return maphash.Comparable(e.seed, key) % uint64(len(e.lastCredit))
}

// advance refills the level up to now.
func (est *estimate) advance(now time.Time) {
	est.level = bucket.Advance(est.level, est.at, now.UnixMilli(), est.rate)
	if est.rate.Peak != 0 && est.rate.Window.Count(est.at, now.UnixMilli()) > 0 {
		est.rate.Peak = 0
	}
	est.at = max(est.at, now.UnixMilli())
}

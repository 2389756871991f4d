package limiter

import (
	"container/heap"
	"hash/maphash"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// wants is what the first waiters of all lines lack. For each limit of a bucket
// that refused one of them it estimates what is there: as a refusal said, plus
// refill and what this process gave back since, less what waiters were woken
// for. A waiter is woken when what it lacks may be there, and what it is woken
// for is set aside, so that a give-back or refill wakes as many as it may serve
// and not all who lack it. Only the first waiter of a want keeps its time: it
// sleeps until refill is enough for it, and the others until they are woken.
//
// The estimate misses what others do. If it is too high, a waiter asks in vain,
// which corrects it. If it is too low, the first waiter asks in spite of it after
// recheck, and what the store shows then wakes the others. So the store is asked
// as often as waiters are served, and not more often the more of them wait.
//
// The lock of its lines guards all of it.
type wants struct {
	of map[shortage]*want
	// credits counts give-backs, and latest is the last one of the shortages
	// that share a slot. So a waiter learns, of a bucket that it did not know
	// when it asked, whether something was given back meanwhile.
	credits uint64
	latest  [512]uint64
	seed    maphash.Seed
}

// shortage is one limit of one bucket.
type shortage struct{ space, entity, resource, limit string }

// want is a shortage that some waiters have. Amounts are thousandths.
type want struct {
	shortage
	rate  bucket.Rate
	level int64     // what may be there at time at, in milliseconds
	at    int64     // later than now where the bucket's own time is: it refills from then on
	given int64     // given back since the want came up
	refs  int       // waiters that lack it
	watch watches   // those that wait for it; each waits for one want
	probe time.Time // when the first of them asks, whatever the level
}

// craving is what a waiter lacks.
type craving struct {
	lacks   []lack
	asked   uint64    // credits when it last asked
	watched *want     // where it waits, nil while it asks
	index   int       // there
	again   time.Time // when it wakes by itself
	granted bool      // woken to ask at once: need is set aside at every want
	probes  bool      // its answer is to correct the level
}

// lack is how much of a want a waiter needs to have there.
type lack struct {
	*want
	need int64
	mark int64 // given when it last asked
}

// asks prepares for an answer of the store: what is given back from now on adds
// to it.
func (w *wants) asks(me *waiter) {
	w.unwatch(me)
	me.asked = w.credits
	for i := range me.lacks {
		me.lacks[i].mark = me.lacks[i].given
	}
}

// served forgets what a waiter lacked, which it has taken now.
func (w *wants) served(me *waiter, lease *Lease, now time.Time) {
	w.unwatch(me)
	if me.probing() && len(me.lacks) > 0 {
		left := decide(&Charge{}, Outcome{Admitted: true, Self: lease.self, Parent: lease.parent})
		for _, k := range me.lacks {
			k.advance(now)
			if !me.granted {
				k.level = bucket.Sub(k.level, k.need)
			}
			k.reveal(left, now)
		}
	}
	me.granted, me.probes = false, false
	w.forget(me, now)
}

// renounce forgets what a waiter lacked: others may have what was set aside.
func (w *wants) renounce(me *waiter, now time.Time) {
	if me.watched == nil && me.probing() { // it got no answer
		for _, k := range me.lacks {
			k.probe = now
		}
	}
	w.unwatch(me)
	w.restore(me, now)
	w.forget(me, now)
}

// forget lets others have what a waiter lacked.
func (w *wants) forget(me *waiter, now time.Time) {
	lacks := me.lacks
	me.lacks = nil
	for _, k := range lacks {
		w.serve(k.want, now)
		w.release(k.want)
	}
}

// restore gives up what was set aside for a waiter.
func (w *wants) restore(me *waiter, now time.Time) {
	if me.granted {
		for _, k := range me.lacks {
			k.advance(now)
			k.level = bucket.Add(k.level, k.need)
		}
	}
	me.granted, me.probes = false, false
}

// probing reports whether a waiter that asks does so in spite of the level, or
// at the time when one would.
func (w *waiter) probing() bool { return w.probes || !w.granted }

// refused replaces what a waiter lacks by what the store says now, and reports
// whether there is anything to wait for.
func (w *wants) refused(me *waiter, d Decision, now time.Time) (wait bool) {
	w.unwatch(me)
	select {
	case <-me.wake: // it has asked since
	default:
	}
	probed := me.probing()
	w.restore(me, now)
	old, missed := me.lacks, false
	me.lacks = nil
	for _, s := range d.Violations() {
		k := lack{want: w.find(shortage{me.space, s.Entity, s.Resource, s.Limit.Name}), need: bucket.Thousandths(s.Requested)}
		k.refs++
		credits, known := since(old, k.want)
		if !known && w.latest[w.slot(k.shortage)] > me.asked {
			missed = true
		}
		k.observe(s, credits, now)
		me.lacks = append(me.lacks, k)
	}
	for _, k := range old {
		if _, still := since(me.lacks, k.want); probed && !still {
			k.reveal(d, now)
		}
		w.serve(k.want, now)
		w.release(k.want)
	}
	for _, k := range me.lacks { // others may fit into what is there
		w.serve(k.want, now)
	}
	return !missed && !w.settle(me, now) // missed only once: next time the want is known
}

// since is what was given back to a want since its waiter asked, if the waiter
// knew it then.
func since(lacks []lack, of *want) (credits int64, known bool) {
	for _, k := range lacks {
		if k.want == of {
			return bucket.Sub(of.given, k.mark), true
		}
	}
	return 0, false
}

// observe makes the level what a refusal says, plus what was given back since
// the store was asked.
func (k *lack) observe(s Status, credits int64, now time.Time) {
	k.rate, k.at = s.Limit.rate(), now.UnixMilli()
	whole := bucket.Thousandths(s.Available)
	if ahead := s.RetryAfter - bucket.Wait(bucket.Sub(k.need, whole), k.rate).Duration(); ahead > 0 {
		k.at += ahead.Milliseconds()
	}
	level := bucket.Sub(k.need, bucket.Accrued(0, s.RetryAfter.Milliseconds(), k.rate)) // about, to the thousandth
	level = min(max(level, whole), bucket.Add(whole, bucket.Milli-1), k.need-1)
	k.level = min(k.rate.Capacity, bucket.Add(level, credits))
	k.probe = now.Add(recheck)
	if s.Deficit() == 0 { // the store lost a race: no level says when to try again
		k.probe = now.Add(min(s.RetryAfter, recheck))
	}
}

// reveal makes the level what the store showed to a waiter that probes it, and
// did not lack it. If the store did not show it, the next waiter is to probe at
// once.
func (in *want) reveal(d Decision, now time.Time) {
	in.probe = now
	for _, s := range d.Passed() {
		if s.Entity == in.entity && s.Resource == in.resource && s.Limit.Name == in.limit {
			in.advance(now)
			in.rate = s.Limit.rate()
			whole := bucket.Thousandths(s.Available)
			in.level = min(max(in.level, whole), bucket.Add(whole, bucket.Milli-1))
			in.probe = now.Add(recheck)
		}
	}
}

// settle makes a waiter wait where it has to wait longest, or sets aside what
// it lacks if that may be there.
func (w *wants) settle(me *waiter, now time.Time) (granted bool) {
	var longest time.Duration
	var at *want
	for _, k := range me.lacks {
		if wait := k.wait(now); wait > longest {
			longest, at = wait, k.want
		}
	}
	if at != nil {
		me.watched = at
		heap.Push(&at.watch, me)
		w.hasten(at, now)
		return false
	}
	for _, k := range me.lacks {
		k.level = bucket.Sub(k.level, k.need)
	}
	me.granted = true
	return true
}

// wait is how long it takes until what is lacked may be there.
func (k *lack) wait(now time.Time) time.Duration {
	k.advance(now)
	wait := bucket.Wait(bucket.Sub(k.need, k.level), k.rate)
	if wait.IsZero() {
		return 0
	}
	ahead := time.Duration(k.at-now.UnixMilli()) * time.Millisecond
	return time.Duration(bucket.Add(int64(ahead), int64(wait.Duration())))
}

// credit adds what the store was given, or subtracts what was taken.
func (w *wants) credit(of shortage, n int64, now time.Time) {
	if n > 0 {
		w.credits++
		w.latest[w.slot(of)] = w.credits
	}
	in := w.of[of]
	if in == nil {
		return
	}
	n = bucket.Thousandths(n)
	in.advance(now)
	in.level = min(in.rate.Capacity, bucket.Add(in.level, n))
	if n > 0 {
		in.given = bucket.Add(in.given, n)
		w.serve(in, now)
	}
}

// serve wakes the waiters for which there may be enough, those that need least
// first. The first for which there is not sleeps no longer than that takes. One
// that lacks something else waits there, and holds up none behind it.
func (w *wants) serve(in *want, now time.Time) {
	in.advance(now)
	for len(in.watch) > 0 && in.level >= in.watch[0].lack(in).need {
		me := in.watch[0]
		w.unwatch(me)
		if !w.settle(me, now) {
			continue
		}
		if !now.Before(in.probe) {
			in.probed(me, now)
		}
		me.signal()
	}
	w.hasten(in, now)
}

// hasten makes the first waiter of a want keep its time.
func (w *wants) hasten(in *want, now time.Time) {
	if len(in.watch) == 0 {
		return
	}
	me := in.watch[0]
	if at := in.due(now); at.Before(me.again) {
		me.again = at
		me.signal()
	}
}

// due is when the first waiter of a want is to look after it: what it lacks
// there may be there, or it is time to ask in spite of the level.
func (in *want) due(now time.Time) time.Time {
	at := now.Add(in.watch[0].lack(in).wait(now))
	if in.probe.Before(at) {
		return in.probe
	}
	return at
}

// sleep is how long a refused waiter sleeps before it calls sleep again; zero
// when it is to ask the store.
func (w *wants) sleep(me *waiter, now time.Time) time.Duration {
	if !me.granted {
		w.serve(me.watched, now)
	}
	if me.granted {
		return 0
	}
	in := me.watched
	first := in.watch[0] == me
	if first && !now.Before(in.probe) || me.outgrown() {
		w.unwatch(me)
		in.probed(me, now)
		w.hasten(in, now)
		return 0
	}
	me.again = now.Add(recheck)
	if first {
		me.again = in.due(now)
	}
	return me.again.Sub(now)
}

// probed lets a waiter ask to correct the level. If the store does not answer,
// the next one does so after recheck.
func (in *want) probed(me *waiter, now time.Time) {
	me.probes = true
	in.probe = now.Add(recheck)
}

// outgrown reports whether a waiter needs more than a want now holds when full.
func (w *waiter) outgrown() bool {
	return slices.ContainsFunc(w.lacks, func(k lack) bool { return k.need > k.rate.Capacity })
}

func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// lack is what the waiter lacks of a want.
func (w *waiter) lack(of *want) *lack {
	for i := range w.lacks {
		if w.lacks[i].want == of {
			return &w.lacks[i]
		}
	}
	return &lack{want: of}
}

// find is the want of a shortage, a new one if there is none.
func (w *wants) find(of shortage) *want {
	in := w.of[of]
	if in == nil {
		if w.of == nil {
			w.of = map[shortage]*want{}
		}
		in = &want{shortage: of}
		w.of[of] = in
	}
	return in
}

// release forgets a want that no waiter has any more.
func (w *wants) release(in *want) {
	if in.refs--; in.refs == 0 {
		delete(w.of, in.shortage)
	}
}

func (w *wants) unwatch(me *waiter) {
	if me.watched != nil {
		heap.Remove(&me.watched.watch, me.index)
		me.watched = nil
	}
}

func (w *wants) slot(of shortage) uint64 {
	if w.seed == (maphash.Seed{}) {
		w.seed = maphash.MakeSeed()
	}
	return maphash.Comparable(w.seed, of) % uint64(len(w.latest))
}

// advance refills the level up to now.
func (in *want) advance(now time.Time) {
	in.level = bucket.Advance(in.level, in.at, now.UnixMilli(), in.rate)
	in.at = max(in.at, now.UnixMilli())
}

package dynamo

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// images caches what this process last saw of buckets. It evicts at random: the
// price is one read.
type images struct {
	size   int // the most entries
	mu     sync.Mutex
	cached map[key]*cachedBucket
	// The value of lastRef when an entity was deleted, by the entity's partition.
	// Handles with a number up to it belong to buckets that are gone.
	deleted map[string]uint64
	lastRef uint64
	epoch   uint64 // how often all refusals were cleared
}

// cachedBucket holds what this process knows of one bucket.
type cachedBucket struct {
	// Nil if unknown.
	image *image
	// The latest refill time ever seen in the item.
	maxRefill int64
	// The latest time at which this process changed the bucket.
	lastWrite int64
	written   lifetime
	// The moment of the last refusal; zero if something may have been given
	// back since.
	refused moment
	epoch   uint64 // images.epoch at the last refusal
	changes uint64 // how often this process changed the bucket
	ref     *ref
	account *limiter.Account // of the last charge
}

// lifetime is the ttl that this process wrote last, with the idle time that it
// stands for. A ttl does not always show that: a debt, or a limit of an override,
// moves it.
type lifetime struct {
	// In seconds. Another value in the item comes from another writer.
	ttl  int64
	idle int64
}

// ref is the handle of an account: one life of a bucket, as far as this process
// can distinguish it from the next.
type ref struct {
	number uint64
	// Identifies the life in the item; nil while it has none.
	named atomic.Pointer[string]
	ttl   atomic.Int64 // as last seen, in seconds
	// The bucket was removed or replaced.
	over atomic.Bool
}

// life returns what identifies the life in the item, or "".
func (r *ref) life() string {
	if life := r.named.Load(); life != nil {
		return *life
	}
	return ""
}

// setLife sets what identifies the life, if there is anything.
func (r *ref) setLife(life string) {
	if life != "" {
		r.named.Store(&life)
	}
}

// expired reports whether the bucket has expired, by the ttl that was last seen.
func (r *ref) expired(now int64) bool {
	ttl := r.ttl.Load()
	return ttl != 0 && ttl*bucket.Milli <= now
}

const (
	// maxBehind is how far a refill time may lie before the latest seen, if a slow
	// clock wrote it. Beyond that it is another bucket: deleting the item that a
	// fast clock has spoiled must help. In milliseconds.
	maxBehind = 3600 * 1000
	// maxAhead is how far clocks that serve one process may disagree. A remembered
	// time further ahead was a mistake. In milliseconds.
	maxAhead = 2 * 60 * 1000
	// maxAheadOfClock is maxAhead where the caller's time is the machine's.
	maxAheadOfClock = 1000
	// rejectionLife is how long a refusal is remembered.
	rejectionLife = time.Second
)

// newImages returns a cache of up to size buckets.
func newImages(size int) *images {
	return &images{size: size, cached: map[key]*cachedBucket{}, deleted: map[string]uint64{}}
}

// get returns what is cached of a bucket for a call that begins at a moment.
func (m *images) get(k key, at moment) cachedBucket {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.find(k)
	if e == nil {
		return cachedBucket{}
	}

	if at.corrects(e.lastWrite) {
		e.lastWrite = 0
	}

	if e.epoch != m.epoch {
		e.refused = moment{}
	}

	return *e
}

// corrects reports whether a remembered time was a mistake of a clock. Keeping it
// would refill the bucket ahead of time and then stop it. Without it a charge
// counts from the stored refill time, which mints nothing.
func (m moment) corrects(remembered int64) bool {
	ahead := remembered - m.now
	off := m.clock.UnixMilli() + m.correction - m.now
	return ahead > maxAhead || ahead > maxAheadOfClock && off <= maxAheadOfClock && off >= -maxAheadOfClock
}

// observe caches an image that was read, and returns the entry. before is the
// entry when the request began, nil for none. If this process has learned of a
// later refill since, the entry keeps its image. A nil image ends the bucket,
// unless another has begun since. If this process changed the bucket since, the
// image may be older than a give-back, and observe clears the last refusal.
func (m *images) observe(k key, img *image, before *cachedBucket) cachedBucket {
	m.mu.Lock()
	defer m.mu.Unlock()

	if before == nil {
		before = &cachedBucket{}
	}

	// Another call may have met a later bucket, which this response does not
	// end.
	if img == nil {
		if e := m.find(k); e != nil && e.ref == before.ref {
			e.ref.over.Store(true)
			delete(m.cached, k)
		}
		return cachedBucket{}
	}

	e := m.entry(k)
	maxRefill, older := m.meet(e, img, before)
	if older {
		return *e
	}

	// The image may be older than a give-back of this process, which a charge
	// must not be refused for.
	if m.update(e, img, maxRefill); e.changes != before.changes {
		e.refused = moment{}
	}

	return *e
}

// meet makes an entry belong to the life that an image shows, and returns the latest
// refill time of it that was seen when the request began. If the image shows a life
// that ended while the request was under way, meet reports that and leaves the entry
// alone.
func (m *images) meet(e *cachedBucket, img *image, before *cachedBucket) (maxRefill int64, older bool) {
	known := e.ref.life()
	switch {
	case known == img.life:
		return before.maxRefill, false
	// A new entry, or a bucket that has just got its identity.
	case known == "":
		e.ref.setLife(img.life)
		return before.maxRefill, false
	// The entry has another life than when the request began, and the image
	// shows the earlier one.
	case before.ref != nil && before.ref != e.ref && before.ref.life() == img.life:
		return 0, true
	}

	e.ref.over.Store(true)
	*e = cachedBucket{ref: m.newRef(), changes: e.changes + 1}
	e.ref.setLife(img.life)

	return 0, false
}

// observeWrite caches the image that a write of this process left, and returns
// the entry. after is the bucket by the plan, before the entry when the write was
// sent. A recreated bucket gets a new handle, so that leases of the old one do
// not reach it, unless another call has met it before this response.
func (m *images) observeWrite(
	k key, img *image, before *cachedBucket, after *rules.Bucket, recreate bool,
) cachedBucket {
	m.mu.Lock()
	defer m.mu.Unlock()

	e := m.entry(k)
	maxRefill := before.maxRefill

	// If another call has met the new bucket before this response, its leases
	// have the handle that the entry holds.
	if recreate && !e.metSince(img.refill, before) {
		e.ref.over.Store(true)
		*e, maxRefill = cachedBucket{ref: m.newRef()}, 0
	}

	met, older := m.meet(e, img, before)

	// What was paid belongs to the life that has ended.
	if older {
		ended := *e
		ended.ref, ended.account = before.ref, nil
		return ended
	}

	if m.update(e, img, min(met, maxRefill)) {
		e.written = lifetime{img.ttl, after.Idle}
	}

	e.lastWrite, e.refused = max(e.lastWrite, after.At), moment{}
	e.changes++
	return *e
}

// observeCharge does what observeWrite does, and shares the account of the charge.
func (m *images) observeCharge(
	k key, img *image, before *cachedBucket, after *rules.Bucket, recreate bool, account *limiter.Account,
) cachedBucket {
	return m.shareAccount(k, m.observeWrite(k, img, before, after, recreate), account)
}

// shareAccount puts an account with the bucket's handle into an entry, and
// returns the entry. Later charges share the account while it stays the same.
func (m *images) shareAccount(k key, cached cachedBucket, account *limiter.Account) cachedBucket {
	if cached.account == account {
		return cached
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	a := *account
	a.Ref, cached.account = cached.ref, &a

	if e := m.cached[k]; e != nil && e.ref == cached.ref {
		e.account = &a
	}
	return cached
}

// update puts the image of a response into an entry. before is the latest refill
// time seen when the request began. update reports whether it took the image: the
// response may be older than what this process has learned since. If it has
// learned nothing since, the item's refill time has gone back.
func (m *images) update(e *cachedBucket, img *image, before int64) (taken bool) {
	// The refill time is so much earlier that this is another bucket.
	if min(e.maxRefill, before) > img.refill+maxBehind {
		e.maxRefill, e.lastWrite, e.written = 0, 0, lifetime{}
	}

	// This process has seen a later refill since the request began, so the
	// image was overtaken.
	if img.refill < e.maxRefill && before < e.maxRefill {
		return false
	}

	e.image, e.maxRefill = img, max(e.maxRefill, img.refill)
	e.ref.ttl.Store(img.ttl)
	return true
}

// metSince reports whether this process has learned of a bucket with this refill
// time since before. A time far ahead of it belongs to an older bucket.
func (b *cachedBucket) metSince(refill int64, before *cachedBucket) bool {
	later := b.ref != before.ref || b.maxRefill > before.maxRefill
	return later && b.maxRefill >= refill && b.maxRefill-refill <= maxAhead
}

// idle returns how long the bucket is kept without a write; 0 means forever.
func (b *cachedBucket) idle(multiplier int) int64 {
	if b.image.ttl != 0 && b.image.ttl == b.written.ttl {
		return b.written.idle
	}
	return b.image.idle(max(b.image.refill, b.maxRefill, b.lastWrite), multiplier)
}

// expired reports whether the bucket counts as absent at now, although the
// table may still have the item: its time is over, and it is full. A quota
// moves the ttl to the boundary at which it is full. A give-back may fill the
// bucket before, which then only has to idle since the last write. A process
// that does not know that write counts from the refill time, and only if the
// ttl is a boundary: any other ttl already is the idle time after the last
// write.
func (b *cachedBucket) expired(now int64, multiplier int) bool {
	if b.image.ttl == 0 {
		return false
	}

	base := max(b.image.refill, b.maxRefill)
	end := b.image.ttl
	if b.image.mayFillEarly() && (b.lastWrite > 0 || b.image.endsAtBoundary()) {
		end = min(end, ceilSeconds(bucket.Add(max(base, b.lastWrite), b.idle(multiplier))))
	}

	// Limits that those of the bucket have replaced would be full only then.
	end = max(end, ceilSeconds(b.image.keep))

	return end*bucket.Milli <= now && b.image.full(base, now)
}

// newRef returns the handle of a new bucket.
func (m *images) newRef() *ref {
	m.lastRef++
	return &ref{number: m.lastRef}
}

// find returns the entry of a bucket, or nil if there is none or its entity was
// deleted since.
func (m *images) find(k key) *cachedBucket {
	e := m.cached[k]
	if e != nil && e.ref.number <= m.deleted[k.pk] {
		delete(m.cached, k)
		return nil
	}
	return e
}

// entry returns the entry of a bucket, and adds it if there is none.
func (m *images) entry(k key) *cachedBucket {
	e := m.find(k)
	if e == nil {
		for other := range m.cached {
			if len(m.cached) < m.size {
				break
			}
			delete(m.cached, other)
		}

		e = &cachedBucket{ref: m.newRef()}
		m.cached[k] = e
	}
	return e
}

// refuse remembers a refusal, unless this process has changed the bucket since
// the charge began: something may have been given back.
func (m *images) refuse(k key, changes uint64, at moment) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.cached[k]; e != nil && e.changes == changes {
		e.refused, e.epoch = at, m.epoch
	}
}

// clearRefusals forgets all refusals, after limits have changed.
func (m *images) clearRefusals() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.epoch++
}

// isDeleted reports whether this process has deleted the entity of a handle.
func (m *images) isDeleted(k key, r *ref) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return r.number <= m.deleted[k.pk]
}

// forget drops the buckets of a deleted entity, and makes their leases do
// nothing.
func (m *images) forget(pk string) {
	m.mu.Lock()
	defer m.mu.Unlock()

	// Dropping one at random costs little: the identity in the item still
	// distinguishes the lives.
	for other := range m.deleted {
		if len(m.deleted) < m.size {
			break
		}
		delete(m.deleted, other)
	}

	m.deleted[pk] = m.lastRef
}

// forgetNamespace drops the buckets of a namespace.
func (m *images) forgetNamespace(ns string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := range m.cached {
		if strings.HasPrefix(k.pk, entityPKPrefix(ns)) {
			delete(m.cached, k)
		}
	}
}

// clear drops everything.
func (m *images) clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.cached)
}

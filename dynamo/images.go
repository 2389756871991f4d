package dynamo

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// images remembers what this process last saw of buckets. Which are forgotten
// when there are too many is left to chance: the price is one read.
type images struct {
	most    int
	mu      sync.Mutex
	known   map[key]*known
	deleted map[string]uint64 // by partition of a deleted entity: the last bucket made by then
	made    uint64
	pardons uint64 // how often all refusals were forgotten
}

// known is what this process knows of one bucket.
type known struct {
	image   *image // nil: nothing
	seen    int64  // the latest refill time ever seen in the item
	now     int64  // the latest time at which this process changed it
	stay    stay   // what this process meant by the ttl that it wrote last
	refused moment // when it was last refused; zero when something may have been given back since
	pardons uint64 // as it was then
	changes uint64 // how often this process changed it
	ref     *ref
	account *limiter.Account // of the last charge
}

// stay is how long a bucket stays untouched, which a ttl does not always show: a
// debt, or a limit that an override brought, may have put off the end.
type stay struct {
	ttl  int64 // as it was written, in seconds; another is somebody else's
	idle int64
}

// idle is how long the bucket stays untouched, 0 for ever.
func (k *known) idle(multiplier int) int64 {
	if k.image.ttl != 0 && k.image.ttl == k.stay.ttl {
		return k.stay.idle
	}
	return k.image.idle(max(k.image.refill, k.seen, k.now), multiplier)
}

// ref is an account's handle: one life of a bucket, as far as this process can
// tell one from the next.
type ref struct {
	number uint64
	ttl    atomic.Int64 // as last seen, in seconds
	over   atomic.Bool  // the bucket went, or another has begun in its place
}

// maxBehind is by how much a refill time may lie before the latest seen, for a
// clock that is behind to have written it. More, and the bucket is another one:
// after a clock that was far ahead, deleting the item must help. In
// milliseconds.
const maxBehind = 3600 * 1000

// rejectionLife is how long a refusal is remembered.
const rejectionLife = time.Second

func newImages(most int) *images {
	return &images{most: most, known: map[key]*known{}, deleted: map[string]uint64{}}
}

// By how much clocks that serve one process disagree at most, in milliseconds. A
// remembered time that is further ahead was a mistake, which has been corrected
// since.
const (
	maxAhead        = 2 * 60 * 1000
	maxAheadOfClock = 1000 // where the caller's time is the machine's
)

// corrects reports whether a time that was remembered turns out to be a mistake
// of the clock. Counting on it would refill the bucket ahead of time and then
// stop it; without it a charge counts from the stored refill time, which mints
// nothing.
func (m moment) corrects(remembered int64) bool {
	ahead := remembered - m.now
	off := m.clock.UnixMilli() - m.now
	return ahead > maxAhead || ahead > maxAheadOfClock && off <= maxAheadOfClock && off >= -maxAheadOfClock
}

// get returns what is known of a bucket to a call that begins at a moment.
func (m *images) get(k key, at moment) known {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.alive(k)
	if e == nil {
		return known{}
	}
	if at.corrects(e.now) {
		e.now = 0
	}
	if e.pardons != m.pardons {
		e.refused = moment{}
	}
	return *e
}

// alive is the entry of a bucket, nil if there is none, or its entity was
// deleted since.
func (m *images) alive(k key) *known {
	e := m.known[k]
	if e != nil && e.ref.number <= m.deleted[k.pk] {
		delete(m.known, k)
		return nil
	}
	return e
}

// saw remembers an image that was read, by a request that began when before was
// known, nil for nothing. A nil image is a bucket that is not there, unless one
// has begun since. The image in what is known afterwards is another one if this
// process has learned of a later refill meanwhile. An image that may be older
// than what this process gave back ends a refusal that is remembered.
func (m *images) saw(k key, img *image, before *known) known {
	m.mu.Lock()
	defer m.mu.Unlock()
	if before == nil {
		before = &known{}
	}
	if img == nil {
		if e := m.alive(k); e != nil && e.ref == before.ref {
			e.ref.over.Store(true)
			delete(m.known, k)
		}
		return known{}
	}
	e := m.entry(k)
	if m.update(e, img, before.seen); e.changes != before.changes {
		e.refused = moment{}
	}
	return *e
}

// met reports whether this process has learned of a bucket with this refill time
// after it knew before. A time far ahead is that of an older one.
func (k *known) met(refill int64, before *known) bool {
	later := k.ref != before.ref || k.seen > before.seen
	return later && k.seen >= refill && k.seen-refill <= maxAhead
}

// wrote remembers the image that a write of this process left, which made the
// bucket what after says, and was sent when before was known. A recreate bucket is
// another one: give-backs of leases of the old one do not reach it. Where other
// calls have met it before the answer came, their leases have its handle already.
func (m *images) wrote(k key, img *image, before *known, after *rules.Bucket, recreate bool) known {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entry(k)
	seen := before.seen
	if recreate && !e.met(img.refill, before) {
		e.ref.over.Store(true)
		*e, seen = known{ref: m.newRef()}, 0
	}
	if m.update(e, img, seen) {
		e.stay = stay{img.ttl, after.Idle}
	}
	e.now, e.refused = max(e.now, after.At), moment{}
	e.changes++
	return *e
}

// charged is wrote for the charge of an account.
func (m *images) charged(k key, img *image, before *known, after *rules.Bucket, recreate bool, account *limiter.Account) known {
	return m.owned(k, m.wrote(k, img, before, after, recreate), account)
}

// owned gives an account the handle of its bucket; one that says the same as
// the last is that one.
func (m *images) owned(k key, kn known, account *limiter.Account) known {
	if kn.account == account {
		return kn
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	a := *account
	a.Ref, kn.account = kn.ref, &a
	if e := m.known[k]; e != nil && e.ref == kn.ref {
		e.account = &a
	}
	return kn
}

// update takes in the image in the answer to a request that began when before
// was the latest refill time seen. It reports whether the image was taken: the
// answer may be older than what this process has learned since. Where that is
// impossible, the item's refill time has gone back.
func (m *images) update(e *known, img *image, before int64) (taken bool) {
	if min(e.seen, before) > img.refill+maxBehind { // another bucket
		e.seen, e.now, e.stay = 0, 0, stay{}
	}
	if img.refill < e.seen && before < e.seen {
		return false
	}
	e.image, e.seen = img, max(e.seen, img.refill)
	e.ref.ttl.Store(img.ttl)
	return true
}

func (m *images) newRef() *ref {
	m.made++
	return &ref{number: m.made}
}

// entry is the one of k, which is made if there is none.
func (m *images) entry(k key) *known {
	e := m.alive(k)
	if e == nil {
		for other := range m.known {
			if len(m.known) < m.most {
				break
			}
			delete(m.known, other)
		}
		e = &known{ref: m.newRef()}
		m.known[k] = e
	}
	return e
}

// refuse remembers that a charge was refused, unless this process has changed
// the bucket since the charge began: something may have been given back.
func (m *images) refuse(k key, changes uint64, at moment) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.known[k]; e != nil && e.changes == changes {
		e.refused, e.pardons = at, m.pardons
	}
}

// pardon forgets all refusals: limits have changed.
func (m *images) clearRefusals() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pardons++
}

// dead tells whether the entity of a handle was deleted since, by this process.
func (m *images) dead(k key, r *ref) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return r.number <= m.deleted[k.pk]
}

// forget drops what is known of the buckets of an entity that was deleted, so
// that leases of them do nothing any more.
func (m *images) forget(pk string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for other := range m.deleted {
		if len(m.deleted) < m.most {
			break
		}
		delete(m.deleted, other)
	}
	m.deleted[pk] = m.made
}

// forgetSpace drops what is known of a namespace.
func (m *images) forgetSpace(ns string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := range m.known {
		if strings.HasPrefix(k.pk, entityPKPrefix(ns)) {
			delete(m.known, k)
		}
	}
}

func (m *images) clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.known)
}

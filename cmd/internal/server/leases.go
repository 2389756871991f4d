package server

import (
	"cmp"
	"container/list"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// leaseTable holds the open leases of all callers. A lease that is not ended in
// time is committed as it stands.
type leaseTable struct {
	most    int
	ttl     time.Duration
	onError func(error)
	mu      sync.Mutex
	byID    map[string]*openLease
	// order has every *openLease by its end, since all live equally long.
	order list.List
	// reserved counts the places of acquires under way.
	reserved int
	// held counts the places of each caller, with reserved ones.
	held  map[owner]int
	timer *time.Timer
	// empty is not nil while a caller waits for the table to be empty.
	empty    chan struct{}
	settling sync.WaitGroup
	// expiring counts leases whose time is over and whose commit is under way.
	expiring atomic.Int64
}

// openLease is a lease of one caller.
type openLease struct {
	id    string
	owner owner
	ends  time.Time
	place *list.Element
	lease *limiter.Lease
	// mu guards the fields below, and serializes the calls of a client, so that each
	// is atomic.
	mu    sync.Mutex
	ended bool
	// corrected reports whether a commit has to write.
	corrected bool
}

func newLeaseTable(most int, ttl time.Duration, onError func(error)) *leaseTable {
	return &leaseTable{most: most, ttl: ttl, onError: onError, byID: map[string]*openLease{}, held: map[owner]int{}}
}

// reserve keeps a place for a lease of a caller, who may have at most share, and
// reports whether there was one. The caller then calls add or release.
func (t *leaseTable) reserve(by owner, share int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.byID)+t.reserved >= t.most || t.held[by] >= share {
		return false
	}
	t.reserved++
	t.held[by]++
	return true
}

// release gives a reserved place up.
func (t *leaseTable) release(by owner) {
	t.mu.Lock()
	t.reserved--
	t.free(by)
	t.notifyEmpty()
	t.mu.Unlock()
}

// free gives a place of a caller up.
func (t *leaseTable) free(by owner) {
	if t.held[by]--; t.held[by] == 0 {
		delete(t.held, by)
	}
}

// add stores a lease in a reserved place under a new ID.
func (t *leaseTable) add(lease *limiter.Lease, by owner) *openLease {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	open := &openLease{id: hex.EncodeToString(id[:]), owner: by, lease: lease, ends: time.Now().Add(t.ttl)}

	t.mu.Lock()
	defer t.mu.Unlock()

	t.reserved--
	t.byID[open.id] = open
	open.place = t.order.PushBack(open)

	// All leases live equally long, so a timer that runs is for an older lease, which
	// ends first.
	if t.timer == nil {
		t.timer = time.AfterFunc(t.ttl, t.expire)
	}

	return open
}

// get returns the lease of a caller, or nil if the caller has no such lease.
func (t *leaseTable) get(id string, by owner) *openLease {
	t.mu.Lock()
	defer t.mu.Unlock()
	if open := t.byID[id]; open != nil && open.owner == by {
		return open
	}
	return nil
}

// remove forgets a lease. It does nothing if that happened before.
func (t *leaseTable) remove(open *openLease) {
	t.mu.Lock()
	t.forget(open)
	t.mu.Unlock()
}

func (t *leaseTable) forget(open *openLease) {
	if t.byID[open.id] == open {
		delete(t.byID, open.id)
		t.order.Remove(open.place)
		t.free(open.owner)
		t.notifyEmpty()
	}
}

func (t *leaseTable) notifyEmpty() {
	if t.empty != nil && len(t.byID)+t.reserved == 0 {
		close(t.empty)
		t.empty = nil
	}
}

// len returns the number of open leases.
func (t *leaseTable) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byID)
}

// expire commits the leases whose time is over, and sets the timer for the next.
func (t *leaseTable) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()

	var due []*openLease
	now := time.Now()
	for e := t.order.Front(); e != nil; e = t.order.Front() {
		open, _ := e.Value.(*openLease)
		if wait := open.ends.Sub(now); wait > 0 {
			t.timer.Reset(wait)
			break
		}
		t.forget(open)
		due = append(due, open)
	}

	if t.order.Len() == 0 {
		t.timer = nil
	}

	// A commit may wait for the store, and must not hold the lock meanwhile.
	if len(due) > 0 {
		t.expiring.Add(int64(len(due)))
		t.settling.Go(func() {
			if left, err := commitAll(context.Background(), due, func() { t.expiring.Add(-1) }); err != nil {
				t.onError(unsettled(left, err))
			}
		})
	}
}

// awaitEmpty waits until no lease is open, or ctx ends.
func (t *leaseTable) awaitEmpty(ctx context.Context) {
	t.mu.Lock()
	if len(t.byID)+t.reserved == 0 {
		t.mu.Unlock()
		return
	}

	if t.empty == nil {
		t.empty = make(chan struct{})
	}
	empty := t.empty

	t.mu.Unlock()
	select {
	case <-empty:
	case <-ctx.Done():
	}
}

// settle commits every lease as it stands and stops the timer. When ctx ends, it
// gives up those that the store did not take.
func (t *leaseTable) settle(ctx context.Context) error {
	t.mu.Lock()
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}

	var all []*openLease
	for _, open := range t.byID {
		all = append(all, open)
	}
	for _, open := range all {
		t.forget(open)
	}
	t.mu.Unlock()

	left, err := commitAll(ctx, all, func() {})
	// The commits of leases whose time was over before are under way, and count
	// as well.
	expired := make(chan struct{})
	go func() {
		t.settling.Wait()
		close(expired)
	}()

	select {
	case <-expired:
	case <-ctx.Done():
		left, err = left+int(t.expiring.Load()), cmp.Or(err, ctx.Err())
	}

	if left == 0 {
		return nil
	}
	return unsettled(left, err)
}

// unsettled returns the error of leases whose corrections may be lost.
func unsettled(n int, err error) error {
	if n == 1 {
		return fmt.Errorf("1 lease could not be settled: %w", err)
	}
	return fmt.Errorf("%d leases could not be settled: %w", n, err)
}

// end ends a lease with settle, unless its client has ended it meanwhile.
func (o *openLease) end(ctx context.Context, settle func(context.Context) error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return nil
	}

	o.ended = true
	return settle(ctx)
}

// commitAll commits leases, many at a time, until ctx ends, and calls ended after
// each. It returns how many failed or were given up, and the first error.
func commitAll(ctx context.Context, all []*openLease, ended func()) (left int, err error) {
	const atOnce = 64
	free := make(chan struct{}, atOnce)
	results := make(chan error, len(all))

	for _, open := range all {
		go func() {
			defer ended()
			results <- open.commit(ctx, free)
		}()
	}

	left = len(all)
	for range all {
		var failed error
		select {
		case failed = <-results:
		case <-ctx.Done():
			// If both are ready, select takes either of them, and a result that
			// came in time counts.
			select {
			case failed = <-results:
			default:
				return left, cmp.Or(err, ctx.Err())
			}
		}

		if failed == nil {
			left--
		}
		err = cmp.Or(err, failed)
	}

	return left, err
}

// commit commits a lease as it stands. It needs a place in free only if it has to
// write, so that a store that is stuck delays no other lease.
func (o *openLease) commit(ctx context.Context, free chan struct{}) error {
	o.mu.Lock()
	writes := o.corrected
	o.mu.Unlock()

	if writes {
		select {
		case free <- struct{}{}:
			defer func() { <-free }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}

	return o.end(ctx, o.lease.Commit)
}

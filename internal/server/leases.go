package server

import (
	"container/list"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// leaseTable holds the open leases of all callers. A lease that is not ended in
// time is committed as it stands.
type leaseTable struct {
	most     int
	ttl      time.Duration
	onError  func(error)
	mu       sync.Mutex
	byID     map[string]*openLease
	order    list.List     // of *openLease, by their end, since all live equally long
	reserved int           // places of acquires under way
	held     map[owner]int // places of each caller, with reserved ones
	timer    *time.Timer
	empty    chan struct{} // not nil while a caller waits for the table to be empty
	settling sync.WaitGroup
}

// openLease is a lease of one caller.
type openLease struct {
	id    string
	owner owner
	ends  time.Time
	place *list.Element
	lease *limiter.Lease
	mu    sync.Mutex // serializes the calls of a client, so that each is atomic
	ended bool       // guarded by mu
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
	if len(due) > 0 {
		t.settling.Go(func() {
			if err := commitAll(context.Background(), due); err != nil {
				t.onError(err)
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

// settle commits every lease as it stands and stops the timer.
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
	err := commitAll(ctx, all)
	t.settling.Wait()
	return err
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

// commitAll commits leases, many at a time.
func commitAll(ctx context.Context, all []*openLease) error {
	const atOnce = 64
	free := make(chan struct{}, atOnce)
	errs := make([]error, len(all))
	var wait sync.WaitGroup
	for i, open := range all {
		free <- struct{}{}
		wait.Go(func() {
			defer func() { <-free }()
			errs[i] = open.end(ctx, open.lease.Commit)
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

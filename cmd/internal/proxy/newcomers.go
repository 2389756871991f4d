package proxy

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// newcomers bounds how many buckets may appear for the first time in a minute,
// where every key that a client invents is an entity. It remembers a bounded
// number of buckets.
type newcomers struct {
	perMinute int

	mu           sync.Mutex
	minute       time.Time
	admitted     int
	recent, past map[bucketID]bool // buckets seen; past is dropped when recent is full
	accepted     map[string]bool   // entities whose calls the upstream has answered
}

type bucketID struct{ entity, resource string }

const maxSeen = 50_000 // entries in each of the maps

func newNewcomers(perMinute int) *newcomers {
	return &newcomers{
		perMinute: perMinute, recent: map[bucketID]bool{}, past: map[bucketID]bool{},
		accepted: map[string]bool{},
	}
}

// admit returns an error if a bucket is new and too many new ones came before it,
// and reports whether it counted the bucket. It calls known for a bucket that this
// process has not seen.
func (n *newcomers) admit(now time.Time, id bucketID, known func() (bool, error)) (counted bool, err error) {
	if n.seen(id) {
		return false, nil
	}
	// known asks the store, so it runs without the lock.
	switch stored, err := known(); {
	case err != nil:
		// Acquire asks the store next, and reports the outage.
		return false, nil
	case stored:
		n.remember(id)
		return false, nil
	}

	n.mu.Lock()
	defer n.mu.Unlock()

	if now.Sub(n.minute) >= time.Minute {
		n.minute, n.admitted = now, 0
	}

	if n.admitted >= n.perMinute {
		return false, &httplimit.Problem{
			Status: 429, Detail: "too many API keys are used for the first time; retry later",
			RetryAfter: n.minute.Add(time.Minute).Sub(now),
		}
	}

	n.admitted++
	n.rememberLocked(id)
	return true, nil
}

func (n *newcomers) seen(id bucketID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.recent[id] {
		return true
	}
	// A bucket in use moves to the newer map, so that it survives the next time
	// that past is dropped.
	if n.past[id] {
		n.rememberLocked(id)
		return true
	}
	return false
}

func (n *newcomers) remember(id bucketID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rememberLocked(id)
}

func (n *newcomers) rememberLocked(id bucketID) {
	// Dropping the older of two maps whole needs no order of last use.
	if len(n.recent) >= maxSeen {
		n.past, n.recent = n.recent, map[bucketID]bool{}
	}
	n.recent[id] = true
}

// isAccepted reports whether the upstream has answered a call of an entity.
func (n *newcomers) isAccepted(entity string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.accepted[entity]
}

// accept notes that the upstream has answered a call of an entity. Those that are
// forgotten, when there are too many, are accepted again with their next call.
func (n *newcomers) accept(entity string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.accepted) >= maxSeen {
		clear(n.accepted)
	}
	n.accepted[entity] = true
}

// forget takes back the admission of a new bucket, which was not created.
func (n *newcomers) forget(id bucketID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.admitted = max(0, n.admitted-1)
	delete(n.recent, id)
}

// checkNewcomer bounds new buckets where clients can invent entities. The caller
// calls undo if the bucket was not created after all.
func (p *Proxy) checkNewcomer(ctx context.Context, entity, resource string) (undo func(), err error) {
	undo = func() {}
	if p.newcomers == nil {
		return undo, nil
	}
	// The store knows the buckets of all processes, and those from before a
	// restart.
	id := bucketID{entity, resource}
	counted, err := p.newcomers.admit(p.opts.Now(), id, func() (bool, error) {
		statuses, err := p.lim.Status(ctx, entity)
		return slices.ContainsFunc(statuses, func(s limiter.Status) bool { return s.Resource == resource }), err
	})

	if counted {
		undo = func() { p.newcomers.forget(id) }
	}
	return undo, err
}

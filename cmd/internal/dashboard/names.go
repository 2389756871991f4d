package dashboard

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// label is the part of an entity's record that a row shows.
type label struct {
	name, parent string
	cascade      bool
}

// names keeps the labels of entities for a moment, and reads missing ones a few at
// a time. The latest request is served first.
type names struct {
	s *space
	// mu guards the fields below. known is bounded by maxNames, and pending and
	// stack by maxPending.
	mu    sync.Mutex
	known map[string]knownName
	// pending has a channel for each entity that is being read or waits for it. The
	// channel is closed when the read is over.
	pending map[string]chan struct{}
	stack   []string
	workers int
}

type knownName struct {
	label
	// failed reports that the label is empty because the record could not be read.
	failed bool
	until  time.Time
}

// Bounds of names.
const (
	maxNames       = 10_000
	maxPending     = 5_000
	maxNameWorkers = 4
	maxNameLength  = 1024
	failedNameFor  = time.Second
)

func newNames(s *space) *names {
	return &names{s: s, known: map[string]knownName{}, pending: map[string]chan struct{}{}}
}

// resolve returns the labels of entities. It waits for missing ones until patience
// is over; those appear in a later call. An entity without a record has an empty
// label.
func (n *names) resolve(ctx context.Context, ids []string, patience time.Duration) map[string]label {
	waits := n.request(ids)

	if len(waits) > 0 && patience > 0 {
		timer := time.NewTimer(patience)
		defer timer.Stop()
	waiting:
		for _, done := range waits {
			select {
			case <-done:
			case <-timer.C:
				break waiting
			case <-ctx.Done():
				break waiting
			}
		}
	}

	n.mu.Lock()
	defer n.mu.Unlock()

	labels := make(map[string]label, len(ids))
	for _, id := range ids {
		if known, ok := n.known[id]; ok && !known.failed {
			labels[id] = known.label
		}
	}
	return labels
}

// await returns the labels of entities. It waits for all of them, but at most until
// the given time, and tries again where a read fails.
func (n *names) await(ctx context.Context, ids []string, until time.Time) map[string]label {
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		labels := n.resolve(ctx, ids, time.Until(until))

		if !slices.ContainsFunc(ids, func(id string) bool { _, known := labels[id]; return !known }) {
			return labels
		}

		// A name whose read failed is not read again for failedNameFor, and
		// resolve does not wait for it.
		retry.Reset(min(failedNameFor, max(0, time.Until(until))))
		select {
		case <-retry.C:
		case <-ctx.Done():
		}

		if ctx.Err() != nil || !time.Now().Before(until) {
			return labels
		}
	}
}

// request asks for labels that are missing or old, and returns channels that are
// closed when the missing ones are there. An old label is good enough meanwhile.
func (n *names) request(ids []string) []chan struct{} {
	now := time.Now()
	var waits []chan struct{}

	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range ids {
		known, ok := n.known[id]
		if ok && now.Before(known.until) {
			continue
		}

		done := n.pending[id]
		if done == nil {
			// What does not fit is asked for again by a later call.
			if len(n.stack) >= maxPending {
				continue
			}
			done = make(chan struct{})
			n.pending[id] = done
			n.stack = append(n.stack, id)
		}

		if !ok {
			waits = append(waits, done)
		}
	}

	for n.workers < min(maxNameWorkers, len(n.stack)) {
		n.workers++
		// It fails when the handler is closed.
		if !n.s.h.start(n.work) {
			n.workers--
			break
		}
	}

	return waits
}

// work reads labels until none is missing.
func (n *names) work() {
	for {
		n.mu.Lock()
		if len(n.stack) == 0 || n.s.ctx.Err() != nil {
			n.workers--
			n.mu.Unlock()
			return
		}

		id := n.stack[len(n.stack)-1]
		n.stack = n.stack[:len(n.stack)-1]
		n.mu.Unlock()

		// The read takes no lock, so that other callers see what is known.
		read, keep := n.read(id)

		n.mu.Lock()
		n.store(id, read, keep)
		close(n.pending[id])
		delete(n.pending, id)
		n.mu.Unlock()
	}
}

// read returns the label of an entity, and how long to keep it. After a failure it
// returns the earlier label. A record that is damaged has an empty label.
func (n *names) read(id string) (knownName, time.Duration) {
	ctx, cancel := context.WithTimeout(n.s.ctx, callTimeout)
	defer cancel()

	e, err := n.s.reads.Entity(ctx, id)
	// A record that is missing, damaged or impossible stays so. Reading it
	// again soon would tell nothing.
	if err == nil || errors.Is(err, limiter.ErrNotFound) || errors.As(err, new(*limiter.CorruptError)) ||
		errors.As(err, new(*limiter.InvalidError)) {
		return knownName{label: newLabel(e)}, n.s.pace.namesFor
	}

	n.mu.Lock()
	defer n.mu.Unlock()

	earlier, ok := n.known[id]
	earlier.failed = !ok || earlier.failed
	return earlier, failedNameFor
}

// newLabel returns the label of a record.
func newLabel(e limiter.Entity) label {
	if len(e.Name) > maxNameLength {
		e.Name = strings.ToValidUTF8(e.Name[:maxNameLength], "") + "..."
	}
	return label{e.Name, e.Parent, e.Cascade}
}

// store keeps a label, and drops others if there are too many. The caller holds
// mu.
func (n *names) store(id string, name knownName, keep time.Duration) {
	for other := range n.known {
		if len(n.known) < maxNames {
			break
		}
		delete(n.known, other)
	}

	name.until = time.Now().Add(keep)
	n.known[id] = name
}

// learn keeps the label of a record that was read for another reason.
func (n *names) learn(e limiter.Entity) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.store(e.ID, knownName{label: newLabel(e)}, n.s.pace.namesFor)
}

// forget makes the label of an entity old.
func (n *names) forget(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.known, id)
}

// ancestor is an entity above others in the tree.
type ancestor struct {
	Entity string `json:"entity"`
	Name   string `json:"name"`
	Parent string `json:"parent"`
}

// maxGenerations bounds the ancestors of a row. A cascade has one generation;
// more are for the tree alone.
const maxGenerations = 16

// ancestors returns the ancestors of rows, each once, so that a cycle ends.
func (n *names) ancestors(ctx context.Context, rows []Row, patience time.Duration) []ancestor {
	all := []ancestor{}
	found := map[string]bool{}
	var next []string

	for _, r := range rows {
		if r.Parent != "" && !found[r.Parent] {
			found[r.Parent] = true
			next = append(next, r.Parent)
		}
	}

	for range maxGenerations {
		if len(next) == 0 {
			break
		}

		labels := n.resolve(ctx, next, patience)
		var above []string
		for _, id := range next {
			l := labels[id]
			all = append(all, ancestor{id, l.display(id), l.parent})
			if l.parent != "" && !found[l.parent] {
				found[l.parent] = true
				above = append(above, l.parent)
			}
		}

		next = above
	}
	return all
}

// display returns the name to show for an entity.
func (l label) display(id string) string {
	if l.name == "" {
		return id
	}
	return l.name
}

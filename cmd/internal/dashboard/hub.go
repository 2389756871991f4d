package dashboard

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// hub passes rows to the viewers of a namespace that watch them. A poller reads each
// row once for all viewers, and runs while there are viewers.
type hub struct {
	s *space
	// wake has room for one token. It wakes the poller if a row was never read, or
	// if the last viewer left.
	wake chan struct{}
	// mu guards the fields below.
	mu      sync.Mutex
	viewers map[string]*viewer
	cells   map[limiter.Scope]*cell
	// version counts the changes of all cells.
	version uint64
	// running reports whether the poller runs.
	running bool
	status  Status
	// changes counts the changes of the status.
	changes uint64
}

// cell is a row that is watched.
type cell struct {
	watchers int
	row      []byte // JSON; nil if there is no bucket
	// version counts the changes up to the last one; 0 if the row was never read.
	version uint64
}

// viewer is a stream that is open. What changed for a viewer is collected when the
// stream can take it, so that a slow viewer gets fewer events and holds no queue.
type viewer struct {
	id string
	by *login
	// notify has room for one token, which means that there may be something to
	// collect.
	notify chan struct{}
	// sent has the version that was collected last of each watched row, and status
	// the number of the status that was. Both are guarded by hub.mu.
	sent   map[limiter.Scope]uint64
	status uint64
}

// Status describes the reader of a namespace, as JSON.
type Status struct {
	ReadRate *float64 `json:"read_rate"`
	Viewers  int      `json:"viewers"`
	Interval int64    `json:"interval_ms"`
	// Trouble is a sentence if the store cannot be read.
	Trouble string `json:"trouble"`
}

func newHub(s *space) *hub {
	return &hub{
		s: s, wake: make(chan struct{}, 1), viewers: map[string]*viewer{}, cells: map[limiter.Scope]*cell{},
		status: Status{Interval: s.pace.interval.Milliseconds()}, changes: 1,
	}
}

// join adds a viewer, who watches nothing yet.
func (h *hub) join(by *login) (*viewer, error) {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	v := &viewer{
		id: hex.EncodeToString(id), by: by, notify: make(chan struct{}, 1), sent: map[limiter.Scope]uint64{},
	}

	h.mu.Lock()
	defer h.mu.Unlock()
	// After drop, no poller runs that could answer the viewer.
	if h.s.ctx.Err() != nil {
		return nil, errClosed
	}

	if !h.running {
		if !h.s.h.start(h.run) {
			return nil, errClosed
		}
		h.running = true
	}

	// The status shows the number of viewers.
	h.viewers[v.id] = v
	h.changes++
	h.notify()
	return v, nil
}

// leave removes a viewer, and the rows that no other viewer watches.
func (h *hub) leave(v *viewer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.viewers, v.id)
	for key := range v.sent {
		h.release(key)
	}
	v.sent = nil
	h.changes++
	h.notify()

	// The poller sleeps until its next read, and has to see that it may end.
	if len(h.viewers) == 0 {
		signal(h.wake)
	}
}

// watch replaces what a viewer watches, and reports whether the session has such a
// viewer. Rows that are known are sent at once.
func (h *hub) watch(id string, by *login, keys []limiter.Scope) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := h.viewers[id]
	// Two logins with one token are two sessions, which differ only in the channel
	// ended.
	if v == nil || v.by.Session != by.Session || v.by.ended != by.ended {
		return false
	}

	before := v.sent
	v.sent = make(map[limiter.Scope]uint64, len(keys))
	fresh := false
	for _, key := range keys {
		if _, twice := v.sent[key]; twice {
			continue
		}

		// A row that stays on the screen keeps its version, so that it is not
		// sent again.
		if version, kept := before[key]; kept {
			v.sent[key] = version
			delete(before, key)
			continue
		}

		c := h.cells[key]
		if c == nil {
			c = &cell{}
			h.cells[key] = c
		}
		c.watchers++
		fresh = fresh || c.version == 0

		// Version 0 is older than that of any row that was read, so that the
		// next event has it.
		v.sent[key] = 0
	}

	// The rows left in before are not on the screen any more.
	for key := range before {
		h.release(key)
	}
	// Rows that other viewers watch are known already.
	signal(v.notify)
	if fresh {
		signal(h.wake)
	}

	return true
}

// release drops a row that is watched once less. The caller holds mu.
func (h *hub) release(key limiter.Scope) {
	if c := h.cells[key]; c != nil {
		if c.watchers--; c.watchers == 0 {
			delete(h.cells, key)
		}
	}
}

// signal leaves a token in a channel with room for one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// keys returns the rows to read, in a fixed order: all, or those that were never
// read.
func (h *hub) keys(all bool) []limiter.Scope {
	h.mu.Lock()
	defer h.mu.Unlock()

	var keys []limiter.Scope
	for key, c := range h.cells {
		if all || c.version == 0 {
			keys = append(keys, key)
		}
	}

	slices.SortFunc(keys, compareScopes)
	return keys
}

// apply stores rows that were read, nil for a bucket that does not exist, and
// notifies viewers of changes.
func (h *hub) apply(rows map[limiter.Scope][]byte, keys []limiter.Scope) {
	h.mu.Lock()
	defer h.mu.Unlock()
	changed := false
	for _, key := range keys {
		c := h.cells[key]
		// The last viewer of a row may have left during the read.
		if c == nil || c.version > 0 && string(c.row) == string(rows[key]) {
			continue
		}

		h.version++
		c.row, c.version = rows[key], h.version
		changed = true
	}

	if changed {
		h.notify()
	}
}

// notify wakes all viewers. The caller holds mu.
func (h *hub) notify() {
	for _, v := range h.viewers {
		signal(v.notify)
	}
}

// collect returns the events about what changed since the last call.
func (h *hub) collect(v *viewer) []byte {
	h.mu.Lock()
	defer h.mu.Unlock()

	var events []byte
	if v.status != h.changes {
		v.status = h.changes
		current := h.status
		current.Viewers = len(h.viewers)
		events = newEvent("status", current)
	}

	rows := newRowsEvent(h.s.now())
	for key, sent := range v.sent {
		if c := h.cells[key]; c != nil && c.version > sent {
			rows.add(key, c.row)
			v.sent[key] = c.version
		}
	}

	if !rows.empty() {
		events = append(events, rows.bytes()...)
	}

	return events
}

// setStatus changes the status, and returns the trouble before.
func (h *hub) setStatus(s Status) (trouble string) {
	h.mu.Lock()
	defer h.mu.Unlock()

	trouble = h.status.Trouble
	s.Viewers = len(h.viewers)

	if sameStatus(s, h.status) {
		return trouble
	}

	h.status = s
	h.changes++
	h.notify()
	return trouble
}

// updateRate publishes the units that the budget spends at the moment.
func (h *hub) updateRate() {
	h.mu.Lock()
	defer h.mu.Unlock()

	s := h.status
	// Spending changes often, and only a rate that differs is worth an event.
	if s.ReadRate = h.s.readRate(); !sameStatus(s, h.status) {
		h.status = s
		h.changes++
		h.notify()
	}
}

func sameStatus(a, b Status) bool {
	rates := a.ReadRate == b.ReadRate || a.ReadRate != nil && b.ReadRate != nil && *a.ReadRate == *b.ReadRate
	return rates && a.Viewers == b.Viewers && a.Interval == b.Interval && a.Trouble == b.Trouble
}

// pause returns the time from the begin of a read of all rows to the begin of the
// next one. It is at least twice as long as the read took, so that reading takes half
// of the time at most.
func (p *pace) pause(took time.Duration) time.Duration { return max(p.interval, 2*took) }

package dashboard

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// hub passes the rows that any viewer of a namespace watches to those who watch
// them. A poller reads each row once for all viewers, and runs while there are
// viewers.
type hub struct {
	s       *space
	wake    chan struct{} // has room for one; a row was never read, or the last viewer left
	mu      sync.Mutex
	viewers map[string]*viewer
	cells   map[limiter.Scope]*cell
	version uint64 // of the last change of a cell
	running bool   // the poller
	status  Status // the last one sent
}

// cell is a row that is watched.
type cell struct {
	watchers int
	row      []byte // JSON; nil if there is no bucket
	version  uint64 // of the last change; 0 if it was never read
}

// viewer is a stream that is open.
type viewer struct {
	id      string
	by      *login
	queue   chan []byte              // events
	dropped chan struct{}            // closed if the viewer does not read its queue
	sent    map[limiter.Scope]uint64 // the version of each watched row that was queued
	lost    bool                     // dropped is closed
}

// maxQueue bounds the events that wait for a viewer, who is dropped beyond.
const maxQueue = 64

// Status describes the reader of a namespace, as JSON.
type Status struct {
	ReadRate *float64 `json:"read_rate"`
	Viewers  int      `json:"viewers"`
	Interval int64    `json:"interval_ms"`
	Trouble  string   `json:"trouble"` // a sentence if the store cannot be read
}

func newHub(s *space) *hub {
	return &hub{
		s: s, wake: make(chan struct{}, 1), viewers: map[string]*viewer{}, cells: map[limiter.Scope]*cell{},
		status: Status{Interval: s.pace.interval.Milliseconds()},
	}
}

// join adds a viewer, who watches nothing yet.
func (h *hub) join(by *login) (*viewer, error) {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	v := &viewer{
		id: hex.EncodeToString(id), by: by, queue: make(chan []byte, maxQueue), dropped: make(chan struct{}),
		sent: map[limiter.Scope]uint64{},
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.s.ctx.Err() != nil {
		return nil, errClosed
	}
	if !h.running {
		if !h.s.h.start(h.run) {
			return nil, errClosed
		}
		h.running = true
	}
	h.viewers[v.id] = v
	v.push(newEvent("hello", struct {
		ID string `json:"id"`
	}{v.id}))
	h.sendStatus(h.status, true)
	return v, nil
}

// leave removes a viewer and what only they watched.
func (h *hub) leave(v *viewer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.viewers, v.id)
	for key := range v.sent {
		h.release(key)
	}
	v.sent = nil
	h.sendStatus(h.status, false)
	if len(h.viewers) == 0 {
		h.signal()
	}
}

// watch replaces what a viewer watches. Rows that are known are sent at once.
func (h *hub) watch(id string, by *login, keys []limiter.Scope) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := h.viewers[id]
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
		v.sent[key] = 0
	}
	for key := range before {
		h.release(key)
	}
	h.publish(v, keys)
	if fresh {
		h.signal()
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

// signal wakes the poller.
func (h *hub) signal() {
	select {
	case h.wake <- struct{}{}:
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
// passes changes on.
func (h *hub) apply(rows map[limiter.Scope][]byte, keys []limiter.Scope) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var changed []limiter.Scope
	for _, key := range keys {
		c := h.cells[key]
		if c == nil || c.version > 0 && string(c.row) == string(rows[key]) {
			continue
		}
		h.version++
		c.row, c.version = rows[key], h.version
		changed = append(changed, key)
	}
	if len(changed) == 0 {
		return
	}
	for _, v := range h.viewers {
		h.publish(v, changed)
	}
}

// publish queues the rows among keys that a viewer watches and has not got. The
// caller holds mu.
func (h *hub) publish(v *viewer, keys []limiter.Scope) {
	event := newRowsEvent(h.s.now())
	for _, key := range keys {
		sent, watched := v.sent[key]
		c := h.cells[key]
		if !watched || c == nil || c.version <= sent {
			continue
		}
		event.add(key, c.row)
		v.sent[key] = c.version
	}
	if !event.empty() {
		v.push(event.bytes())
	}
}

// sendStatus sends a status to all viewers if it changed, or if always is set. The
// caller holds mu.
func (h *hub) sendStatus(s Status, always bool) {
	s.Viewers = len(h.viewers)
	if !always && sameStatus(s, h.status) {
		return
	}
	h.status = s
	event := newEvent("status", s)
	for _, v := range h.viewers {
		v.push(event)
	}
}

func sameStatus(a, b Status) bool {
	rates := a.ReadRate == b.ReadRate || a.ReadRate != nil && b.ReadRate != nil && *a.ReadRate == *b.ReadRate
	return rates && a.Viewers == b.Viewers && a.Interval == b.Interval && a.Trouble == b.Trouble
}

// push queues an event, or drops a viewer who does not read. The caller holds the
// hub's mu.
func (v *viewer) push(event []byte) {
	if v.lost {
		return
	}
	select {
	case v.queue <- event:
	default:
		v.lost = true
		close(v.dropped)
	}
}

// pause returns the time between two reads of all rows, after a read that took so
// long, so that reading takes half of the time at most.
func (p *pace) pause(took time.Duration) time.Duration { return max(p.interval, 2*took) }

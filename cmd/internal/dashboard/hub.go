package dashboard

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Bounds of the poller.
const (
	// pollYield is how long a read lets calls of viewers pass.
	pollYield = time.Second
	// maxBackOff is the longest pause between two reads that fail.
	maxBackOff = 30 * time.Second
	// rateInterval is the time between two looks at the units in use.
	rateInterval = 2 * time.Second
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

	h.viewers[v.id] = v
	h.countViewers()
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
	h.countViewers()

	// The poller sleeps until its next read, and has to see that it may end.
	if len(h.viewers) == 0 {
		signal(h.wake)
	}
}

// countViewers publishes the number of viewers. The caller holds mu.
func (h *hub) countViewers() {
	h.status.Viewers = len(h.viewers)
	h.changes++
	h.notify()
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
		events = newEvent("status", h.status)
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

// publish changes the status, and notifies viewers if that says something new. It
// returns the status before.
func (h *hub) publish(change func(*Status)) (before Status) {
	h.mu.Lock()
	defer h.mu.Unlock()

	before = h.status
	h.status.ReadRate = h.s.readRate()
	change(&h.status)

	if !reflect.DeepEqual(before, h.status) {
		h.changes++
		h.notify()
	}
	return before
}

// publishRate publishes the units that the budget spends at the moment.
func (h *hub) publishRate() { h.publish(func(*Status) {}) }

// run reads rows while there are viewers: rows that were never read at once, and
// all rows at intervals.
func (h *hub) run() {
	next := time.Now()
	failures := 0
	for {
		all := h.await(next, failures)

		if h.ended() {
			return
		}

		begun := time.Now()
		damage, err := h.read(h.keys(all))
		// The next turn finds the context over, and ends.
		if h.s.ctx.Err() != nil {
			continue
		}

		// Reading takes half of the time at most.
		interval := max(h.s.pace.interval, 2*time.Since(begun))
		failures++
		switch {
		case err == nil:
			failures = 0
		case errors.Is(err, limiter.ErrNotFound):
			// The namespace is gone. Streams end, and viewers connect again.
			h.s.h.drop(h.s)
		default:
			// The pause doubles with each failure. Ten doublings are beyond the
			// maximum, and further ones would overflow in the end.
			interval = min(maxBackOff, h.s.pace.interval<<min(failures, 10))
		}

		// A read of new rows alone does not delay the next read of all.
		if all || err != nil {
			next = begun.Add(interval)
			h.report(interval, cmp.Or(err, damage))
		}
	}
}

// await waits until next or until a row was never read, and reports whether all
// rows are due. After a failure it always waits.
func (h *hub) await(next time.Time, failures int) bool {
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()

	rate := time.NewTicker(rateInterval)
	defer rate.Stop()

	for {
		select {
		case <-rate.C:
			h.publishRate()
		case <-timer.C:
			return true
		case <-h.s.ctx.Done():
			return true
		case <-h.wake:
			// After a failure, new rows wait as well, since the store would
			// fail again at once.
			if failures == 0 || h.empty() {
				return false
			}
		}
	}
}

func (h *hub) empty() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.viewers) == 0
}

// ended reports whether the poller has to end, and then marks it as ended.
func (h *hub) ended() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.viewers) > 0 && h.s.ctx.Err() == nil {
		return false
	}

	h.running = false
	return true
}

// read reads rows, a part at a time, and passes each part on. Calls of viewers go
// first. Rows whose data are damaged count as missing, and damage is the error of
// one of them.
func (h *hub) read(keys []limiter.Scope) (damage, err error) {
	for len(keys) > 0 {
		part := keys[:min(len(keys), h.s.pace.page)]
		keys = keys[len(part):]

		// Calls of viewers spend the same budget, and a viewer waits for them.
		if h.s.billed() {
			h.s.h.gate.yield(h.s.ctx, pollYield)
		}

		rows, wrong, err := h.readPart(part)
		if err != nil {
			return nil, err
		}

		damage = cmp.Or(damage, wrong)
		h.apply(rows, part)
		h.publishRate()
	}
	return damage, nil
}

func (h *hub) readPart(keys []limiter.Scope) (encoded map[limiter.Scope][]byte, damage, err error) {
	ctx, cancel := context.WithTimeout(h.s.ctx, callTimeout)
	defer cancel()

	buckets, damage, err := h.s.bucketsAt(ctx, keys)
	if err != nil {
		return nil, nil, outage(err)
	}
	rows := h.s.rows(ctx, buckets, 0)

	encoded = make(map[limiter.Scope][]byte, len(rows))
	for _, r := range rows {
		if encoded[limiter.Scope{Entity: r.Entity, Resource: r.Resource}], err = json.Marshal(r); err != nil {
			return nil, nil, err
		}
	}

	return encoded, damage, nil
}

// bucketsAt reads the bucket of each key. One that cannot be read because its data
// are damaged, or its key is not possible, is left out, so that it does not hide
// the others.
func (s *space) bucketsAt(ctx context.Context, keys []limiter.Scope) (buckets []limiter.Bucket, damage, err error) {
	buckets, err = s.pager.BucketsAt(ctx, s.now(), keys)
	if !errors.As(err, new(*limiter.CorruptError)) && !errors.As(err, new(*limiter.InvalidError)) {
		return buckets, nil, err
	}

	// The error names one key at most. Halves that are read again find the
	// damaged keys, and keep the others.
	if len(keys) == 1 {
		return nil, err, nil
	}

	first, damage, err := s.bucketsAt(ctx, keys[:len(keys)/2])
	if err != nil {
		return nil, nil, err
	}

	second, other, err := s.bucketsAt(ctx, keys[len(keys)/2:])
	return append(first, second...), cmp.Or(damage, other), err
}

// report publishes the status after a read, and an error that is new.
func (h *hub) report(interval time.Duration, err error) {
	const step = 100 * time.Millisecond
	before := h.publish(func(s *Status) {
		s.Interval, s.Trouble = interval.Round(step).Milliseconds(), trouble(err)
	})

	// The log gets each trouble once, and not with every read.
	if err != nil && before.Trouble != trouble(err) {
		h.s.h.opts.OnError(err)
	}
}

// trouble returns a sentence for viewers about an error of the store.
func trouble(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, context.DeadlineExceeded):
		return "The store does not answer in time; the dashboard keeps trying."
	case errors.Is(err, limiter.ErrClosed):
		return "The store is closed."
	case errors.As(err, new(*limiter.CorruptError)), errors.As(err, new(*limiter.InvalidError)):
		return "Some rows cannot be read, because their data are damaged."
	}
	return "The store is unavailable; the dashboard keeps trying."
}

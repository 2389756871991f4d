package dashboard

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
	"github.com/zeroae/zae-limiter-go/internal/pause"
)

// The page reads a store by three rules:
//
//   - Viewers share reads. A reader makes one read for all that want its value, and
//     the value serves for its life. The hub reads the rows on screens so, and a scan
//     all buckets.
//   - Every read spends the read budget, which is in the context of the namespace
//     and of each call. The store makes each request wait until it can be paid.
//   - Calls of viewers go first. Work in the background waits at the gate.

// reader reads the values of keys for all viewers of a namespace. An old value
// stays until it is read again.
type reader[K comparable, V any] struct {
	s *space
	// read returns a value and its life. With an error, it returns for how long
	// not to read again.
	read func(ctx context.Context, key K) (value V, life time.Duration, err error)
	// parallel bounds the reads at a time, and most the values that are kept.
	parallel, most int

	// mu guards the fields below, and those of each reading.
	mu   sync.Mutex
	kept map[K]*reading[V]
	// queue has the reads to make. The latest goes first, since a viewer waits
	// for it.
	queue   []func()
	running int
}

// reading is what a reader knows of a key.
type reading[V any] struct {
	// value is the result of the last read that succeeded, if known is set.
	value V
	known bool
	// err is the error of the last read.
	err error
	// until is when value and err are too old.
	until time.Time
	// over is closed when the read under way is over. It is nil if there is none.
	over chan struct{}
}

// usualReads bounds the reads of a reader at a time, and usualValues its values.
const usualReads, usualValues = maxCalls, 512

func newReader[K comparable, V any](
	s *space, parallel, most int, read func(context.Context, K) (V, time.Duration, error),
) *reader[K, V] {
	return &reader[K, V]{s: s, read: read, parallel: parallel, most: most, kept: map[K]*reading[V]{}}
}

// get returns the value of a key. It waits for the read, unless the value is fresh.
// With an error, the value is the last one known.
func (r *reader[K, V]) get(ctx context.Context, key K) (V, error) {
	value, _, err := r.await(ctx, r.ask(key), false)
	return value, cmp.Or(err, ctx.Err())
}

// ask returns what is known of a key, and begins a read unless that is fresh or
// being read.
func (r *reader[K, V]) ask(key K) *reading[V] {
	r.mu.Lock()
	defer r.mu.Unlock()

	one := r.kept[key]
	if one == nil {
		if !r.makeRoom() {
			return &reading[V]{err: web.ErrTooMany}
		}
		one = &reading[V]{}
		r.kept[key] = one
	}

	if one.over == nil && !time.Now().Before(one.until) {
		r.begin(key, one)
	}
	return one
}

// await returns the value of a reading, and reports whether one is known. It waits
// for the read under way, unless old is set and an older value is known.
func (r *reader[K, V]) await(ctx context.Context, one *reading[V], old bool) (value V, known bool, err error) {
	r.mu.Lock()
	over := one.over
	if old && one.known {
		over = nil
	}
	r.mu.Unlock()

	if over != nil {
		select {
		case <-over:
		case <-ctx.Done():
		}
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	return one.value, one.known, one.err
}

// begin queues a read. The caller holds mu.
func (r *reader[K, V]) begin(key K, one *reading[V]) {
	one.over = make(chan struct{})
	r.queue = append(r.queue, func() { r.readOne(key, one) })
	if r.running == r.parallel {
		return
	}

	// It fails when the handler is closed. Then the queue has this read alone,
	// unless work that is still running takes it.
	r.running++
	if !r.s.h.start(r.work) {
		if r.running--; r.running == 0 {
			r.queue = nil
			close(one.over)
			one.over, one.err = nil, errClosed
		}
	}
}

// work makes the reads of the queue until none is left.
func (r *reader[K, V]) work() {
	for {
		r.mu.Lock()
		last := len(r.queue) - 1
		if last < 0 {
			r.running--
			r.mu.Unlock()
			return
		}

		next := r.queue[last]
		r.queue = r.queue[:last]
		r.mu.Unlock()
		next()
	}
}

// readOne reads a value. The read ends with the namespace, not with its callers.
func (r *reader[K, V]) readOne(key K, one *reading[V]) {
	ctx, cancel := context.WithTimeout(r.s.ctx, callTimeout)
	defer cancel()
	value, life, err := r.read(ctx, key)

	r.mu.Lock()
	defer r.mu.Unlock()
	if one.err = err; err == nil {
		one.value, one.known = value, true
	}
	one.until = time.Now().Add(life)
	close(one.over)
	one.over = nil

	// Callers that wait hold the reading itself. After forget, the key may belong
	// to a later one.
	if life <= 0 && (err == nil || !one.known) && r.kept[key] == one {
		delete(r.kept, key)
	}
}

// makeRoom drops values until there is room for one more, and reports whether there
// is. Any value may go, since it costs one more read at most. The caller holds mu.
func (r *reader[K, V]) makeRoom() bool {
	for key, one := range r.kept {
		if len(r.kept) < r.most {
			break
		}
		// Callers find a read under way by its key.
		if one.over == nil {
			delete(r.kept, key)
		}
	}
	return len(r.kept) < r.most
}

// put keeps a value that was read by other means.
func (r *reader[K, V]) put(key K, value V, life time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept[key] != nil || r.makeRoom() {
		r.kept[key] = &reading[V]{value: value, known: true, until: time.Now().Add(life)}
	}
}

// forget drops the values of keys, or all, so that the next callers read again.
// They do not wait for reads that are under way.
func (r *reader[K, V]) forget(keys ...K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if keys == nil {
		clear(r.kept)
	}
	for _, key := range keys {
		delete(r.kept, key)
	}
}

// expire makes all values old. They serve until they are read again.
func (r *reader[K, V]) expire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.kept {
		one.until = time.Time{}
	}
}

// pace is how often the store of a namespace is read.
type pace struct {
	// interval is the time between two reads of a row that is watched.
	interval time.Duration
	// rows bounds a page for a viewer, and page one in the background and the rows
	// that are read at once.
	rows, page int
	// These are the lives of a name, of the limits of a level and of a page.
	namesFor, configFor, pageFor time.Duration
	// patience is how long a call waits for names.
	patience time.Duration
	// scanFor is the life of the result of a scan, and smallFor its life if one page
	// holds all buckets.
	scanFor, smallFor time.Duration
}

// paceOf returns the pace of a store. Reads that are billed are fewer.
func paceOf(billed bool, budget float64) pace {
	if !billed {
		return pace{
			interval: 500 * time.Millisecond, rows: mostRows, page: 500, namesFor: 2 * time.Second,
			configFor: 500 * time.Millisecond,
			patience:  5 * time.Second, scanFor: 10 * time.Second, smallFor: 2 * time.Second,
		}
	}
	// A page takes two seconds of the budget, if nothing else is read.
	const rowsPerUnit = 4

	return pace{
		interval: time.Second, rows: min(max(int(budget*rowsPerUnit), 5), mostRows),
		// Half a second of a budget of 50 units pays for 50 keys at half a unit
		// each.
		page:     min(max(int(budget), 10), 100),
		namesFor: time.Minute, configFor: 2 * time.Second, pageFor: 3 * time.Second,
		patience: time.Second, scanFor: 5 * time.Minute, smallFor: 15 * time.Second,
	}
}

// gate lets calls of viewers pass before work in the background, since both spend
// one read budget.
type gate struct{ busy atomic.Int64 }

// enter counts a call until leave.
func (g *gate) enter() { g.busy.Add(1) }

func (g *gate) leave() { g.busy.Add(-1) }

// yield waits until no call is under way, ctx ends or patience is over.
func (g *gate) yield(ctx context.Context, patience time.Duration) {
	// A call takes longer than a look at the gate costs.
	const look = 5 * time.Millisecond
	for end := time.Now().Add(patience); g.busy.Load() > 0 && time.Now().Before(end); {
		if pause.For(ctx, look) != nil {
			return
		}
	}
}

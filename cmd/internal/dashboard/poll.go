package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
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

		interval := h.s.pace.pause(time.Since(begun))
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
			h.updateRate()
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
		part := keys[:min(len(keys), h.s.pace.chunk)]
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
		h.updateRate()
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
	before := h.setStatus(Status{
		ReadRate: h.s.readRate(), Interval: interval.Round(step).Milliseconds(), Trouble: trouble(err),
	})

	// The log gets each trouble once, and not with every read.
	if err != nil && before != trouble(err) {
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

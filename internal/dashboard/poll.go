package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Bounds of the poller.
const (
	pollYield  = time.Second      // how long a read lets calls of viewers pass
	maxBackOff = 30 * time.Second // between two reads that fail
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
		err := h.read(h.keys(all))
		if h.s.ctx.Err() != nil {
			continue // to the end
		}
		interval := h.s.pace.pause(time.Since(begun))
		if err != nil {
			failures++
			interval = min(maxBackOff, h.s.pace.interval<<min(failures, 10))
			h.s.h.opts.OnError(err)
			if errors.Is(err, limiter.ErrNotFound) {
				h.s.h.drop(h.s) // the namespace is gone, and viewers connect again
			}
		} else {
			failures = 0
		}
		if all || err != nil {
			next = begun.Add(interval)
			h.report(interval, err)
		}
	}
}

// await waits until next or until a row was never read, and reports whether all
// rows are due. After a failure it always waits.
func (h *hub) await(next time.Time, failures int) bool {
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case <-h.s.ctx.Done():
			return true
		case <-h.wake:
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
// first.
func (h *hub) read(keys []limiter.Scope) error {
	for len(keys) > 0 {
		part := keys[:min(len(keys), h.s.pace.chunk)]
		keys = keys[len(part):]
		if h.s.billed() {
			h.s.h.gate.yield(h.s.ctx, pollYield)
		}
		rows, err := h.readPart(part)
		if err != nil {
			return err
		}
		h.apply(rows, part)
	}
	return nil
}

func (h *hub) readPart(keys []limiter.Scope) (map[limiter.Scope][]byte, error) {
	ctx, cancel := context.WithTimeout(h.s.ctx, callTimeout)
	defer cancel()
	buckets, err := h.s.pager.BucketsAt(ctx, h.s.now(), keys)
	if err != nil {
		return nil, outage(err)
	}
	rows, err := h.s.rows(ctx, buckets, 0)
	if err != nil {
		return nil, err
	}
	encoded := make(map[limiter.Scope][]byte, len(rows))
	for _, r := range rows {
		if encoded[limiter.Scope{Entity: r.Entity, Resource: r.Resource}], err = json.Marshal(r); err != nil {
			return nil, err
		}
	}
	return encoded, nil
}

// report sends the status after a read.
func (h *hub) report(interval time.Duration, err error) {
	const step = 100 * time.Millisecond
	h.setStatus(Status{ReadRate: h.s.readRate(), Interval: interval.Round(step).Milliseconds(), Trouble: trouble(err)})
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
	case errors.As(err, new(*limiter.CorruptError)):
		return "Some data of the store are damaged, so that rows may be missing."
	}
	return "The store is unavailable; the dashboard keeps trying."
}

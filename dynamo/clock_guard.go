package dynamo

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/pause"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// clocks returns a look at the clocks of this machine.
func (s *store) clocks() reading {
	now := s.clock()
	return reading{now, now.Sub(s.begun)}
}

// observeDate takes over the date of a reply. It ignores a reply from a cache,
// which has an age, and one that the service has not written, such as the page of
// a load balancer.
func (s *store) observeDate(header http.Header, sent reading) {
	if header.Get("X-Amzn-Requestid") == "" && header.Get("X-Amz-Crc32") == "" {
		return
	}
	if date := header.Get("Date"); date != "" && header.Get("Age") == "" {
		s.tableClock.observe(date, sent, s.clocks())
	}
}

// arrival is the time that a caller passes, beside the machine's clocks when the
// call arrived. Later the caller's time would be old, and a comparison with the
// machine's clock wrong.
type arrival struct {
	now     int64 // of the caller, in milliseconds
	machine reading
	own     bool // now is not the machine's time
}

// arrive returns the arrival of a call at now.
func (s *store) arrive(now time.Time) arrival {
	a := arrival{now: now.UnixMilli(), machine: s.clocks()}

	off := bucket.Sub(a.now, a.machine.wall.UnixMilli())
	a.own = off < -rules.Agreement || off > rules.Agreement
	return a
}

// tableTime returns the time of a call that arrives at now, in milliseconds. If
// now agrees with the machine's clock and that clock is off by more than
// Options.ClockGuard, it is the table's time. Otherwise it is now: a simulation
// or a replay passes times of its own. A method calls tableTime before anything
// that may take long.
func (s *store) tableTime(ctx context.Context, now time.Time) int64 {
	return s.timeOf(ctx, s.arrive(now))
}

// timeOf returns the time of a call that has arrived, as tableTime does.
func (s *store) timeOf(ctx context.Context, a arrival) int64 {
	if a.own {
		return a.now
	}
	s.settleClock(ctx)
	return a.now + s.tableClock.correction(a.machine).Milliseconds()
}

// moment returns the time of a call by both clocks.
func (s *store) moment(now int64) moment {
	return moment{s.clock(), now, s.tableClock.inForce.Load()}
}

// nextDate is how long the store waits until the date of a reply has moved.
const nextDate = dateStep + dateStep/10

// dateRequests holds the request for a date that all calls wait for.
type dateRequests struct {
	mu      sync.Mutex
	running *dateRequest
}

// dateRequest asks the table for its date. It continues if its callers leave, so
// that one with little time does not fail it for the others.
type dateRequest struct {
	// Closed after the reply that settles a step.
	first chan struct{}
	// Closed after the reply that confirms the date, if one has to.
	second chan struct{}
}

// settleClock waits for a date if the machine's clock was set, if the machine has
// slept, or if a date that says that the clock is wrong needs another to confirm
// it. It does not wait for another date if ctx would end soon after.
func (s *store) settleClock(ctx context.Context) {
	left, doubtful := s.tableClock.unsettled(s.clocks())
	if !left && !doubtful {
		return
	}

	d := s.requestDate(ctx)
	if d == nil {
		return
	}

	if left {
		await(ctx, d.first)

		// The date may leave a doubt that only a second one ends.
		left, doubtful = s.tableClock.unsettled(s.clocks())
	}

	if end, ok := ctx.Deadline(); (left || doubtful) && (!ok || time.Until(end) >= 2*nextDate) {
		await(ctx, d.second)
	}
}

// await waits until a channel is closed or ctx ends.
func await(ctx context.Context, closed <-chan struct{}) {
	select {
	case <-closed:
	case <-ctx.Done():
	}
}

// requestDate returns the running request for a date, or starts one. It returns
// nil if the store is closed.
func (s *store) requestDate(ctx context.Context) *dateRequest {
	s.dates.mu.Lock()
	defer s.dates.mu.Unlock()
	if s.dates.running != nil {
		return s.dates.running
	}

	d := &dateRequest{make(chan struct{}), make(chan struct{})}

	// All calls share the read, so it neither ends with this one nor waits for
	// its budget.
	ctx = withoutBudget(context.WithoutCancel(ctx))
	if !s.runInBackground(func() { s.readDates(ctx, d) }) {
		return nil
	}

	s.dates.running = d
	return d
}

// readDates reads the date that settles a step and, if that is in doubt, another.
// If a read fails, the next call asks again.
func (s *store) readDates(ctx context.Context, d *dateRequest) {
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
	defer func() {
		s.dates.mu.Lock()
		defer s.dates.mu.Unlock()
		s.dates.running = nil
		close(d.second)
	}()

	if left, _ := s.tableClock.unsettled(s.clocks()); left {
		if _, err := s.get(ctx, versionKey()); err == nil {
			// The replies may have no date. Without this, every call would wait
			// for one.
			s.tableClock.forget(s.clocks())
		}
	}

	close(d.first)

	// A second date is evidence only if it differs from the first.
	if _, doubtful := s.tableClock.unsettled(s.clocks()); doubtful && pause.For(ctx, nextDate) == nil {
		_, _ = s.get(ctx, versionKey())
	}
}

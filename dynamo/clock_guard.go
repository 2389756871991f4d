package dynamo

import (
	"context"
	"net/http"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
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

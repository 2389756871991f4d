package dynamo

import (
	"context"
	"net/http"
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

// observeDate takes over the date of a reply. A reply from a cache has an age, and
// its date is no evidence.
func (s *store) observeDate(header http.Header, sent reading) {
	if date := header.Get("Date"); date != "" && header.Get("Age") == "" {
		s.tableClock.observe(date, sent, s.clocks())
	}
}

// tableTime returns the time of a call at now, in milliseconds. If now agrees with
// the machine's clock and that clock is off by more than Options.ClockGuard, it
// is the table's time. Otherwise it is now: a simulation or a replay passes times
// of its own.
func (s *store) tableTime(ctx context.Context, now time.Time) int64 {
	ms, r := now.UnixMilli(), s.clocks()
	if off := bucket.Sub(ms, r.wall.UnixMilli()); off < -rules.Agreement || off > rules.Agreement {
		return ms
	}
	if s.tableClock.stepped(r) {
		_, _ = s.get(ctx, versionKey()) // for its date
	}
	return ms + s.tableClock.correction(r).Milliseconds()
}

// confirmClock asks for a second date if the first says that the machine's clock
// is wrong, so that the first charge has the right time. It waits until the date
// has moved, unless ctx would end soon after.
func (s *store) confirmClock(ctx context.Context) {
	const wait = dateStep + dateStep/10
	if end, ok := ctx.Deadline(); ok && time.Until(end) < 2*wait || !s.tableClock.doubtful(s.clocks()) {
		return
	}
	if pause.For(ctx, wait) == nil {
		_, _ = s.get(ctx, versionKey())
	}
}

// moment returns the time of a call by both clocks.
func (s *store) moment(now int64) moment {
	return moment{s.clock(), now, s.tableClock.inForce.Load()}
}

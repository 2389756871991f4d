package dynamo

import (
	"net/http"
	"testing"
	"time"
)

// clockWorld simulates a machine and the table beside it.
type clockWorld struct {
	tableClock
	table   time.Time     // the table's time
	ahead   time.Duration // of the machine's clock
	steady  time.Duration
	trip    time.Duration                   // each way
	skew    func(time.Time) time.Time       // of the date, nil for none
	written func(date time.Time) (s string) // nil for the usual form
}

func newClockWorld(ahead time.Duration) *clockWorld {
	w := &clockWorld{
		table: time.Date(2026, time.March, 14, 15, 9, 26, 123e6, time.UTC), ahead: ahead,
		trip: 2 * time.Millisecond,
	}
	w.guard = defaultClockGuard
	return w
}

func (w *clockWorld) pass(d time.Duration) { w.table, w.steady = w.table.Add(d), w.steady+d }

func (w *clockWorld) clocks() reading { return reading{w.table.Add(w.ahead), w.steady} }

// reply makes one request and observes the date of its reply.
func (w *clockWorld) reply() {
	sent := w.clocks()
	w.pass(w.trip)
	date := w.table
	if w.skew != nil {
		date = w.skew(date)
	}
	w.pass(w.trip)
	header := date.Format(http.TimeFormat)
	if w.written != nil {
		header = w.written(date)
	}
	w.observe(header, sent, w.clocks())
}

// run makes requests for a time, and checks the correction before each.
func (w *clockWorld) run(t *testing.T, span, every time.Duration, check func(t *testing.T, by time.Duration)) {
	t.Helper()
	for end := w.steady + span; w.steady < end; w.pass(every) {
		check(t, w.correction(w.clocks()))
		w.reply()
	}
}

// near returns a check that a correction is right but for a margin.
func near(want, margin time.Duration) func(*testing.T, time.Duration) {
	return func(t *testing.T, by time.Duration) {
		t.Helper()
		if by < want-margin || by > want+margin {
			t.Fatalf("the time is corrected by %v, want %v within %v", by, want, margin)
		}
	}
}

var uncorrected = near(0, 0)

// confirmed makes two requests with different dates.
func (w *clockWorld) confirmed() *clockWorld {
	w.reply()
	w.pass(1100 * time.Millisecond)
	w.reply()
	return w
}

func TestAWrongClockIsCorrectedByTheDatesOfReplies(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{
		-72 * time.Hour, -5 * time.Minute, -3 * time.Second, 3 * time.Second, 5 * time.Minute, 72 * time.Hour,
	} {
		for _, every := range []time.Duration{
			7 * time.Millisecond, 300 * time.Millisecond, 10 * time.Second, 10 * time.Minute,
		} {
			w := newClockWorld(ahead).confirmed()
			w.run(t, 20*time.Second, 300*time.Millisecond, func(*testing.T, time.Duration) {})
			w.run(t, 100*every, every, near(-ahead, 750*time.Millisecond))
			offset, margin, known := w.estimate(w.clocks())
			if !known || (offset+ahead).Abs() > margin || margin > 750*time.Millisecond {
				t.Errorf("ahead by %v: offset %v within %v, known %v", ahead, offset, margin, known)
			}
		}
	}
}

// The first two dates suffice for a clock that is off by minutes.
func TestTwoDatesAreEvidence(t *testing.T) {
	t.Parallel()
	w := newClockWorld(5 * time.Minute)
	w.reply()
	uncorrected(t, w.correction(w.clocks()))
	if !w.doubts() {
		t.Error("one date five minutes off raises no doubt")
	}
	if _, _, known := w.estimate(w.clocks()); known {
		t.Error("one date is evidence")
	}
	w.pass(1100 * time.Millisecond)
	w.reply()
	near(-5*time.Minute, time.Second)(t, w.correction(w.clocks()))
	if w.doubts() {
		t.Error("two dates that agree leave doubt")
	}
}

func TestAClockWithinTheGuardIsLeftAlone(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{
		-1900 * time.Millisecond, 0, 500 * time.Millisecond, 1900 * time.Millisecond,
	} {
		for _, trip := range []time.Duration{0, 2 * time.Millisecond, 800 * time.Millisecond, 3 * time.Second} {
			w := newClockWorld(ahead)
			w.trip = trip
			w.run(t, time.Minute, 70*time.Millisecond, uncorrected)
		}
	}
}

func TestANegativeGuardCorrectsNothing(t *testing.T) {
	t.Parallel()
	w := newClockWorld(5 * time.Minute)
	w.guard = -1
	w.run(t, time.Minute, 300*time.Millisecond, uncorrected)
	if offset, _, known := w.estimate(w.clocks()); !known || offset > -4*time.Minute {
		t.Errorf("the offset is %v, known %v; want it measured all the same", offset, known)
	}
	if w.doubts() {
		t.Error("it would ask for a second date")
	}
}

// Dates that do not go on as time does prove nothing, whatever they say.
func TestDatesThatAreNoEvidence(t *testing.T) {
	t.Parallel()
	begin := newClockWorld(0).table
	for name, skew := range map[string]func(time.Time) time.Time{
		"frozen long ago":    func(time.Time) time.Time { return begin.Add(-72 * time.Hour) },
		"frozen at first":    func(time.Time) time.Time { return begin },
		"frozen ahead":       func(time.Time) time.Time { return begin.Add(72 * time.Hour) },
		"backwards":          func(now time.Time) time.Time { return begin.Add(-10*time.Minute - now.Sub(begin)) },
		"cached for minutes": func(now time.Time) time.Time { return now.Truncate(5 * time.Minute) },
		"much too fast":      func(now time.Time) time.Time { return now.Add(10 * now.Sub(begin)) },
	} {
		for _, every := range []time.Duration{
			7 * time.Millisecond, 300 * time.Millisecond, 1700 * time.Millisecond, 20 * time.Second,
		} {
			w := newClockWorld(0)
			w.skew = skew
			w.run(t, 20*time.Minute, every, func(t *testing.T, by time.Duration) {
				t.Helper()
				if by != 0 {
					t.Fatalf("%s, every %v: corrected by %v", name, every, by)
				}
			})
		}
	}
}

// Dates that contradicted each other count again after a minute without.
func TestContradictionsAreForgiven(t *testing.T) {
	t.Parallel()
	w := newClockWorld(5 * time.Minute).confirmed()
	w.skew = func(now time.Time) time.Time { return now.Add(time.Hour) }
	w.reply()
	w.skew = nil
	w.reply()
	w.run(t, 50*time.Second, 300*time.Millisecond, uncorrected)
	w.run(t, 20*time.Second, 300*time.Millisecond, func(*testing.T, time.Duration) {})
	near(-5*time.Minute, time.Second)(t, w.correction(w.clocks()))
}

// Dates that contradict each other prove nothing, neither the right ones nor the
// wrong ones.
func TestServersThatContradictEachOther(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]func(n uint32) bool{
		"every other":  func(n uint32) bool { return n%2 == 1 },
		"one of ten":   func(n uint32) bool { return n%10 == 9 },
		"nine of ten":  func(n uint32) bool { return n%10 != 0 },
		"half of them": func(n uint32) bool { return n > 1 && n*2654435761>>31 == 0 },
	} {
		for _, every := range []time.Duration{
			7 * time.Millisecond, 300 * time.Millisecond, 1700 * time.Millisecond, 20 * time.Second,
		} {
			w, n := newClockWorld(0), uint32(0)
			w.skew = func(now time.Time) time.Time {
				if n++; wrong(n - 1) {
					return now.Add(-time.Hour)
				}
				return now
			}
			w.run(t, 20*time.Minute, every, func(t *testing.T, by time.Duration) {
				t.Helper()
				if by != 0 {
					t.Fatalf("%s, every %v: corrected by %v", name, every, by)
				}
			})
		}
	}
}

// A date has one form, and it is neither in a local zone nor centuries off.
func TestHeadersThatAreNoDates(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("EST", -5*3600)
	for name, written := range map[string]func(time.Time) string{
		"a word":              func(time.Time) string { return "yesterday" },
		"an obsolete form":    func(now time.Time) string { return now.Format(time.RFC850) },
		"the form of asctime": func(now time.Time) string { return now.Format(time.ANSIC) },
		"a local zone":        func(now time.Time) string { return now.In(zone).Format(time.RFC1123) },
		"a fraction":          func(now time.Time) string { return now.Format("Mon, 02 Jan 2006 15:04:05.000 GMT") },
		"another weekday": func(now time.Time) string {
			return now.AddDate(0, 0, 1).Format("Mon, ") + now.Format("02 Jan 2006 15:04:05 GMT")
		},
		"the year 1":    func(now time.Time) string { return now.AddDate(-2025, 0, 0).Format(http.TimeFormat) },
		"the year 1626": func(now time.Time) string { return now.AddDate(-400, 0, 0).Format(http.TimeFormat) },
		"the year 2326": func(now time.Time) string { return now.AddDate(300, 0, 0).Format(http.TimeFormat) },
		"the year 9999": func(now time.Time) string { return now.AddDate(7973, 0, 0).Format(http.TimeFormat) },
	} {
		w := newClockWorld(5 * time.Minute)
		w.written = written
		w.run(t, 5*time.Second, 300*time.Millisecond, uncorrected)
		if w.first != 0 {
			t.Errorf("%s is a date", name)
		}
	}
}

// A load balancer has a clock of its own, and a cache repeats dates.
func TestDatesOfOthersAreNotObserved(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		header http.Header
		want   bool
	}{
		"with the ID of a request": {http.Header{"X-Amzn-Requestid": {"Q1"}}, true},
		"with a checksum":          {http.Header{"X-Amz-Crc32": {"1"}}, true},
		"from a cache":             {http.Header{"X-Amzn-Requestid": {"Q1"}, "Age": {"3"}}, false},
		"from a load balancer":     {http.Header{"Content-Type": {"text/html"}}, false},
	} {
		s := &store{clock: time.Now, begun: time.Now()}
		c.header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
		s.observeDate(c.header, s.clocks())
		if observed := s.tableClock.first != 0; observed != c.want {
			t.Errorf("a reply %s is observed: %v, want %v", name, observed, c.want)
		}
	}
}

// Servers whose dates differ by little do not contradict each other, and neither
// does a steady clock that runs fast.
func TestSmallDisagreementsKeepTheEstimate(t *testing.T) {
	t.Parallel()
	begin := newClockWorld(0).table
	for name, skew := range map[string]func(time.Time) time.Time{
		"servers differ": func(now time.Time) time.Time {
			return now.Add(time.Duration(now.UnixMilli()%150) * time.Millisecond)
		},
		"slewed slowly":  func(now time.Time) time.Time { return now.Add(-now.Sub(begin) / 2000) },
		"slewed at most": func(now time.Time) time.Time { return now.Add(-now.Sub(begin) / 12) },
		"slewed back":    func(now time.Time) time.Time { return now.Add(now.Sub(begin) / 12) },
	} {
		w := newClockWorld(5 * time.Minute)
		w.skew = skew
		w.confirmed()
		w.run(t, time.Minute, 30*time.Millisecond, func(t *testing.T, by time.Duration) {
			t.Helper()
			if right := skew(w.table).Sub(w.table) - w.ahead; (by - right).Abs() > time.Second {
				t.Fatalf("%s: corrected by %v after %v, want %v", name, by, w.steady, right)
			}
		})
	}
}

// An offset about as large as the guard does not turn the correction on and off.
func TestTheCorrectionDoesNotFlicker(t *testing.T) {
	t.Parallel()
	for ahead := 1500 * time.Millisecond; ahead <= 2500*time.Millisecond; ahead += 10 * time.Millisecond {
		w, changes, on := newClockWorld(ahead), 0, false
		w.run(t, time.Minute, 97*time.Millisecond, func(_ *testing.T, by time.Duration) {
			if (by != 0) != on {
				on = !on
				changes++
			}
		})
		if changes > 1 || ahead < w.guard && on {
			t.Errorf("ahead by %v: %d changes, corrected at last: %v", ahead, changes, on)
		}
	}
}

func TestDatesAreObservedWithoutAllocations(t *testing.T) {
	w := newClockWorld(5 * time.Minute).confirmed()
	header := http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}, "X-Amzn-Requestid": {"Q1"}}
	s := &store{clock: time.Now, begun: time.Now()}
	s.tableClock.guard = time.Minute
	if n := testing.AllocsPerRun(100, func() {
		s.observeDate(header, s.clocks())
		_ = s.tableTime(t.Context(), time.Now())
		_ = w.correction(w.clocks())
	}); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

package calendar_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

// checkLaws checks what holds for every window, and instants in any order.
func checkLaws(t *testing.T, w *calendar.Window, a, b, c int64) {
	t.Helper()
	at := []int64{a, b, c}
	slices.Sort(at)
	a, b, c = at[0], at[1], at[2]
	for _, ms := range at {
		checkUnit(t, w, ms)
	}
	if ab, bc, ac := w.Count(a, b), w.Count(b, c), w.Count(a, c); ab+bc != ac || ab < 0 || bc < 0 {
		t.Errorf("Count: %d from %d to %d, %d to %d, %d in all", ab, a, b, bc, c, ac)
	}
	if n := w.Count(b, a); n != 0 {
		t.Errorf("Count(%d, %d) = %d, want 0", b, a, n)
	}
	n := w.Count(a, b)
	if got, want := w.After(a, n), w.Start(b); got != want {
		t.Errorf("After(%d, %d) = %d, want %d", a, n, got, want)
	}
	if got, want := w.After(a, n+1), w.End(b); got != want {
		t.Errorf("After(%d, %d) = %d, want %d", a, n+1, got, want)
	}
}

// checkUnit checks the unit of an instant. Boundaries that do not fit saturate.
func checkUnit(t *testing.T, w *calendar.Window, ms int64) {
	t.Helper()
	start, end := w.Start(ms), w.End(ms)
	if start > ms || end <= ms && end != math.MaxInt64 {
		t.Errorf("%d is in [%d, %d)", ms, start, end)
	}
	if s, e := w.Start(start), w.End(start); s != start || e != end {
		t.Errorf("the start of [%d, %d) is in [%d, %d)", start, end, s, e)
	}
	if e := w.End(end - 1); e != end {
		t.Errorf("the end of [%d, %d) ends at %d", start, end, e)
	}
	if n := w.Count(start, ms); n != 0 {
		t.Errorf("Count(%d, %d) = %d, want 0", start, ms, n)
	}
	if end == math.MaxInt64 {
		return
	}
	if s, n := w.Start(end), w.Count(ms, end); s != end || n != 1 {
		t.Errorf("[%d, %d): the end starts at %d, after %d boundaries", start, end, s, n)
	}
}

// extremes lists instants at the ends of every range: of int64, of seconds that fit,
// of years with four digits, and of zones.
var extremes = []int64{
	math.MinInt64, math.MinInt64 + 1, math.MinInt64 + 999, math.MinInt64/1000*1000 + 1, math.MinInt64 / 2,
	-62_135_596_800_001, -62_135_596_800_000, -62_167_219_200_000, -4_000_000_000_000, -1001, -1000, -1, 0, 1, 999,
	1000,
	4_102_444_800_000, 253_402_300_799_999, 253_402_300_800_000, 253_402_300_800_001, 253_433_836_800_000,
	math.MaxInt64 / 2, math.MaxInt64/1000*1000 - 1, math.MaxInt64 / 1000 * 1000, math.MaxInt64 - 1, math.MaxInt64,
}

func TestLawsHoldForEveryInt64(t *testing.T) {
	zones := []string{
		"", "Pacific/Apia", "Pacific/Kiritimati", "Europe/Berlin", "America/Juneau", "Asia/Manila",
		"Etc/GMT+12", "Australia/Sydney",
	}
	random := rand.New(rand.NewPCG(21, 2))
	for _, zone := range zones {
		for unit := calendar.Hour; unit <= calendar.Year; unit++ {
			if unit == calendar.Hour && zone != "" {
				continue
			}
			w := load(t, unit, zone)
			for _, ms := range extremes {
				checkLaws(t, w, ms, extremes[random.IntN(len(extremes))], int64(random.Uint64()))
				checkLaws(t, w, ms, ms+random.Int64N(1e11)-5e10, int64(random.Uint64())>>random.IntN(40))
			}
			if t.Failed() {
				t.Fatalf("%v in %q", unit, zone)
			}
		}
	}
}

func TestAfterSaturates(t *testing.T) {
	for unit := calendar.Hour; unit <= calendar.Year; unit++ {
		w := load(t, unit, "")
		for _, from := range extremes {
			if got := w.After(from, math.MaxInt64); got != math.MaxInt64 {
				t.Errorf("%v: After(%d, most) = %d, want math.MaxInt64", unit, from, got)
			}
			if got, want := w.After(from, math.MinInt64), w.Start(from); got != want {
				t.Errorf("%v: After(%d, least) = %d, want %d", unit, from, got, want)
			}
		}
	}
}

// TestLastUnitsRepeat checks that the answer to one call does not leak into the
// next, in any order.
func TestLastUnitsRepeat(t *testing.T) {
	w := load(t, calendar.Month, "Europe/Berlin")
	from := time.Date(2020, 1, 1, 0, 0, 0, 0, location(t, "Europe/Berlin")).UnixMilli()
	var group sync.WaitGroup
	for seed := range uint64(4) {
		group.Go(func() {
			random := rand.New(rand.NewPCG(21, seed))
			for range 2000 {
				n := random.Int64N(24)
				start := w.After(from, n)
				ms := start + random.Int64N(28*secondsPerDay*1000)
				if got := w.Start(ms); got != start {
					t.Errorf("Start(%s) = %s, want %s", show(ms), show(got), show(start))
				}
				if got, want := w.End(ms), w.After(start, 1); got != want {
					t.Errorf("End(%s) = %s, want %s", show(ms), show(got), show(want))
				}
			}
		})
	}
	group.Wait()
}

func TestCallsOfAChargeDoNotAllocate(t *testing.T) {
	now := time.Date(2026, 7, 14, 12, 0, 0, 0, time.UTC).UnixMilli()
	for _, zone := range []string{"", "Europe/Berlin"} {
		load(t, calendar.Month, zone).Start(now)
		allocs := testing.AllocsPerRun(100, func() {
			w, err := calendar.Load(calendar.Month, zone)
			if err != nil || w.Start(now) > now || w.End(now) <= now || w.Count(now, now+1) != 0 ||
				w.Count(now, until) == 0 {
				t.Error("a call failed")
			}
		})
		if allocs != 0 {
			t.Errorf("zone %q: %v allocations, want none", zone, allocs)
		}
	}
}

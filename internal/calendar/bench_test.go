package calendar_test

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

var benched = []struct {
	name string
	unit calendar.Unit
	zone string
}{
	{"UTC", calendar.Month, ""},
	{"Berlin", calendar.Month, "Europe/Berlin"},
	{"BerlinDays", calendar.Day, "Europe/Berlin"},
}

func BenchmarkLoad(b *testing.B) {
	for _, bench := range benched {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := calendar.Load(bench.unit, bench.zone); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkStartInWindow(b *testing.B) {
	for _, bench := range benched {
		b.Run(bench.name, func(b *testing.B) {
			w := load(b, bench.unit, bench.zone)
			at := time.Date(2026, 7, 14, 12, 0, 0, 0, time.UTC).UnixMilli()
			b.ReportAllocs()
			for b.Loop() {
				w.Start(at)
			}
		})
	}
}

func BenchmarkStartAcrossWindows(b *testing.B) {
	for _, bench := range benched {
		b.Run(bench.name, func(b *testing.B) {
			w := load(b, bench.unit, bench.zone)
			at := time.Date(2026, 7, 14, 12, 0, 0, 0, time.UTC).UnixMilli()
			far := w.After(at, 40)
			b.ReportAllocs()
			for b.Loop() {
				w.Start(at)
				at, far = far, at
			}
		})
	}
}

func BenchmarkCount(b *testing.B) {
	for _, bench := range benched {
		b.Run(bench.name, func(b *testing.B) {
			w := load(b, bench.unit, bench.zone)
			b.ReportAllocs()
			for b.Loop() {
				w.Count(since, until)
			}
		})
	}
}

package demo

import (
	"testing"
	"time"
)

func TestCompact(t *testing.T) {
	for _, c := range []struct {
		n       int64
		compact string
	}{
		{0, "0"},
		{7, "7"},
		{950, "950"},
		{1000, "1k"},
		{2345, "2.3k"},
		{9_999, "9.9k"},
		{12_345, "12k"},
		{1_234_567, "1234k"},
	} {
		if got := compact(c.n); got != c.compact {
			t.Errorf("compact(%d) = %s", c.n, got)
		}
		if c.n == 0 {
			continue
		}
		if got := compact(-c.n); got != "-"+c.compact {
			t.Errorf("compact(%d) = %s", -c.n, got)
		}
	}
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0.00s", 42 * time.Millisecond: "0.04s", time.Second / 10: "0.1s", 83400 * time.Millisecond: "83.4s",
	} {
		if got := seconds(d); got != want {
			t.Errorf("seconds(%v) = %s, want %s", d, got, want)
		}
	}
}

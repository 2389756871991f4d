package demo

import (
	"testing"
	"time"
)

func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		n                            int64
		number, compact, thousandths string
	}{
		{0, "0", "0", "0"},
		{7, "7", "7", "0.007"},
		{950, "950", "950", "0.95"},
		{1000, "1,000", "1k", "1"},
		{2345, "2,345", "2.3k", "2.345"},
		{9_999, "9,999", "9.9k", "9.999"},
		{12_345, "12,345", "12k", "12.345"},
		{1_234_567, "1,234,567", "1234k", "1,234.567"},
	} {
		if got := number(c.n); got != c.number {
			t.Errorf("number(%d) = %s", c.n, got)
		}
		if got := compact(c.n); got != c.compact {
			t.Errorf("compact(%d) = %s", c.n, got)
		}
		if got := thousandths(c.n); got != c.thousandths {
			t.Errorf("thousandths(%d) = %s", c.n, got)
		}
		if c.n == 0 {
			continue
		}
		if got := number(-c.n); got != "-"+c.number {
			t.Errorf("number(%d) = %s", -c.n, got)
		}
		if got := compact(-c.n); got != "-"+c.compact {
			t.Errorf("compact(%d) = %s", -c.n, got)
		}
	}
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0.00s", 42 * time.Millisecond: "0.04s", time.Second / 10: "0.1s", 83400 * time.Millisecond: "83.4s"} {
		if got := seconds(d); got != want {
			t.Errorf("seconds(%v) = %s, want %s", d, got, want)
		}
	}
}

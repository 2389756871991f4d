package plot

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNumber(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 999: "999", -999: "-999", 1000: "1,000", -1000: "-1,000", 123_456: "123,456", -123_456: "-123,456",
		math.MaxInt64: "9,223,372,036,854,775,807", math.MinInt64: "-9,223,372,036,854,775,808",
	} {
		if got := number(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestAddStopsAtTheEnd(t *testing.T) {
	for _, c := range [][3]int64{
		{1, 2, 3},
		{math.MaxInt64, math.MinInt64, -1},
		{math.MaxInt64, 1, math.MaxInt64},
		{math.MinInt64, -1, math.MinInt64},
		{math.MinInt64, math.MinInt64, math.MinInt64},
	} {
		if got := add(c[0], c[1]); got != c[2] {
			t.Errorf("%d + %d is %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

func TestShorten(t *testing.T) {
	for width, want := range []string{"", "…", "a…", "abc", "abc"} {
		if got := shorten("abc", width); got != want {
			t.Errorf("width %d: %q, want %q", width, got, want)
		}
	}
	if got := shorten("abc", -1); got != "" {
		t.Errorf("width -1: %q", got)
	}
}

func TestWrap(t *testing.T) {
	got := wrap([]string{"ab", "cd", "efghijk", "l"}, ", ", 6)
	if diff := cmp.Diff([]string{"ab, cd", "efghijk", "l"}, got); diff != "" {
		t.Error(diff)
	}
}

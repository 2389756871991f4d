package main

import "testing"

func TestMedianAndQuartilesOfAnyOrder(t *testing.T) {
	for _, c := range []struct {
		values series
		want   string
	}{
		{series{3}, "3.00 [3.00 .. 3.00]"},
		{series{5, 1, 3}, "3.00 [2.00 .. 4.00]"},
		{series{4, 1, 2, 3}, "2.50 [1.75 .. 3.25]"},
	} {
		if got := c.values.ratio(); got != c.want {
			t.Errorf("%v: %s, want %s", []float64(c.values), got, c.want)
		}
	}
}

func TestRatioIsTakenWithinARound(t *testing.T) {
	slow, fast := series{10, 200, 30}, series{1, 20, 3}
	if got := slow.over(fast).ratio(); got != "10.00 [10.00 .. 10.00]" {
		t.Errorf("a round that was slow for both shows in the ratio: %s", got)
	}
}

package tty

import "testing"

func TestBar(t *testing.T) {
	for _, c := range []struct {
		available, capacity int64
		want                string
	}{
		{8, 8, "····"},
		{7, 8, "▌···"},
		{3, 8, "██▌·"},
		{0, 8, "████"},
		{9, 8, "····"}, // the capacity was lowered
		{-1, 8, "▒▒▒▒"},
		{-80, 8, "▒▒▒▒"},
	} {
		if got := Bar(c.available, c.capacity, 4, false); got != c.want {
			t.Errorf("Bar(%d, %d) = %s, want %s", c.available, c.capacity, got, c.want)
		}
	}
}

package tty

import (
	"math"
	"testing"
)

func TestAmount(t *testing.T) {
	for n, want := range map[int64][2]string{
		0: {"0", "$0.00"}, 1250: {"1,250", "$0.00125"}, -1_250_500_000: {"-1,250,500,000", "-$1,250.50"},
	} {
		if got := [2]string{Amount("tpm", n), Amount("spend", n)}; got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for n, want := range map[int64][2]string{
		0:             {"0", "0"},
		7:             {"7", "0.007"},
		-7:            {"-7", "-0.007"},
		950:           {"950", "0.95"},
		1000:          {"1,000", "1"},
		-1500:         {"-1,500", "-1.5"},
		12_345:        {"12,345", "12.345"},
		1_234_567:     {"1,234,567", "1,234.567"},
		100_000:       {"100,000", "100"},
		math.MaxInt64: {"9,223,372,036,854,775,807", "9,223,372,036,854,775.807"},
	} {
		if got := [2]string{Number(n), Thousandths(n)}; got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

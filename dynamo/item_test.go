package dynamo

import (
	"math"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
)

// Python writes numbers as its decimals print, some of them with an exponent.
func TestNumbersWithExponentsAreRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"0": 0, "-5": -5, "1E+3": 1000, "1.5E+3": 1500, "12E2": 1200, "9007199254740993": 9007199254740993,
		"1.8E+18": 1_800_000_000_000_000_000, "9E+18": 9_000_000_000_000_000_000,
		"99999999999999999999": math.MaxInt64, "-1E+30": math.MinInt64,
	} {
		if got, ok := parseNumber(text); !ok || got != want {
			t.Errorf("%s is read as %d, %v, want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "x", "1.5", "1E-7", "NaN", "Inf"} {
		if got, ok := parseNumber(text); ok {
			t.Errorf("%q is read as %d, want nothing", text, got)
		}
	}
	if got := plain(&types.AttributeValueMemberN{Value: "1E-7"}); got != 1e-7 {
		t.Errorf("1E-7 in details is read as %v", got)
	}
}

// Metadata and details are read as they were stored.
func TestValuesComeBack(t *testing.T) {
	t.Parallel()
	want := map[string]any{
		"text": "a", "none": nil, "yes": true, "whole": int64(7), "part": 1.25,
		"list": []any{"a", int64(1), nil, []any{}}, "map": map[string]any{"b": false},
	}
	if diff := cmp.Diff(want, plain(valueMap(want))); diff != "" {
		t.Errorf("stored and read (-want +got):\n%s", diff)
	}
}

// TestPeakText reads what the item says of a window, for the capacity that the text has
// and for one that Python has set since.
func TestPeakText(t *testing.T) {
	for _, c := range []struct {
		text                            string
		start, capacity                 int64
		wantPeak, wantHidden, wantShift int64
	}{
		{peakText(5, 0, 100, 0), 5, 100, 0, 0, 0},
		{peakText(5, 150, 100, 0), 5, 100, 150, 0, 0},
		{peakText(5, 150, 100, 40), 5, 100, 150, 40, 0},
		{peakText(5, 0, 100, -40), 5, 100, 0, -40, 0},
		{peakText(5, 150, 100, 40), 6, 100, 0, 0, 0}, // another window
		{peakText(5, 150, 100, 40), 6, 70, 100, 0, -30},
		{peakText(5, 0, 100, 0), 5, 70, 100, 0, -30},
		{peakText(5, 150, 100, 0), 5, 120, 150, 0, 20},
		{peakText(5, 0, 100, 40), 5, 120, 0, 20, 0}, // the raise shows what was hidden
		{peakText(5, 0, 100, 40), 5, 170, 0, 0, 30},
		{peakText(5, 0, 100, -40), 5, 70, 0, -10, 0},
		{peakText(5, 0, 100, -40), 5, 30, 60, 0, -30},
		{peakText(5, 0, 100, math.MaxInt64), 5, 1_000_000, 0, math.MaxInt64 - 999_900, 0},
		{"5:30", 5, 100, 130, 0, -30}, // what was spent above a capacity
		{"5:30", 6, 100, 0, 0, 0},
		{"5:0", 5, 100, 0, 0, 0},
		{"", 5, 100, 0, 0, 0},
		{"5", 5, 100, 0, 0, 0},
		{"5:x:100", 5, 100, 0, 0, 0},
		{"5:150:-100", 5, 100, 0, 0, 0},
		{"5:150:100:1:2", 5, 100, 0, 0, 0},
	} {
		peak, hidden, shift := readPeak(c.text, c.start, c.capacity)
		if peak != c.wantPeak || hidden != c.wantHidden || shift != c.wantShift {
			t.Errorf("%q in window %d with capacity %d: %d, %d, %d, want %d, %d, %d",
				c.text, c.start, c.capacity, peak, hidden, shift, c.wantPeak, c.wantHidden, c.wantShift)
		}
	}
}

package dynamo

import (
	"math"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
)

// Python writes numbers as its decimals print, some of them with an exponent.
func TestNumbersWithExponentsAreRead(t *testing.T) {
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
	want := map[string]any{
		"text": "a", "none": nil, "yes": true, "whole": int64(7), "part": 1.25,
		"list": []any{"a", int64(1), nil, []any{}}, "map": map[string]any{"b": false},
	}
	if diff := cmp.Diff(want, plain(valueMap(want))); diff != "" {
		t.Errorf("stored and read (-want +got):\n%s", diff)
	}
}

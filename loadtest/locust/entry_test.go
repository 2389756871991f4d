package locust

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// testdata/rounding.json has what Locust's own function returns.
func TestRoundsAsLocust(t *testing.T) {
	text, err := os.ReadFile("testdata/rounding.json")
	var pairs [][2]float64
	if err := errors.Join(err, json.Unmarshal(text, &pairs)); err != nil || len(pairs) < 2000 {
		t.Fatalf("%d pairs, %v", len(pairs), err)
	}
	for _, pair := range pairs {
		if got := roundResponse(pair[0]); got != int64(pair[1]) {
			t.Errorf("%v is rounded to %d, and to %v by Locust", pair[0], got, pair[1])
		}
	}
}

// The file is not older than the pinned Locust.
func TestRoundingIsUpToDate(t *testing.T) {
	setup, err := exec.CommandContext(t.Context(), "../../scripts/locust-local", "setup").Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && failed.ExitCode() == 3 && os.Getenv("CI") != "true" {
		t.Skip("no Python for Locust")
	}
	if err != nil {
		t.Fatal(err)
	}
	printed, err := exec.CommandContext(t.Context(), strings.TrimSpace(string(setup)), "testdata/rounding.py").Output()
	stored, read := os.ReadFile("testdata/rounding.json")
	if err := errors.Join(err, read); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(printed, stored) {
		t.Error("Locust rounds otherwise; replace rounding.json with what rounding.py prints")
	}
}

package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// TestAsANewUser runs the program. More than five calls pass if they take so long
// that the limit refills.
func TestAsANewUser(t *testing.T) {
	program := filepath.Join(t.TempDir(), "grpc.exe")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), program).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := regexp.MustCompile(
		`^(call \d+: OK\n){5,}call \d+: ResourceExhausted\nlimit:rpm\nretry after \d+(\.\d+)?s\n$`,
	)
	if !want.Match(out) {
		t.Errorf("%s", out)
	}
}

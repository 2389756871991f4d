package programs_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// A call without limits is a fault of the server. Its log has the command that mends
// it, and the command does.
func TestServeSaysWhichLimitsAreMissing(t *testing.T) {
	store := serveStore(t)
	s := startServe(t, store, "--listen", "127.0.0.1:0")
	const body = `{"entity_id":"key-1","resource":"gpt-5","consume":{"rpm":1},"commit":true}`
	var problem struct{ Detail string }
	if status := s.call("/v1/acquire", body, &problem); status != 500 || strings.Contains(problem.Detail, "gpt-5") {
		t.Errorf("status %d, %q", status, problem.Detail)
	}
	line := s.await("there are no limits for entity key-1 and resource gpt-5 at any level")
	command := regexp.MustCompile("; `zae-limiter (.*)` sets some").FindStringSubmatch(line)
	if command == nil {
		t.Fatalf("it says %q, without a command", line)
	}
	if out, err := exec.CommandContext(
		t.Context(), "zae-limiter", strings.Fields(command[1])...,
	).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", command[1], err, out)
	}
	if status := s.call("/v1/acquire", body, &struct{}{}); status != 200 {
		t.Errorf("status %d after %s", status, command[1])
	}
	if code, said := s.stop(); code != 0 {
		t.Errorf("exit code %d: %s", code, said)
	}
}

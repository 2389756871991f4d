package examples

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestLocust runs the load test for two seconds. The limit refills a call in 36
// seconds, so that a slow machine sees the same result.
func TestLocust(t *testing.T) {
	t.Parallel()
	locust := filepath.Join(filepath.Dir(setup(t, "locust-local")), "locust")
	path := filepath.Dir(program(t, "zae-limiter", buildCommand)) + string(os.PathListSeparator) + os.Getenv("PATH")
	out := run(t, []string{"LOCUST=" + locust, "PORT=" + freePort(t), "RUN_TIME=2s", "PATH=" + path}, "locust/run.sh")
	for _, row := range []string{
		`(?m)^ACQUIRE +payments +100 +0\(0\.00%\)`, `(?m)^RATE_LIMITED +payments +[1-9]\d* +0\(0\.00%\)`,
	} {
		if !regexp.MustCompile(row).MatchString(out) {
			t.Errorf("no row %s in\n%s", row, out)
		}
	}
}

// freePort returns a port that was free a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed at once
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

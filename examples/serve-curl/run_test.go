package servecurl

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestAsANewUser runs the script with the real program and the real curl.
func TestAsANewUser(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the example is a shell script")
	}
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, "zae-limiter"), "./cmd/zae-limiter")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	script := exec.CommandContext(ctx, "./run.sh")
	script.Env = append(os.Environ(), "ADDRESS="+freeAddress(t), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := script.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lease := regexp.MustCompile(`(?m)^acquired lease ([0-9a-f]{32})$`).FindStringSubmatch(string(out))
	if lease == nil {
		t.Fatalf("no lease in\n%s", out)
	}
	want := "acquired lease " + lease[1] + "\n" + `{"lease_id":"` + lease[1] + `","consumed":{"rpm":1,"tpm":250},"ended":true}` + "\n\nstatus 200\nstatus 200\nstatus 200\nstatus 429\n"
	if got := string(out); !strings.HasSuffix(got, want) {
		t.Errorf("the script printed\n%s\nwant\n%s", got, want)
	}
}

// freeAddress returns a loopback address that was free a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed at once
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

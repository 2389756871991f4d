package servecurl

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// scriptAt returns the script with the real program, on an address.
func scriptAt(t *testing.T, address string) *exec.Cmd {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the example is a shell script")
	}
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, "zae-limiter"),
		"./cmd/zae-limiter")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	script := exec.CommandContext(ctx, "./run.sh")
	script.Env = append(os.Environ(), "ADDRESS="+address, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return script
}

// TestBusyPort checks that the script notices another server on its port, even one
// that is ready.
func TestBusyPort(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer other.Close()
	var talk strings.Builder
	script := scriptAt(t, other.Listener.Addr().String())
	script.Stderr = &talk
	if out, err := script.Output(); err == nil || len(out) > 0 || !strings.Contains(
		talk.String(), "something listens on "+other.Listener.Addr().String()+" already",
	) {
		t.Errorf("%v\n%s\n%s", err, out, &talk)
	}
}

// TestAsANewUser runs the script with the real program and the real curl.
func TestAsANewUser(t *testing.T) {
	out, err := scriptAt(t, freeAddress(t)).Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lease := regexp.MustCompile(`(?m)^acquired lease ([0-9a-f]{32})$`).FindStringSubmatch(string(out))
	if lease == nil {
		t.Fatalf("no lease in\n%s", out)
	}
	want := "acquired lease " + lease[1] + "\n" + `{"lease_id":"` + lease[1] +
		`","consumed":{"rpm":1,"tpm":250},"ended":true}` + "\n\nstatus 200\nstatus 200\nstatus 200\nstatus 429\n"
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

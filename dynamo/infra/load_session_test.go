package infra_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
)

// fakePlugin puts a program in PATH that records its arguments and the response of
// StartSession, prints what the plugin prints, and ends when it is interrupted. With
// a file "fails" in its folder it fails that many times.
func fakePlugin(t *testing.T) (folder string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the program is a shell script")
	}
	folder = t.TempDir()
	script := `#!/bin/sh
cd "` + folder + `"
for word in "$@"; do echo "$word"; done >> args
echo "$AWS_SSM_START_SESSION_RESPONSE" >> response
if [ -s fails ]; then
  sed -i 1d fails
  echo "Cannot perform start session: EOF" >&2
  exit 1
fi
trap 'echo interrupted >> ended; exit 0' INT TERM
echo; echo "Starting session with SessionId: session-1"
echo "Port 8089 opened for sessionId session-1."
echo "Waiting for connections..."
while :; do sleep 0.02; done
`
	//nolint:gosec // a program
	must(t, os.WriteFile(filepath.Join(folder, "session-manager-plugin"), []byte(script), 0o700))
	t.Setenv("PATH", folder+string(os.PathListSeparator)+os.Getenv("PATH"))
	return folder
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	must(t, err)
	return string(text)
}

func TestTunnel(t *testing.T) {
	folder := fakePlugin(t)
	t.Setenv("AWS_PROFILE", "work")
	c, name, opts := newLoadCloud(t)
	must(t, os.WriteFile(filepath.Join(folder, "fails"), []byte("x\nx\n"), 0o600))
	task, err := infra.StartLoadTask(t.Context(), name, opts)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ready := 0
	if err := task.Forward(ctx, 18089, func() { ready++; cancel() }); err != nil || ready != 1 {
		t.Errorf("%v, ready %d times", err, ready)
	}
	request := `{"DocumentName":"AWS-StartPortForwardingSessionToRemoteHost","Parameters":{"host":["127.0.0.1"],"localPortNumber":["18089"],"portNumber":["8089"]},` +
		fmt.Sprintf(`"Target":"ecs:app-load_%s_%s-locust-master"}`, task.ID, task.ID)
	want := strings.Join(
		[]string{"AWS_SSM_START_SESSION_RESPONSE", fakeaws.Region, "StartSession", "work", request, c.URL},
		"\n",
	) + "\n"
	if diff := cmp.Diff(strings.Repeat(want, 3), read(t, folder, "args")); diff != "" {
		t.Error(diff)
	}
	if got := read(t, folder, "response"); !strings.Contains(got, `"TokenValue":"secret-token"`) {
		t.Error(got)
	}
	if read(t, folder, "ended") != "interrupted\n" {
		t.Error("the program was not interrupted")
	}
	for id, s := range c.Sessions {
		if !s.Ended {
			t.Errorf("%s was not terminated", id)
		}
	}
	if len(c.Sessions) != 3 {
		t.Errorf("%d sessions, want 3", len(c.Sessions))
	}
}

func TestTunnelGivesUpAfterFiveFailures(t *testing.T) {
	folder := fakePlugin(t)
	c, name, opts := newLoadCloud(t)
	must(t, os.WriteFile(filepath.Join(folder, "fails"), []byte(strings.Repeat("x\n", 9)), 0o600))
	task, err := infra.StartLoadTask(t.Context(), name, opts)
	must(t, err)
	err = task.Forward(t.Context(), 18089, func() { t.Error("ready") })
	if err == nil || !strings.HasSuffix(
		err.Error(), "session-manager-plugin ended: Cannot perform start session: EOF",
	) || len(c.Sessions) != 5 {
		t.Errorf("%v after %d sessions", err, len(c.Sessions))
	}
	if strings.Contains(err.Error(), "secret") {
		t.Error("the error has the token of the session")
	}
}

// A task that ends takes its tunnel along.
func TestTunnelEndsWithTheTask(t *testing.T) {
	folder := fakePlugin(t)
	c, name, opts := newLoadCloud(t)
	must(t, os.WriteFile(filepath.Join(folder, "fails"), []byte(strings.Repeat("x\n", 9)), 0o600))
	task, err := infra.StartLoadTask(t.Context(), name, opts)
	must(t, err)
	c.Lock()
	c.Intercept = reply("DescribeTasks",
		`{"tasks":[{"lastStatus":"STOPPED","stoppedReason":"Essential container in task exited"}]}`)
	c.Unlock()
	err = task.Forward(t.Context(), 18089, func() { t.Error("ready") })
	if err == nil || !strings.HasSuffix(
		err.Error(), "stopped: Essential container in task exited",
	) || len(c.Sessions) != 1 {
		t.Errorf("%v after %d sessions", err, len(c.Sessions))
	}
}

func TestCheckTunnel(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if err := infra.CheckTunnel(t.Context(), 18089); !errors.Is(err, infra.ErrNoTunnel) {
		t.Error(err)
	}
	fakePlugin(t)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	if err := infra.CheckTunnel(t.Context(), port); err == nil || !strings.Contains(
		err.Error(), "choose another one with --port",
	) {
		t.Error(err)
	}
	must(t, l.Close())
	must(t, infra.CheckTunnel(t.Context(), port))
}

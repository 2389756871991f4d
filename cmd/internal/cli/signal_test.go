package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
)

// A signal is forwarded to the command, and the lease is settled afterwards.
func TestSignalReachesTheCommandAndTheLeaseIsGivenBack(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no such signals")
	}
	store := "sqlite:" + filepath.Join(t.TempDir(), "limits.db")
	cmd := exec.CommandContext(t.Context(), "zae-limiter", "acquire", "key-abc", "gpt-4", "rpd=4", "--limit",
		"rpd:10/day", "--store", store, "--",
		"sh", "-c", `trap "exit 42" TERM; echo ready; while :; do sleep 0.05; done`)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 42 {
		t.Errorf("%v, want the code of the command, 42", err)
	}
	buckets, err := exec.CommandContext(t.Context(), "zae-limiter", "entity", "buckets", "key-abc", "--store",
		store).Output()
	if err != nil || !strings.HasPrefix(string(buckets), "gpt-4\trpd\t10\t") {
		t.Errorf("%q is left, %v; want all 10", buckets, err)
	}
}

func TestInterruptedWait(t *testing.T) {
	store := "sqlite:" + filepath.Join(t.TempDir(), "limits.db")
	acquire := []string{
		"acquire", "key-abc", "gpt-4", "rpd=1", "--limit", "rpd:1/hour", "--store", store, "--wait", "2h",
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, want := range []int{kit.ExitDone, kit.ExitFailed} {
		var talk bytes.Buffer
		c := kit.NewConsole(strings.NewReader(""), &bytes.Buffer{}, &talk)
		if got := cli.Run(ctx, c, acquire); got != want {
			t.Fatalf("code %d, want %d: %s", got, want, &talk)
		}
		if want == kit.ExitFailed && talk.String() != "zae-limiter: interrupted\n" {
			t.Errorf("it says %q", &talk)
		}
		time.AfterFunc(50*time.Millisecond, cancel) // before or during the wait
	}
}

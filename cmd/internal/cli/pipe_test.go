package cli_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
)

// When stdout is closed, the program ends with the exit code of SIGPIPE and prints
// no message.
func TestBrokenPipe(t *testing.T) {
	store := "sqlite:" + filepath.Join(t.TempDir(), "limits.db")
	if code := cli.Main(
		[]string{"entity", "create", "key-abc", "--store", store}, nil, &bytes.Buffer{}, &bytes.Buffer{},
	); code != kit.ExitDone {
		t.Fatalf("code %d", code)
	}
	for _, args := range [][]string{
		{"entity", "list"}, {"entity", "list", "--json"}, {"entity", "show", "key-abc"}, {"help"},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		var talk bytes.Buffer
		cmd := exec.CommandContext(t.Context(), "zae-limiter", append([]string{"--store", store}, args...)...)
		if args[0] == "help" {
			cmd.Args = append(cmd.Args[:1], "help")
		}
		cmd.Stdout, cmd.Stderr = w, &talk
		err = cmd.Run()
		if closed := w.Close(); closed != nil {
			t.Fatal(closed)
		}
		if got := cmd.ProcessState.ExitCode(); got != kit.ExitBrokenPipe || talk.Len() > 0 {
			t.Errorf("%q: code %d, %v, %q", args, got, err, &talk)
		}
	}
}

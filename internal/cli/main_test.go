package cli

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/internal/cli/tty"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// allCommands are the root and all below it.
func allCommands(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, c := range cmd.Commands() {
		all = append(all, allCommands(c)...)
	}
	return all
}

func TestHelpOfEveryCommand(t *testing.T) {
	for _, cmd := range allCommands(tree()) {
		t.Run(cmd.CommandPath(), func(t *testing.T) {
			args := strings.Fields(cmd.CommandPath() + " --help")[1:]
			var out, talk bytes.Buffer
			if code := Main(args, nil, &out, &talk); code != exitDone || talk.Len() > 0 {
				t.Errorf("exit code %d, stderr %q", code, &talk)
			}
			for line := range strings.Lines(out.String()) {
				if width := tty.Width(strings.TrimSuffix(line, "\n")); width > screenWidth {
					t.Errorf("%d columns: %s", width, line)
				}
			}
			golden(t, filepath.Join("help", strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".txt"), out.String())
		})
	}
}

// golden compares text with a file in testdata, or writes that with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	goldenIn(t, "testdata", name, got)
}

func goldenIn(t *testing.T, folder, name, got string) {
	t.Helper()
	name = filepath.Join(folder, name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("%v; run the test with -update to make it", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got), -update rewrites it:\n%s", name, diff)
	}
}

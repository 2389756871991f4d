package cli

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestMain makes the real program a command of the scripts.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"zae-limiter": func() { os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// TestScripts runs testdata/script.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true, RequireUniqueNames: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits is the script command "exits CODE PROGRAM ARG...".
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		failed, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = failed.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// allCommands are the root and all below it.
func allCommands(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, c := range cmd.Commands() {
		all = append(all, allCommands(c)...)
	}
	return all
}

func TestHelpOfEveryCommand(t *testing.T) {
	root := newRoot()
	root.InitDefaultHelpCmd()
	for _, cmd := range allCommands(root) {
		t.Run(cmd.CommandPath(), func(t *testing.T) {
			args := strings.Fields(cmd.CommandPath() + " --help")[1:]
			var out, talk bytes.Buffer
			if code := Main(args, nil, &out, &talk); code != exitDone || talk.Len() > 0 {
				t.Errorf("exit code %d, stderr %q", code, &talk)
			}
			for line := range strings.Lines(out.String()) {
				if width := len([]rune(strings.TrimSuffix(line, "\n"))); width > 100 {
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
	name = filepath.Join("testdata", name)
	if *update {
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

//go:build unix

package child

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestTheExitCodeIsTheChilds(t *testing.T) {
	for script, want := range map[string]int{
		"exit 0":        0,
		"exit 7":        7,
		"exit 255":      255,
		"kill -KILL $$": 137,
		"kill -TERM $$": 143,
	} {
		if code, err := Run(shell(script)); code != want || err != nil {
			t.Errorf("%s: %d, %v; want %d", script, code, err, want)
		}
	}
}

func TestStartFailures(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("PATH", folder)
	t.Chdir(folder)
	check(t, os.WriteFile("plain", []byte("#!/bin/sh\n"), 0o600))
	check(t, os.WriteFile("orphan", []byte("#!/no/such/interpreter\n"), 0o700))
	check(t, os.WriteFile("text", []byte("exit 3\n"), 0o700))
	check(t, os.Mkdir("folder", 0o700))
	for _, test := range []struct {
		name, want string
		code       int
	}{
		{"nosuch", `cannot run "nosuch": not found in PATH`, 127},
		{"", `cannot run "": not found in PATH`, 127},
		{"folder", `cannot run "folder": not found in PATH`, 127},
		{"./nosuch", `cannot run "./nosuch": there is no such file`, 127},
		{"plain", `cannot run "plain": found in PATH, but not executable`, 126},
		{"./plain", `cannot run "./plain": permission denied`, 126},
		{"./folder", `cannot run "./folder": is a directory`, 126},
		{"orphan", `cannot run "orphan": its interpreter is not found`, 126},
		{"text", `cannot run "text": neither a program for this system nor a script with a #! line`, 126},
	} {
		code, err := Run(Command{Args: []string{test.name}})
		if code != test.code || err == nil || err.Error() != test.want {
			t.Errorf("%q: %d, %v; want %d, %s", test.name, code, err, test.code, test.want)
		}
	}
}

func TestInvalidCommands(t *testing.T) {
	never := func(line string) { t.Errorf("reported %q", line) }
	for _, test := range []struct {
		command Command
		want    string
	}{
		{Command{}, "no command to run"},
		{
			Command{Args: []string{"true"}, ReportFD: -1, Report: never},
			"invalid report descriptor -1: must be from 3 to 63",
		},
		{
			Command{Args: []string{"true"}, ReportFD: 2, Report: never},
			"invalid report descriptor 2: must be from 3 to 63",
		},
		{
			Command{Args: []string{"true"}, ReportFD: 64, Report: never},
			"invalid report descriptor 64: must be from 3 to 63",
		},
		{Command{Args: []string{"true", "a\x00b"}, ReportFD: 3, Report: never}, `cannot run "true": invalid argument`},
	} {
		code, err := Run(test.command)
		if code != 126 || err == nil || err.Error() != test.want {
			t.Errorf("%q: %d, %v; want 126, %s", test.command.Args, code, err, test.want)
		}
	}
}

func TestCurrentFolderInPath(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("PATH", ".")
	check(t, os.WriteFile("here", []byte("#!/bin/sh\nexit 9\n"), 0o700))
	if code, err := Run(Command{Args: []string{"here"}}); code != 9 || err != nil {
		t.Errorf("%d, %v; want 9", code, err)
	}
}

func TestArgumentsEnvironmentAndStreams(t *testing.T) {
	t.Setenv("CHILD_TEST_A", "outer")
	t.Setenv("CHILD_TEST_B", "inherited")
	var out, talk bytes.Buffer
	c := shell(`cat; echo "$CHILD_TEST_A $CHILD_TEST_B $1"; echo talk >&2`, "two words")
	c.Env = []string{"CHILD_TEST_A=inner"}
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader("in\n"), &out, &talk
	if code, err := Run(c); code != 0 || err != nil {
		t.Errorf("%d, %v", code, err)
	}
	if got, want := out.String(), "in\ninner inherited two words\n"; got != want {
		t.Errorf("stdout %q, want %q", got, want)
	}
	if got := talk.String(); got != "talk\n" {
		t.Errorf("stderr %q", got)
	}
}

// The process that is left behind ends with the test, when its stdin is closed.
func TestStdoutHeldOpen(t *testing.T) {
	in, hold := pipe(t)
	defer hold.Close()
	var out bytes.Buffer
	c := shell(`exec 4<&0; echo done; cat <&4 & exit 4`)
	c.Stdin, c.Stdout = in, &out
	if code, err := Run(c); code != 4 || err != nil {
		t.Errorf("%d, %v; want 4", code, err)
	}
	if out.String() != "done\n" {
		t.Errorf("stdout %q", out.String())
	}
}

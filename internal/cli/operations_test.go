package cli

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestOperationsPage runs the commands of docs/operations.md, in order, on an
// emulator of AWS. It only checks that they succeed, since their output depends on
// the emulator.
func TestOperationsPage(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the page is for a POSIX shell")
	}
	text, err := os.ReadFile(filepath.Join(docsFolder, "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	shell := newTourist(t)
	shell.env = append(shell.env, emulated(sharedMoto.URL(t))...)
	released := releasedProgram(t)
	inside, ran := false, 0
	for line := range strings.Lines(string(text)) {
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console\n"
		case inside && isCommand:
			ran++
			command = strings.TrimSpace(command)
			if program, ok := strings.CutPrefix(command, "zae-limiter "); ok {
				command = released + " " + program
			}
			shell.run(command)
		}
	}
	if ran < 15 {
		t.Errorf("only %d commands were found", ran)
	}
}

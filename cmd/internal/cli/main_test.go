package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/tty"
	"github.com/zeroae/zae-limiter-go/internal/golden"
)

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
			golden.Check(t,
				filepath.Join("testdata", "help", strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".txt"),
				out.String())
		})
	}
}

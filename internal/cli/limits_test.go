package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/cli/tty"
)

// No terminal is too narrow for a plan, and colours are only where they are
// wanted.
func TestPlanOnEveryScreen(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "limits.yaml")
	const declared = `
system: {limits: {rpm: {capacity: 60}}}
resources: {gpt-4: {limits: {rpm: {capacity: 1000000000}, a-limit-with-a-long-name: {capacity: 5}}}, claude: }
entities: {a-key-with-a-name-that-is-far-too-long-for-any-terminal: {resources: {_default_: {limits: {rpm: {capacity: 5}}}}}}
`
	if err := os.WriteFile(file, []byte(declared), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, width := range []int{1, 10, 40, 80, 120} {
		for _, coloured := range []bool{false, true} {
			var out, talk bytes.Buffer
			c := &console{
				in: strings.NewReader(""), out: &out, err: &talk, terminal: true, width: width,
				style: tty.Style(coloured), now: time.Now,
			}
			if code := run(context.Background(), c, []string{"limits", "plan", file, "--store", w.store}); code != exitDone {
				t.Fatalf("code %d: %s", code, &talk)
			}
			checkScreen(t, "limits plan", out.String(), width, coloured)
			if want := "1 to create, 2 to update, 1 to delete, 0 as declared\n"; talk.String() != want {
				t.Errorf("it says %q, want %q", &talk, want)
			}
			if width == 120 && !coloured && strings.Count(out.String(), "~ update") != 2 {
				t.Errorf("what a row is about is not said once:\n%s", &out)
			}
		}
	}
}

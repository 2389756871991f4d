package cli_test

import (
	"bytes"
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// A plan fits every terminal, and has colours only if they are enabled.
func TestPlanOnEveryScreen(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "limits.yaml")
	const loadManifest = `
system: {limits: {rpm: {capacity: 60}}}
resources: {gpt-4: {limits: {rpm: {capacity: 1000000000}, a-limit-with-a-long-name: {capacity: 5}}}, claude: }
entities: {a-key-with-a-name-that-is-far-too-long-for-any-terminal: {resources: {_default_: {limits: {rpm: {capacity: 5}}}}}}
`
	if err := os.WriteFile(file, []byte(loadManifest), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, width := range []int{1, 10, 40, 80, 120} {
		for _, coloured := range []bool{false, true} {
			var out, talk bytes.Buffer
			c := &kit.Console{
				In: strings.NewReader(""), Out: &out, Err: &talk, Terminal: true, Width: width,
				Style: tty.Style(coloured), Now: time.Now,
			}
			if code := cli.Run(context.Background(), c, []string{
				"limits", "plan", file, "--store", w.store,
			}); code != kit.ExitDone {
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

// managedBy stores the owner and the list of managed limits.
func (w *world) managedBy(owner, hash string, scopes ...limiter.Scope) {
	w.t.Helper()
	repo, err := sqlite.Open(w.t.Context(), strings.TrimPrefix(w.store, "sqlite:"), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	defer repo.Close()
	_, previous, _, err := repo.Managed(w.t.Context())
	if err == nil {
		err = repo.SetManaged(w.t.Context(), w.now, previous, hash, owner, scopes)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// limits runs a limits command on a manifest and returns its output.
func (w *world) limits(manifest string, args ...string) (out, talk string, code int) {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "limits.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		w.t.Fatal(err)
	}
	var printed, said bytes.Buffer
	c := &kit.Console{In: strings.NewReader(""), Out: &printed, Err: &said, Now: func() time.Time { return w.now }}
	code = cli.Run(w.t.Context(), c, append([]string{"limits", args[0], file, "--store", w.store}, args[1:]...))
	return printed.String(), strings.ReplaceAll(said.String(), file, "FILE"), code
}

// Apply asks for confirmation before it takes a namespace over from a stack.
func TestApplyTakesANamespaceFromAStack(t *testing.T) {
	w := newWorld(t)
	const nothing, stack = "{}", "arn:aws:cloudformation:us-east-1:123456789012:stack/limits/1"
	w.managedBy(stack+" Limits", "hash")
	if _, talk, code := w.limits(nothing, "plan"); code != kit.ExitDone || !strings.Contains(
		talk, "Managed by stack "+stack+"; apply takes the namespace over\n",
	) {
		t.Errorf("code %d: %s", code, talk)
	}
	if _, talk, code := w.limits(nothing, "apply"); code != kit.ExitUsage || !strings.Contains(
		talk, "Take the namespace over from stack "+stack+" (",
	) {
		t.Errorf("code %d: %s", code, talk)
	}
	if _, talk, code := w.limits(nothing, "apply", "--yes"); code != kit.ExitDone || !strings.Contains(
		talk, "Took the namespace over from stack "+stack+" in sqlite:",
	) {
		t.Errorf("code %d: %s", code, talk)
	}
	if _, talk, code := w.limits(nothing, "apply"); code != kit.ExitDone || strings.Contains(talk, "Took") {
		t.Errorf("code %d: %s", code, talk)
	}
}

// A damaged list can be replaced, and a damaged level is reported and repaired.
func TestDamageIsReportedAndRepaired(t *testing.T) {
	w := newWorld(t)
	const loadManifest = "resources: {gpt-4: {limits: {rpm: {capacity: 1}}}}"
	w.managedBy("", "hash", limiter.Scope{Resource: "no name"})
	if _, talk, code := w.limits(loadManifest, "apply", "--yes"); code != kit.ExitFailed ||
		!strings.Contains(talk, "`zae-limiter limits apply FILE --forget`") {
		t.Errorf("code %d: %s", code, talk)
	}
	if _, talk, code := w.limits(loadManifest, "apply", "--yes", "--forget"); code != kit.ExitDone {
		t.Errorf("code %d: %s", code, talk)
	}
	if _, talk, code := w.limits(loadManifest, "apply"); code != kit.ExitDone {
		t.Errorf("code %d: %s", code, talk)
	}
	db, err := sql.Open("sqlite", strings.TrimPrefix(w.store, "sqlite:"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(
		t.Context(), "UPDATE configs SET limits = 'nonsense' WHERE resource = 'gpt-4' AND entity = ''",
	); err != nil {
		t.Fatal(err)
	}
	if out, talk, _ := w.limits(loadManifest, "plan"); !strings.HasPrefix(
		out, "update\tresource\tgpt-4\tstate\tdamaged\tsound\n",
	) {
		t.Errorf("%s%s", out, talk)
	}
	if out, talk, _ := w.limits(loadManifest, "plan", "--json"); !strings.Contains(
		out, `{"field":"state","before":"damaged","after":"sound"}`,
	) {
		t.Errorf("%s%s", out, talk)
	}
}

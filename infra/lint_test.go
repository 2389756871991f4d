package infra_test

import (
	"errors"
	"os"
	"os/exec"
	"testing"
)

// cfn-lint knows what AWS lets templates say. What it is told to ignore is in the
// template, with the reason.
func TestTemplatePassesLint(t *testing.T) {
	t.Parallel()
	const missingProgram = 3
	out, err := exec.CommandContext(t.Context(), "../scripts/moto-local", "lint", "template.yaml").CombinedOutput()
	exit, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case failed && exit.ExitCode() == missingProgram && os.Getenv("CI") != "true":
		t.Skipf("%s", out)
	case err != nil || len(out) > 0:
		t.Errorf("%v\n%s", err, out)
	}
}

package escrow

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheatsAreFound plants defects, one at a time, and checks that TestBooks finds
// each of them, and TestEndure a defect that breaks the promise by more than its
// slack.
func TestCheatsAreFound(t *testing.T) {
	if os.Getenv(cheatVariable) != "" {
		t.Skip("this is a cheat's own run")
	}
	if testing.Short() {
		t.Skip("compiles the package once for each defect")
	}
	for _, c := range []struct{ name, file, old, cheat, test, report string }{
		{
			"returning twice", "janitor.go", "return g.store.Credit(ctx, now, credits...)",
			"return g.store.Credit(ctx, now, append(credits, credits...)...)", books, "--- FAIL: TestBooks",
		},
		{
			"depositing above the grant", "pot.go", "part := min(n-kept, g.size[j]-g.held[j])",
			"part := n - kept", books, "--- FAIL: TestBooks",
		},
		{
			"spending after the hold", "janitor.go", "dueGrant{g.due(), p, g}",
			"dueGrant{g.due() + g.hold/2, p, g}", books, "--- FAIL: TestBooks",
		},
		{
			"forgetting the parent", "grant.go", "range g.slots[j].places {", "range g.slots[j].places[:1] {",
			books, "--- FAIL: TestBooks",
		},
		{
			"forgetting the grandparent", "grant.go", "range g.slots[j].places {",
			"range g.slots[j].places[:min(2, len(g.slots[j].places))] {", books, "--- FAIL: TestBooks",
		},
		{
			"hiding tokens from the grandparent", "lent.go", "if at.payer == 0 || l == nil {",
			"if at.payer != 1 || l == nil {", books, "--- FAIL: TestBooks",
		},
		{
			"agreeing with the parent alone", "credit.go", "if i > 0 && amount != n {", "if i == 1 && amount != n {",
			agreement, "--- FAIL: TestAPotSettles",
		},
		{
			"changing a grandparent with the pot open", "change.go", "slices.ContainsFunc(p.payers, func",
			"slices.ContainsFunc(p.payers[:min(2, len(p.payers))], func", closing, "--- FAIL: TestAChange",
		},
		{
			"granting more than was spent", "ask.go", "spent := f.netSpent(j)", "spent := 2 * f.netSpent(j)",
			books, "--- FAIL: TestBooks",
		},
		{
			"forgetting give-backs", "lent.go", "r.add(now, hold, n)", "r.add(now, hold, 0)", books,
			"--- FAIL: TestBooks",
		},
		{"returning late", "janitor.go", "if left <= 0 || g.late {", "if left <= 0 {", books, "--- FAIL: TestBooks"},
		{
			"returning into the next window", "grant.go", "if now >= windowEnd(c.Starts, at.limit, *l) {",
			"if c.Starts = nil; false {", books, "--- FAIL: TestBooks",
		},
		{"sparing a sum", "ask.go", "c.Strict = true", "c.Strict = false", books, "--- FAIL: TestBooks"},
		{
			"granting to hold, not to spend", "ask.go", "extra := spent - f.held[j] - f.refundedOf(j)",
			"extra := int64(1) << 40", endurance, "more than the limits allow",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			source, err := os.ReadFile(c.file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Count(string(source), c.old) != 1 {
				t.Fatalf("%s does not contain %q once", c.file, c.old)
			}
			out, err := cheat(t, c.file, strings.Replace(string(source), c.old, c.cheat, 1), c.test)
			if err == nil || !strings.Contains(out, c.report) {
				t.Errorf("not found: %v\n%s", err, out)
			}
		})
	}
}

// Tests that find cheats, endurance with some of the seeds that do.
const (
	books     = "^TestBooks$"
	agreement = "^TestAPotSettlesWhatAllPayersAgreeOn$"
	closing   = "^TestAChangeOfAnyPayerClosesThePot$"
	endurance = "^TestEndure$/^memory_(12|52|60)$"
)

const cheatVariable = "ZAEL_TEST_CHEAT"

// cheat runs a test with another version of a file.
func cheat(t *testing.T, file, source, test string) (string, error) {
	t.Helper()
	folder := t.TempDir()
	path, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	replaced, overlay := filepath.Join(folder, file), filepath.Join(folder, "overlay.json")
	content, err := json.Marshal(map[string]any{"Replace": map[string]string{path: replaced}})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{replaced: []byte(source), overlay: content} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-vet=off", "-overlay", overlay, "-run", test,
		".", "-endure.seeds=61")
	cmd.Env = append(os.Environ(), cheatVariable+"=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

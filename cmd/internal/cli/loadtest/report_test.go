package loadtest

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/internal/golden"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

// An interrupt ends a test with the report so far, and removes what it stored.
func TestInterruptedLoadTest(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there are no such signals")
	}
	dir := t.TempDir()
	store := "sqlite:" + filepath.Join(dir, "limits.db")
	page := filepath.Join(dir, "report.html")
	cmd := exec.CommandContext(t.Context(), "zae-limiter", "loadtest", "local", "max_rps", "--users", "3",
		"--duration", "100s", "--store", store, "--html", page)
	var out bytes.Buffer
	cmd.Stdout = &out
	messages, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for lines := bufio.NewScanner(messages); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "users 3 ") {
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, &said)
	}
	names, err := exec.CommandContext(t.Context(), "zae-limiter", "namespace", "list", "--store", store).Output()
	if err != nil || strings.Contains(string(names), "loadtest") {
		t.Errorf("the namespaces are %q, %v; want none of the test", names, err)
	}
	if !strings.Contains(said.String(), "interrupted; the report covers the time until then") {
		t.Errorf("it says %s", &said)
	}
	if !strings.Contains(out.String(), "Admitted never exceeded allowed") {
		t.Errorf("the report is %s", &out)
	}
	if _, err := os.Stat(page); err != nil {
		t.Errorf("the page: %v", err)
	}
}

// busyTest returns a snapshot of a test with many kinds of calls.
func busyTest() loadtest.Snapshot {
	row := loadtest.Row{
		Requests: 123_456, PerSecond: 2057.5, Average: 8 * time.Millisecond, Min: 900 * time.Microsecond,
		Max: 1250 * time.Millisecond,
		P50: 6 * time.Millisecond, P95: 18 * time.Millisecond, P99: 43 * time.Millisecond,
	}
	s := loadtest.Snapshot{
		Elapsed: 12*time.Second + 40*time.Millisecond, Users: 150, Total: row, Admitted: 60_000, Refused: 3_400,
		Failed:   17,
		Failures: map[string]int64{"unavailable": 12, "timeout": 5}, Late: 3, Waiting: 1,
		Usage: &loadtest.Usage{Requests: 70_000, ReadUnits: 1200, WriteUnits: 65_000}, CPU: 9 * time.Second,
	}
	s.Total.Name, s.Total.Failures = "Total", 17
	for _, kind := range []string{
		loadtest.Acquire, loadtest.Commit, loadtest.RateLimited, loadtest.TimeUntilAvailable,
	} {
		for _, name := range []string{
			"anthropic/claude-sonnet", "openai/gpt-4o-mini", "google/gemini-pro", "odd\x1b[2Jname",
		} {
			row.Type, row.Name = kind, name
			s.Rows = append(s.Rows, row)
		}
	}
	s.Rows[0].Failures = 17
	return s
}

func TestLoadFrameFits(t *testing.T) {
	about := loadtest.Report{Store: "dynamodb:my-app at http://localhost:8000", Load: "150 users, 10 started a second"}
	for _, size := range []struct {
		name          string
		width, height int
	}{{"80", 80, 24}, {"120", 120, 40}, {"40", 40, 12}, {"tiny", 10, 2}} {
		v := &view{Console: &kit.Console{}, about: about, scenario: "llm_production", length: 90 * time.Second}
		lines := v.frame(busyTest(), size.width, size.height)
		if len(lines) > size.height {
			t.Errorf("%s: %d lines, want at most %d", size.name, len(lines), size.height)
		}
		for _, line := range lines {
			if tty.Width(line) > size.width || strings.Contains(line, "\x1b") {
				t.Errorf("%s: the line %q does not fit", size.name, line)
			}
		}
		golden.Check(t, filepath.Join("testdata", "frame-"+size.name+".txt"),
			strings.Join(lines, "\n")+"\n")
	}
}

func TestLoadReportAsText(t *testing.T) {
	r := loadtest.Report{
		Result: loadtest.Result{
			Scenario: "llm_production", Snapshot: busyTest(),
			Promise: loadtest.Promise{Limits: 320, Checks: 120_000},
		},
		Store: "dynamodb:my-app", Load: "150 users, 10 started a second",
	}
	golden.Check(t, filepath.Join("testdata", "report.txt"), reportText(r, 100, false))
}

func TestBrokenPromiseFails(t *testing.T) {
	r := loadtest.Report{Result: loadtest.Result{Promise: loadtest.Promise{Limits: 1, Checks: 5}}}
	if err := failure(r); err != nil {
		t.Errorf("a kept promise fails with %v", err)
	}
	r.Promise.Broken, r.Promise.Excess = 1, 1500
	if err := failure(r); err == nil || kit.ExitCode(err) != kit.ExitFailed ||
		err.Error() != "more was admitted than the limits allow" {
		t.Errorf("a broken promise fails with %v", err)
	}
	if text := reportText(r, 0, false); !strings.HasSuffix(
		text,
		"\nAdmitted exceeded allowed in 1 of 5 checks, by up to 1.5 tokens: limit  of entity  and resource .\n",
	) {
		t.Errorf("the report ends with %s", text)
	}
}

func TestSlowPhasesAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		v := &view{Console: &kit.Console{Err: &said}, scenario: "stress", length: time.Minute, stop: func() {}}
		for phase, slow := range map[string]string{
			loadtest.PhaseSetup:    "setting up the limits and entities of stress\n",
			loadtest.PhaseStopping: "waiting for the last calls to end\n",
			loadtest.PhaseTeardown: "removing the namespace of the test\n",
		} {
			for wait, want := range map[time.Duration]string{
				slowPhase - time.Millisecond: "", slowPhase + time.Millisecond: slow,
			} {
				said.Reset()
				v.begin(phase)
				time.Sleep(wait)
				v.close()
				if said.String() != want {
					t.Errorf("%s: it says %q after %v, want %q", phase, &said, wait, want)
				}
			}
		}
	})
}

// Reports and phases come from different goroutines. No frame is drawn once the
// users stop, since it would stay above the report.
func TestLoadViewDrawsWhileUsersRun(t *testing.T) {
	var out bytes.Buffer
	v := &view{Console: &kit.Console{Err: &bytes.Buffer{}}, scenario: "stress", length: time.Minute, stop: func() {}}
	v.screen = tty.NewScreen(&out, func() (width, height int) { return 80, 24 })
	v.show(busyTest())
	if out.Len() > 0 {
		t.Errorf("before the users run, it draws %q", &out)
	}
	v.begin(loadtest.PhaseRunning)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { v.show(busyTest()) })
	}
	wg.Wait()
	if !strings.Contains(out.String(), "loadtest stress") {
		t.Errorf("it draws %q", &out)
	}
	v.begin(loadtest.PhaseStopping)
	drawn := out.Len()
	v.show(busyTest())
	v.close()
	if out.Len() != drawn || !strings.HasSuffix(out.String(), "\x1b[?25h") {
		t.Errorf("after the users stopped, it draws %q", out.String()[drawn:])
	}
}

package loadtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

type uiOptions struct {
	accountTest
	task                                            taskFlags
	destroy, force                                  bool
	maxWorkers, minWorkers, usersPerWorker, connect int
	lead                                            *time.Duration
}

func newUI(c *kit.Console, p Program) *cobra.Command {
	o := &uiOptions{accountTest: newAccountTest(c, p)}
	cmd := &cobra.Command{
		Use:   "ui -f SCENARIO [CLASS...]",
		Short: "Open Locust's web page of a load test in an AWS account",
		Long: `Open the web page of a Locust master in the load stack of an AWS account. The
master starts tests, and workers come and go with the number of users. The
command uses the running task if there is one, else it starts one. A running
task keeps its settings unless --force replaces it.

The page is on this machine, through the Session Manager plugin for the AWS CLI,
until Ctrl-C. Then the task is stopped if this command started it, or if
--destroy is set.

` + kit.StackHelp,
		Example: "  zae-limiter loadtest ui -n my-app -f llm_production\n  zae-limiter loadtest ui -n my-app " +
			"-f max_rps --max-workers 20 --force",
		RunE: func(cmd *cobra.Command, args []string) error { return runAccountUI(cmd.Context(), o, args) },
	}

	o.addTo(cmd)
	o.task.addTo(cmd)

	flags := cmd.Flags()
	flags.BoolVar(&o.destroy, "destroy", false, "stop the task at the end, even if it was running before")
	flags.BoolVar(&o.force, "force", false, "replace a running task whose settings differ")
	kit.AddNumber(cmd, &o.maxWorkers, "max-workers", "",
		"the most workers (default: of the load stack)", 1, maxLoadWorkers)
	kit.AddNumber(cmd, &o.minWorkers, "min-workers", "", "the fewest workers (default: of the load stack)", 1,
		maxLoadWorkers)
	kit.AddNumber(cmd, &o.usersPerWorker, "users-per-worker", "", "users of one worker (default: of the load stack)", 1,
		maxUsersPerWorker)
	kit.AddFlag(cmd, &o.lead, "startup-lead-time", "duration", "",
		"how far ahead workers start; a plain number is seconds (default: of the load stack)", parseLead)
	kit.AddNumber(cmd, &o.connect, "pool-connections", "", "connections of a worker to DynamoDB (default 1000)", 1,
		maxConnections)

	return cmd
}

func parseLead(text string) (*time.Duration, error) {
	// Zero turns the prediction off, and parseSeconds rejects it.
	if text == "0" {
		return new(time.Duration), nil
	}

	d, err := parseSeconds(text)
	if err != nil || d > maxLead {
		return nil, fmt.Errorf("must be a number of seconds from 0 to %v, or a duration such as 90s", maxLead.Seconds())
	}

	return &d, nil
}

func runAccountUI(ctx context.Context, o *uiOptions, args []string) (err error) {
	if err := o.choose(args); err != nil {
		return err
	}
	if o.maxWorkers > 0 && o.minWorkers > o.maxWorkers {
		return kit.Usagef("--min-workers %d is more than --max-workers %d", o.minWorkers, o.maxWorkers)
	}

	name, opts, err := o.Target()
	if err != nil {
		return err
	}
	// The task bills from its start, so a tunnel that cannot work is an error
	// before.
	if err := infra.CheckTunnel(ctx, o.task.port); err != nil {
		return err
	}

	settings := o.taskOptions(opts, o.task)
	settings.MaxWorkers, settings.MinWorkers, settings.UsersPerWorker, settings.PoolConnections =
		o.maxWorkers, o.minWorkers, o.usersPerWorker, o.connect
	settings.StartupLead = o.lead

	task, err := infra.OpenLoadTask(ctx, name, o.force, settings)
	if err != nil {
		return kit.StackError(err)
	}
	// A task that was running belongs to another command or user, so it stays.
	if task.Started || o.destroy {
		defer func() { err = errors.Join(err, o.stopTask(ctx, task)) }()
	} else {
		o.Say("using the task that is running; --destroy stops it at the end")
	}

	if task.Ignored {
		o.Warn("the running task keeps its settings; --force replaces it")
	}

	url := fmt.Sprintf("http://localhost:%d", o.task.port)
	opened := false
	// Forward calls this again when a lost connection is back.
	return task.Forward(ctx, o.task.port, func() {
		if opened {
			o.Say("connected again")
			return
		}
		opened = true

		o.Done("%s runs %s; Ctrl-C ends it", url, o.what())
		if o.Terminal {
			browse(ctx, url)
		}
	})
}

// browse opens a page in the user's browser, if there is one.
func browse(ctx context.Context, url string) {
	words := []string{"xdg-open", url}
	switch runtime.GOOS {
	case "darwin":
		words[0] = "open"
	case "windows":
		words = []string{"rundll32", "url.dll,FileProtocolHandler", url}
	}

	//nolint:gosec // a fixed program, and a URL of our own
	cmd := exec.CommandContext(context.WithoutCancel(ctx), words[0], words[1:]...)
	if cmd.Start() == nil {
		// The URL of the page is printed, so a failure needs no message.
		go func() { _ = cmd.Wait() }()
	}
}

// page is a file for a report. It is created before the test, so that a test
// never ends without a place for its report, and replaces an older file only
// when it is complete.
type page struct {
	file *os.File
	path string
}

// createPage creates the file of a report. It returns nil if path is "".
func createPage(path string) (*page, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // no page is wanted
	}

	given := path
	if target, err := filepath.EvalSymlinks(path); err == nil {
		// The report replaces the file to which a link leads, and the link
		// stays.
		path = target
	}

	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, kit.Usagef("invalid --html %q: is a folder; give the name of a file in it, such as %s",
			kit.Clip(given),
			filepath.Join(given, "report.html"))
	} else if err == nil && !info.Mode().IsRegular() {
		return nil, kit.Usagef(
			"invalid --html %q: is not a file that could be replaced; give the name of a file, such as report.html",
			kit.Clip(given),
		)
	}
	// The temporary file is in the same folder, because a rename cannot cross
	// file systems.
	file, err := os.CreateTemp(filepath.Dir(path), ".report-*.html")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, kit.Usagef("invalid --html %q: there is no folder %s", kit.Clip(path), filepath.Dir(path))
	}
	if err != nil {
		return nil, fmt.Errorf("--html %s: %w", path, err)
	}

	return &page{file, path}, nil
}

// write writes the report and puts the file in its place.
func (p *page) write(r loadtest.Report) error {
	err := r.WriteHTML(p.file)
	// CreateTemp makes a file that only the user can read, but a report is for
	// others, too.
	if err = errors.Join(err, p.file.Chmod(0o644), p.file.Close()); err != nil {
		return fmt.Errorf("--html %s: %w", p.path, err)
	}

	return os.Rename(p.file.Name(), p.path)
}

// discard removes the file if the report was not written.
func (p *page) discard() {
	if p != nil {
		_ = p.file.Close()

		// After write there is no such file.
		_ = os.Remove(p.file.Name())
	}
}

// Package child runs another program in the way that env and timeout do: with the
// same environment, files and terminal. It forwards signals to the child and
// returns its exit code. The child can report lines on a file descriptor of its
// own.
package child

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// MaxLine is the maximum length of a reported line in bytes. Run cuts longer
// lines.
const MaxLine = 64 << 10

// drainTimeout is how long Run waits for files that processes left behind by the
// child hold open.
const drainTimeout = time.Second

// Command describes a program to run.
type Command struct {
	// Args holds the program and its arguments. The program is looked up in the
	// PATH of this process.
	Args []string

	// Env is added to the environment of this process and overrides it.
	Env []string

	// Stdin, Stdout and Stderr are passed to the child directly if they are an
	// *os.File. Nil is the null device, and anything else is copied. Run waits for
	// the last Read of a Stdin that is copied, so it must end by itself.
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// ReportFD is the descriptor of the child, 3 to 63, whose lines go to Report.
	// Zero disables reporting. On Windows any other value is an error.
	ReportFD int

	// Report is called with each line, without its end, that the child or one of
	// its children writes to ReportFD. Calls are sequential and never follow the
	// return of Run. Run waits for a call that blocks. Report must not be nil if
	// ReportFD is set.
	Report func(line string)
}

// Run runs the command and returns its exit code, or 128 plus the number of the
// signal that ended it. An error means that the command did not start; the code
// is then 127 if there is no such program, else 126.
//
// Until Run returns, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT
// and SIGWINCH do not end this process but are forwarded. The child ignores
// signals that this process ignores. A terminal sends SIGINT, SIGQUIT and SIGWINCH
// to its whole foreground group, so Run does not forward them while this process
// belongs to that group. SIGPIPE does not end this process and is not forwarded.
//
// Run reads all lines that the child reported before it ended. Processes that it
// left behind can write for one more second to a Stdout or Stderr that is copied,
// and then for another second to ReportFD; later writes fail. An unfinished last
// line counts only if no process is left that could finish it.
func Run(c Command) (code int, err error) {
	if len(c.Args) == 0 {
		return codeUnstarted, errors.New("no command to run")
	}

	path, err := lookUp(c.Args[0])
	if err != nil {
		return lookUpFailure(c.Args[0], err)
	}

	// From here on no signal ends this process, so that none can leave a child
	// alone.
	signals := catchSignals()
	defer signals.release()

	report, err := openReport(c.ReportFD, c.Report)
	if err != nil {
		return codeUnstarted, err
	}
	defer report.close()

	cmd := &exec.Cmd{
		Path:       path,
		Args:       c.Args,
		Env:        append(os.Environ(), c.Env...),
		Stdin:      c.Stdin,
		Stdout:     c.Stdout,
		Stderr:     c.Stderr,
		ExtraFiles: report.files,
		WaitDelay:  drainTimeout,
	}

	if err := cmd.Start(); err != nil {
		return startFailure(c.Args[0], err)
	}

	signals.passTo(cmd.Process)
	report.listen()
	// Only the exit status matters; the child notices a failed copy.
	_ = cmd.Wait()
	return exitCode(cmd.ProcessState), nil
}

// lookUp finds the file of a program. Unlike exec.LookPath it accepts the current
// folder in the PATH on Unix.
func lookUp(name string) (path string, err error) {
	path, err = exec.LookPath(name)
	if errors.Is(err, exec.ErrDot) && runtime.GOOS != "windows" {
		return path, nil
	}
	return path, err
}

func exitCode(state *os.ProcessState) int {
	if state == nil {
		return codeUnknown
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return codeSignalled + int(status.Signal())
	}
	return state.ExitCode()
}

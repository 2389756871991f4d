// Package child runs another program on behalf of this one, the way env and
// timeout do: with the same environment, files and terminal. Signals are passed
// on to it, and its exit code is the answer. Besides, the program may report
// back, line by line, on a descriptor of its own.
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

// MaxLine is how many bytes of a reported line arrive. A longer line is cut
// there.
const MaxLine = 64 << 10

// patience is how long the files of a child that has ended may be held open by
// processes it left behind.
const patience = time.Second

// Command is a program to run, and with what.
type Command struct {
	// Args are the program and its arguments. The program is looked up with the
	// PATH of this process.
	Args []string

	// Env is added to the environment of this process, and wins over it.
	Env []string

	// Stdin, Stdout and Stderr are handed to the child as they are if they are an
	// *os.File, nil is the null device, and anything else is copied. A Stdin that
	// is copied has to end by itself: Run waits for its last Read.
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// ReportFD is the descriptor of the child, 3 to 63, whose lines go to Report.
	// Zero is none. Where descriptors have no numbers, on Windows, any other is an
	// error.
	ReportFD int

	// Report is called with each line, without its end, that the child or one of
	// its children writes to ReportFD. The calls come one after the other and
	// never after Run has returned. While one blocks, so does Run. It must not be
	// nil if there is a ReportFD.
	Report func(line string)
}

// Run starts the command and returns its exit code once it has ended, or 128
// and the number of the signal that ended it. An error means that it never
// started; code is then 127 if there is no such program, else 126.
//
// Until Run returns, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT
// and SIGWINCH do not end this process but are passed on. Those that it ignores
// already, the child ignores too. SIGINT, SIGQUIT and SIGWINCH are sent by a
// terminal to its whole foreground group: while this process belongs to that
// group they are not passed on, whoever sent them. SIGPIPE does not end this
// process either, and is not passed on.
//
// What the child had reported when it ended is read to the end. Processes it
// left behind may write for one more second to a Stdout or Stderr that is
// copied, and then for another to ReportFD; later writes fail. An unfinished
// last line counts only if nobody is left who could finish it.
func Run(c Command) (code int, err error) {
	if len(c.Args) == 0 {
		return codeUnstarted, errors.New("there is no command to run")
	}
	path, err := lookUp(c.Args[0])
	if err != nil {
		return lookUpFailure(c.Args[0], err)
	}
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
		WaitDelay:  patience,
	}
	if err := cmd.Start(); err != nil {
		return startFailure(c.Args[0], err)
	}
	signals.passTo(cmd.Process)
	report.listen()
	_ = cmd.Wait() // its state is what counts; copying that failed is for the child to notice
	return exitCode(cmd.ProcessState), nil
}

// lookUp finds the file of a program. Unlike exec.LookPath it lets Unix users
// have the current folder in their PATH.
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

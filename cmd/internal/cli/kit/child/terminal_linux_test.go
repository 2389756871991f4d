package child

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal opens a new terminal and returns both of its ends: the keyboard, and
// the file that a process uses.
func terminal(t *testing.T) (keyboard, tty *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminal to be had: %v", err)
	}
	t.Cleanup(func() { keyboard.Close() })
	check(t, unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetUint32(int(keyboard.Fd()), unix.TIOCGPTN)
	check(t, err)
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminal to be had: %v", err)
	}
	t.Cleanup(func() { tty.Close() })
	return keyboard, tty
}

func (f *family) onTerminal(tty *os.File) {
	f.cmd.Stdin = tty
	f.cmd.SysProcAttr.Setctty = true // of descriptor 0
}

func TestFilesAreHandedOverAsTheyAre(t *testing.T) {
	_, tty := terminal(t)
	c := shell("test -t 0 -a -t 1 -a -t 2")
	c.Stdin, c.Stdout, c.Stderr = tty, tty, tty
	if code, err := Run(c); code != 0 || err != nil {
		t.Errorf("%d, %v: the child does not see the terminal", code, err)
	}
}

func TestATerminalSignalsTheChildOnce(t *testing.T) {
	keyboard, tty := terminal(t)
	f := newFamily(t, self(t), self(t))
	f.onTerminal(tty)
	f.start()
	f.ready()
	f.signal(unix.SIGUSR2) // later signals arrive after the start
	f.caught(unix.SIGUSR2)
	press := func(key string, sig unix.Signal) {
		t.Helper()
		_, err := keyboard.WriteString(key)
		check(t, err)
		f.caught(sig)
		// A second interrupt would arrive before this signal.
		f.signal(unix.SIGUSR1)
		f.caught(unix.SIGUSR1)
	}
	press("\x03", unix.SIGINT)
	press("\x1c", unix.SIGQUIT)
	press("\x03", unix.SIGINT)
	check(t, unix.IoctlSetWinsize(int(keyboard.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 10, Col: 20}))
	f.caught(unix.SIGWINCH)
	f.signal(unix.SIGTERM)
	f.caught(unix.SIGTERM)
	f.end(42)
}

// The terminal cannot have sent the signal to a child that did not exist yet.
func TestAnInterruptBeforeTheStartIsPassedOn(t *testing.T) {
	_, tty := terminal(t)
	f := newFamily(t, self(t))
	f.cmd.Env = append(f.cmd.Env, roleVar+"=hasty parent")
	f.onTerminal(tty)
	f.start()
	f.end(128 + int(unix.SIGINT))
}

func TestInTheBackgroundOfATerminalSignalsArePassedOn(t *testing.T) {
	_, tty := terminal(t)
	f := newFamily(t, "sh", "-c", `set -m; "$@" & wait $!`, "sh", self(t), self(t))
	f.onTerminal(tty)
	f.start()
	f.ready()
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGQUIT, unix.SIGWINCH, unix.SIGTERM} {
		f.signal(sig)
		f.caught(sig)
	}
	f.end(42)
}

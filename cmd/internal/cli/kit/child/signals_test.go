//go:build unix

package child

import (
	"bytes"
	"os/signal"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSignalsArePassedOn(t *testing.T) {
	f := newFamily(t, self(t), self(t))
	f.start()
	f.ready()
	for _, sig := range []unix.Signal{
		unix.SIGINT, unix.SIGINT, unix.SIGQUIT, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2, unix.SIGCONT,
		unix.SIGWINCH, unix.SIGTERM,
	} {
		if signal.Ignored(sig) { // under nohup, for example
			continue
		}
		f.signal(sig)
		f.caught(sig)
	}
	f.end(42)
}

func TestASignalThatEndsTheChild(t *testing.T) {
	f := newFamily(t, self(t), "sh", "-c", `echo ready $PPID; exec cat`)
	stdin, err := f.cmd.StdinPipe()
	check(t, err)
	defer stdin.Close()
	f.start()
	f.ready()
	f.signal(unix.SIGTERM)
	f.end(128 + int(unix.SIGTERM))
}

func TestIgnoredSignalsStayIgnored(t *testing.T) {
	f := newFamily(t, "sh", "-c", `trap "" HUP INT; exec "$@"`, "sh",
		self(t), "sh", "-c", `for s in HUP INT; do kill -$s $PPID; kill -$s $$; done; exit 5`)
	f.start()
	f.end(5)
}

func TestTheChildDiesOfSIGPIPE(t *testing.T) {
	var talk bytes.Buffer
	c := shell(`(yes; echo $? >&2) | head -n 1`)
	c.Stderr = &talk
	if code, err := Run(c); code != 0 || err != nil {
		t.Errorf("%d, %v", code, err)
	}
	if talk.String() != "141\n" {
		t.Errorf("yes ended with %q, want 141", talk.String())
	}
}

func TestClosedOutputDoesNotEndTheParent(t *testing.T) {
	f := newFamily(t, self(t), "sh", "-c", `echo report >&3; exit 6`)
	f.cmd.Env = append(f.cmd.Env, fdVar+"=3")
	r, w := pipe(t)
	check(t, r.Close())
	f.cmd.Stdout = w
	f.settled(f.cmd.Run(), 6)
}

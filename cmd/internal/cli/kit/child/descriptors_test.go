//go:build unix

package child

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// openInChild returns the open descriptors of a shell that runs with a ReportFD.
func openInChild(t *testing.T, fd int) []string {
	t.Helper()
	var out bytes.Buffer
	c := shell(`ls /proc/$$/fd; exit 0`)
	c.Stdout = &out
	c.ReportFD, c.Report = fd, func(string) {}
	if code, err := Run(c); code != 0 || err != nil {
		t.Fatalf("%d, %v", code, err)
	}
	fds := strings.Fields(out.String())
	slices.Sort(fds)
	return fds
}

func TestTheChildHasNoOtherDescriptors(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc")
	}
	ours, err := os.Open(os.DevNull) // must not reach the child
	check(t, err)
	defer ours.Close()
	for _, fd := range []int{0, 3, 5, 9, 63} {
		want := []string{"0", "1", "2"}
		for i := range 256 {
			flags, err := unix.FcntlInt(uintptr(i), unix.F_GETFD, 0)
			if i > 2 && (i == fd || err == nil && flags&unix.FD_CLOEXEC == 0) {
				want = append(want, fmt.Sprint(i))
			}
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, openInChild(t, fd)); diff != "" {
			t.Errorf("ReportFD %d: %s", fd, diff)
		}
	}
}

// Descriptors that a script opened for the child stay open if the child reports on
// a higher one.
func TestInheritedDescriptorsAreKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kept")
	f := newFamily(t, "sh", "-c", `exec 4>"$0"; exec "$@"`, file,
		self(t), "sh", "-c", `echo kept >&4 && echo >&6 && exit 8`)
	f.cmd.Env = append(f.cmd.Env, fdVar+"=6")
	f.start()
	if !f.stdout.Scan() || f.stdout.Text() != "report: " {
		t.Errorf("reported %q", f.stdout.Text())
	}
	f.end(8)
	if got, err := os.ReadFile(file); string(got) != "kept\n" || err != nil {
		t.Errorf("the file has %q, %v", got, err)
	}
}

func openHere(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/dev/fd")
	check(t, err)
	return len(entries)
}

func TestNothingIsLeftBehind(t *testing.T) {
	once := func() {
		for _, script := range []string{"echo hello >&5; exit 0", "kill -KILL $$"} {
			c := shell(script)
			c.Stdin, c.Stdout = strings.NewReader("in"), &bytes.Buffer{}
			c.ReportFD, c.Report = 5, func(string) {}
			if _, err := Run(c); err != nil {
				t.Error(err)
			}
		}
		if _, err := Run(Command{Args: []string{"true", "\x00"}, ReportFD: 5, Report: func(string) {}}); err == nil {
			t.Error("an argument that cannot be passed was")
		}
	}
	once() // creates what stays for the process
	files, routines := openHere(t), runtime.NumGoroutine()
	for range 50 {
		once()
	}
	if got := openHere(t); got > files {
		t.Errorf("%d descriptors are open, %d before", got, files)
	}
	// A goroutine that has signalled its end may still be running.
	for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > routines; {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), routines)
		}
		runtime.Gosched()
	}
}

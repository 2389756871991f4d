//go:build unix

package child

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// reported runs a script and returns the lines it wrote to that descriptor.
func reported(t *testing.T, fd int, script string) []string {
	t.Helper()
	var lines []string
	c := shell(script)
	c.Stderr = os.Stderr
	c.ReportFD, c.Report = fd, func(line string) { lines = append(lines, line) }
	if code, err := Run(c); code != 0 || err != nil {
		t.Errorf("%s: %d, %v", script, code, err)
	}
	return lines
}

func TestLinesArriveInOrder(t *testing.T) {
	const n = 30_000 // more than a pipe holds
	var want []string
	for i := range n {
		want = append(want, strconv.Itoa(i+1))
	}
	got := reported(t, 3, fmt.Sprintf("seq %d >&3", n))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", MaxLine)
	for script, want := range map[string][]string{
		`true`:                             nil,
		`printf 'a\n\nb' >&3`:              {"a", "", "b"},
		`(echo a >&3); sh -c 'echo b' >&3`: {"a", "b"},
		`{ head -c 200000 /dev/zero | tr '\0' x; echo; echo next; } >&3`:        {long, "next"},
		fmt.Sprintf(`{ head -c %d /dev/zero | tr '\0' x; echo; } >&3`, MaxLine): {long},
	} {
		if diff := cmp.Diff(want, reported(t, 3, script)); diff != "" {
			t.Errorf("%s: %s", script, diff)
		}
	}
}

func TestAnyDescriptor(t *testing.T) {
	for _, fd := range []int{3, 4, 5, 9, 63} {
		got := reported(t, fd, fmt.Sprintf("echo hello > /dev/fd/%d", fd))
		if diff := cmp.Diff([]string{"hello"}, got); diff != "" {
			t.Errorf("%d: %s", fd, diff)
		}
	}
}

// Run does not wait for a process that is left behind, and later writes of it
// fail. Its stdin triggers the write.
func TestAGrandchildKeepsTheDescriptor(t *testing.T) {
	in, tell := pipe(t)
	answer, out := pipe(t)
	var lines []string
	c := shell(`trap "" PIPE
		exec 4<&0
		echo one >&3
		(read x; echo two >&3 || echo refused) <&4 2>/dev/null &`)
	c.Stdin, c.Stdout = in, out
	c.ReportFD, c.Report = 3, func(line string) { lines = append(lines, line) }
	if code, err := Run(c); code != 0 || err != nil {
		t.Errorf("%d, %v", code, err)
	}
	_, err := tell.WriteString("now\n")
	check(t, err)
	text := make([]byte, 100)
	n, err := answer.Read(text)
	if got := string(text[:n]); got != "refused\n" || err != nil {
		t.Errorf("the grandchild says %q, %v", got, err)
	}
	if diff := cmp.Diff([]string{"one"}, lines); diff != "" {
		t.Error(diff)
	}
}

func TestAGrandchildThatReportsForever(t *testing.T) {
	answer, out := pipe(t)
	n := 0
	c := shell(`(yes >&3; echo $?) &`)
	c.Stdout = out
	c.ReportFD, c.Report = 3, func(string) { n++ }
	if code, err := Run(c); code != 0 || err != nil {
		t.Errorf("%d, %v", code, err)
	}
	text := make([]byte, 100)
	size, err := answer.Read(text)
	if got := string(text[:size]); got != "141\n" || err != nil {
		t.Errorf("yes ended with %q, %v after %d lines, want 141", got, err, n)
	}
}

// late returns a report after its deadline, whose pipe is still open for writing.
func late(t *testing.T, line func(string)) (r *report, end *os.File) {
	t.Helper()
	r, err := openReport(3, line)
	check(t, err)
	check(t, r.pipe.SetReadDeadline(time.Unix(1, 0)))
	end, r.files = r.files[0], nil
	t.Cleanup(func() { end.Close() })
	return r, end
}

// What the pipe holds at the deadline was written in time. While the pipe is open,
// an unfinished line may still go on, so it does not count.
func TestTimeIsUpWhileThereIsMoreToRead(t *testing.T) {
	for closed, want := range map[bool][]string{
		true:  {"one", "two", "three"},
		false: {"one", "two"},
	} {
		var got []string
		r, end := late(t, func(line string) { got = append(got, line) })
		_, err := end.WriteString("one\ntwo\nthree")
		check(t, err)
		if closed {
			check(t, end.Close())
		}
		r.listen()
		r.reading.Wait()
		r.close()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("closed %t: %s", closed, diff)
		}
	}
}

func TestTimeIsUpWhileMoreIsWritten(t *testing.T) {
	const enough = 2 * maxPipe
	var end *os.File
	read := 0
	more := func() {
		if _, err := end.WriteString(strings.Repeat("x", 999) + "\n"); err != nil {
			t.Error(err)
		}
	}
	r, end := late(t, func(line string) {
		if read += len(line); read < enough {
			more()
		}
	})
	more()
	r.listen()
	r.reading.Wait()
	r.close()
	if read >= enough {
		t.Error("reads on as long as there is something")
	}
}

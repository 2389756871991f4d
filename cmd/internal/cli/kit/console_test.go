package kit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

func TestConfirm(t *testing.T) {
	for _, answered := range []struct {
		answer string
		want   error
	}{
		{"y\n", nil},
		{"Y\n", nil},
		{" yes \n", nil},
		{"yes", nil},
		{"\n", errNotConfirmed},
		{"n\n", errNotConfirmed},
		{"", errNotConfirmed},
		{"yesterday\n", errNotConfirmed},
		{"no\ny\n", errNotConfirmed},
	} {
		answer, want := answered.answer, answered.want
		var talk bytes.Buffer
		c := &Console{In: strings.NewReader(answer), Err: &talk, CanAsk: true}
		if err := c.Ask(context.Background(), "Sure?"); !errors.Is(err, want) || err != nil &&
			ExitCode(err) != ExitFailed {
			t.Errorf("%q: %v, want %v", answer, err, want)
		}
		if !strings.HasPrefix(talk.String(), "Sure? [y/N]: ") {
			t.Errorf("asked %q", &talk)
		}
		if end := strings.HasSuffix(talk.String(), "\n"); end == strings.HasSuffix(answer, "\n") {
			t.Errorf("%q leaves %q on the screen", answer, &talk)
		}
	}
}

func TestConfirmWithoutATerminal(t *testing.T) {
	c := &Console{In: strings.NewReader("y\n"), Err: io.Discard}
	if err := c.Ask(context.Background(), "Sure?"); ExitCode(err) != ExitUsage {
		t.Errorf("got %v", err)
	}
	conn := &Connection{Console: c, Store: "memory:"}
	if err := conn.Confirm(context.Background(), true, "Sure"); err != nil {
		t.Errorf("with --yes: %v", err)
	}
}

func TestInterruptedPrompt(t *testing.T) {
	silent, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var talk bytes.Buffer
	c := &Console{In: silent, Err: &talk, CanAsk: true}
	err := c.Ask(ctx, "Sure?")
	if !errors.Is(err, errNotConfirmed) || ExitCode(err) != ExitFailed ||
		Message(err) != "interrupted: not confirmed, so nothing was changed" {
		t.Errorf("got %v", err)
	}
	if talk.String() != "Sure? [y/N]: \n" {
		t.Errorf("the screen has %q", &talk)
	}
}

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var talk bytes.Buffer
		c := &Console{Err: &talk, ErrTerminal: true, ErrWidth: 20}
		rows := func(yield func(int, error) bool) {
			for i := range 3 {
				time.Sleep(400 * time.Millisecond)
				if !yield(i, nil) {
					return
				}
			}
		}
		counted, stop := Watch(c, rows)
		all, err := Collect(counted)
		stop()
		stop()
		if err != nil || !slices.Equal(all, []int{0, 1, 2}) {
			t.Errorf("got %v, %v", all, err)
		}
		shown := strings.Split(talk.String(), "\r")
		if !slices.Contains(shown, "reading: 1 rows\x1b[K") || !slices.Contains(shown, "reading: 2 rows\x1b[K") ||
			shown[len(shown)-1] != "\x1b[K" {
			t.Errorf("shown: %q", shown)
		}
	})
}

func TestProgressIsSilentWhereItWouldDisturb(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var talk bytes.Buffer
		c := &Console{Err: &talk, ErrWidth: 80}
		stop := c.Progress(func() string { return "working" })
		time.Sleep(time.Minute)
		stop()
		c.ErrTerminal = true
		stop = c.Progress(func() string { return "working" })
		time.Sleep(ProgressAfter / 2) // before progress is shown
		stop()
		if talk.Len() > 0 {
			t.Errorf("shown: %q", &talk)
		}
	})
}

func TestFirstRows(t *testing.T) {
	broken := errors.New("broken")
	rows := func(yield func(int, error) bool) {
		for i := range 3 {
			if !yield(i, nil) {
				return
			}
		}
		yield(0, broken)
	}
	for n, want := range map[int]struct {
		rows []int
		last int // argument of more; -1 if it is not called
		err  error
	}{1: {[]int{0}, 0, nil}, 2: {[]int{0, 1}, 1, nil}, 3: {nil, -1, broken}, 0: {nil, -1, broken}} {
		last := -1
		got, err := Collect(jsonview.First(rows, n, func(v int) { last = v }))
		if !slices.Equal(got, want.rows) || last != want.last || !errors.Is(err, want.err) {
			t.Errorf("%d: %v, last %d, %v", n, got, last, err)
		}
	}
}

// TestThrottledNamesEachSubject reports the same subject and others within a second,
// and more of them than a screen has room for.
func TestThrottledNamesEachSubject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		throttled := Throttled{Warn: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }}
		report := func(subject, text string) { throttled.ReportOf(subject, errors.New(text)) }
		report("a", "a1")
		report("a", "a2")
		time.Sleep(time.Second - time.Nanosecond)
		report("b", "b1")
		report("b", "b2")
		time.Sleep(time.Nanosecond)
		report("a", "a3")
		throttled.Report(errors.New("other"))
		for i := range 2 * throttledSubjects {
			report(fmt.Sprint(i), "invented")
		}
		want := append([]string{"a1", "b1; 1 error before it not shown", "a3; 1 error before it not shown", "other"},
			slices.Repeat([]string{"invented"}, throttledSubjects-2)...)
		if diff := cmp.Diff(want, said); diff != "" {
			t.Errorf("warnings (-want +got):\n%s", diff)
		}
	})
}

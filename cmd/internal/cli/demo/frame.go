package demo

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
)

// frame is the state of the demo at one moment, as displays show it.
type frame struct {
	Store             string
	Seed              uint64
	Elapsed, Duration time.Duration
	Totals            totals
	Rows              []row
	Events            []event // since the frame before, oldest first
	SettingUp         bool    // before the first call and the start of the clock
}

// row is one bucket.
type row struct {
	Entity, Model     string
	Key               bool // a key, not a project
	Gauges            []gauge
	Admitted, Refused int
	Retry             time.Duration // until refused calls may retry; zero is now
	RetryLimit        string
}

// gauge is one limit of a bucket.
type gauge struct {
	Limit     limiter.Limit
	Available int64 // whole tokens; negative is debt
}

// newRow returns the row of a bucket from a decision about it.
func newRow(at limiter.Scope, d limiter.Decision) row {
	r := row{Entity: at.Entity, Model: at.Resource}
	for _, s := range d.Statuses {
		if s.Entity == at.Entity {
			r.Gauges = append(r.Gauges, gauge{s.Limit, s.Available})
		} else {
			// A key has the statuses of its project, too.
			r.Key = true
		}
	}
	return r
}

// blank returns the frame before the store is open: its rows without numbers.
func blank(o options) frame {
	f := frame{Store: o.Store, Seed: o.Seed, Duration: o.Duration, SettingUp: true}

	project := map[string]bool{}
	for _, k := range keys() {
		project[k.project] = true
	}

	for _, at := range buckets() {
		f.Rows = append(f.Rows, row{Entity: at.Entity, Model: at.Resource, Key: !project[at.Entity]})
	}
	return f
}

// setting returns the store and the seed, with which the run can be repeated.
func (f frame) setting() string { return fmt.Sprintf("%s, seed %d", f.Store, f.Seed) }

// clock returns the progress of the demo.
func (f frame) clock() string {
	if f.SettingUp {
		return "setting up"
	}

	// No call arrives after Duration, but calls under way still end.
	if f.Elapsed >= f.Duration {
		return fmt.Sprintf("%d calls to finish", f.Totals.Working)
	}

	return fmt.Sprintf("%s of %s", seconds(f.Elapsed.Truncate(100*time.Millisecond)), f.Duration)
}

func (t totals) String() string {
	return fmt.Sprintf("calls %d   admitted %d   refused %d   waiting %d   gave up %d   rolled back %d",
		t.Calls, t.Admitted, t.Refused, t.Waiting, t.GaveUp, t.RolledBack)
}

// compact formats a number in at most five characters: 950, 4.2k, -12k.
func compact(n int64) string {
	switch size := max(n, -n); {
	case size < 1000:
		return strconv.FormatInt(n, 10)
	case size < 10_000 && n%1000 != 0:
		return strconv.FormatFloat(float64(n/100)/10, 'f', 1, 64) + "k"
	}
	return strconv.FormatInt(n/1000, 10) + "k"
}

// seconds formats a duration in seconds: 1.2s, or 0.05s below a tenth.
func seconds(d time.Duration) string {
	if d < 100*time.Millisecond {
		return fmt.Sprintf("%.2fs", d.Seconds())
	}
	return fmt.Sprintf("%.1fs", d.Seconds())
}

// lines is a display that prints a line for each event and, once a second, the
// totals.
type lines struct {
	out    io.Writer
	begun  bool
	second time.Duration // when to print the totals next
}

func (l *lines) show(f frame) error {
	// A store that cannot be opened causes no output.
	if f.SettingUp {
		return nil
	}

	if !l.begun {
		l.begun, l.second = true, time.Second
		if _, err := fmt.Fprintf(
			l.out, "zae-limiter demo: a small LLM gateway for %s on %s\n", f.Duration, f.setting(),
		); err != nil {
			return err
		}
	}

	for _, e := range f.Events {
		if _, err := fmt.Fprintln(l.out, e.line(false)); err != nil {
			return err
		}
	}

	if f.Elapsed < l.second {
		return nil
	}

	l.second = f.Elapsed.Truncate(time.Second) + time.Second
	_, err := fmt.Fprintf(l.out, "%s  %s\n", tty.Right(seconds(f.Elapsed), 5), f.Totals)
	return err
}

func (l *lines) close() error { return nil }

package loadtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

// view shows a test as it runs: a table on a terminal, else lines on stderr.
type view struct {
	*kit.Console
	about    loadtest.Report // without a result
	scenario string
	length   time.Duration
	interval time.Duration
	screen   *tty.Screen // nil for lines

	// mu guards the fields below, since a report and a phase may come at once.
	mu      sync.Mutex
	running bool   // users run, so that frames are drawn
	stop    func() // ends the progress of a phase
}

// slowPhase is how long a phase takes before it is worth a line.
const slowPhase = 2 * time.Second

func (o *localOptions) newLoadView(about loadtest.Report, s loadtest.Scenario) *view {
	v := &view{
		Console: o.Console, about: about, scenario: s.Name, length: o.length(s), interval: time.Second,
		stop: func() {},
	}
	// Frames are drawn on stdout, where JSON and lines must stand alone.
	if !o.json && o.output == "" {
		v.screen = tty.OpenScreen(o.File)
	}
	// A line a second would be too many in the log of a long test.
	if v.screen == nil && v.length > 2*time.Minute {
		v.interval = 5 * time.Second
	}

	return v
}

// begin reports that a phase of the test begins.
func (v *view) begin(phase string) {
	v.mu.Lock()
	defer v.mu.Unlock()

	v.stop()
	v.stop = func() {}
	v.running = phase == loadtest.PhaseRunning

	if !v.running && v.screen != nil {
		// An error of the screen shows at the next frame or in the report.
		_ = v.screen.Close()
	}

	text := map[string]string{
		loadtest.PhaseSetup:    "setting up the limits and entities of " + v.scenario,
		loadtest.PhaseStopping: "waiting for the last calls to end",
		loadtest.PhaseTeardown: "removing the namespace of the test",
	}[phase]

	switch {
	case text == "" && v.screen != nil:
		// The frames name the test, too.
		return
	case text == "":
		v.Say("running %s: %s, for %s, on %s", v.scenario, v.about.Load, shortLength(v.length), v.about.Store)
		return
	}

	start := time.Now()
	if v.ErrTerminal {
		v.stop = v.Progress(func() string { return text + ": " + tty.Duration(time.Since(start)) })
		return
	}

	v.stop = v.sayLater(text)
}

// sayLater writes a message after a while, unless stop is called before. Nothing
// is written after stop.
func (v *view) sayLater(text string) (stop func()) {
	end := make(chan struct{})

	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-end:
		case <-time.After(slowPhase):
			v.Say("%s", text)
		}
	})
	return sync.OnceFunc(func() { close(end); wg.Wait() })
}

// close ends what the view shows.
func (v *view) close() {
	v.mu.Lock()
	defer v.mu.Unlock()

	v.stop()
	v.running = false
	if v.screen != nil {
		// An error of the screen shows in the report, which follows on the same
		// stream.
		_ = v.screen.Close()
	}
}

// show shows a snapshot.
func (v *view) show(s loadtest.Snapshot) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.screen == nil {
		v.Say("%s", snapshotLine(s))
		return
	}
	// A snapshot can come after the end of the phase, and a frame would
	// overwrite the next one's progress.
	if !v.running {
		return
	}

	width, height := v.screen.Size()

	// An error of the screen shows in the report, which follows on the same
	// stream.
	_ = v.screen.Draw(v.frame(s, width, height-1))
}

// snapshotLine returns a snapshot as one line.
func snapshotLine(s loadtest.Snapshot) string {
	parts := []string{
		fmt.Sprintf("%4.0fs", s.Elapsed.Seconds()), "users " + tty.Number(int64(s.Users)),
		loadtest.Rate(s.Total.PerSecond) + "/s",
		"p50 " + loadtest.Latency(s.Total.P50), "p95 " + loadtest.Latency(s.Total.P95),
		"p99 " + loadtest.Latency(s.Total.P99),
		"admitted " + tty.Number(s.Admitted), "refused " + tty.Number(s.Refused), "failed " + failureText(s),
	}

	if s.Late > 0 || s.Waiting > 0 {
		parts = append(parts, lateText(s))
	}

	parts = append(parts, costTexts(s)...)
	return strings.Join(parts, "  ")
}

// failureText returns the number of failed calls, their share, and how many there
// are of each kind.
func failureText(s loadtest.Snapshot) string {
	if s.Total.Failures == 0 {
		return "0"
	}

	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(s.Failures)) {
		kinds = append(kinds, kind+" "+tty.Number(s.Failures[kind]))
	}

	return fmt.Sprintf("%s (%.2f %%): %s", tty.Number(s.Total.Failures),
		100*share(s.Total.Failures, s.Total.Requests), strings.Join(kinds, ", "))
}

func lateText(s loadtest.Snapshot) string {
	return "late " + tty.Number(s.Late) + "  waiting " + tty.Number(s.Waiting)
}

// costs returns labels and values of what the test costs the store and this
// process.
func costs(s loadtest.Snapshot) (facts [][2]string) {
	if s.Usage != nil {
		acquires := float64(max(s.Admitted+s.Refused+s.Failed, 1))
		facts = append(facts, [2]string{"per acquire", fmt.Sprintf("%.2f requests, %.2f read and %.2f write units",
			float64(s.Usage.Requests)/acquires, s.Usage.ReadUnits/acquires, s.Usage.WriteUnits/acquires)})
	}

	if s.CPU > 0 && s.Elapsed > 0 {
		facts = append(facts, [2]string{"client CPU", fmt.Sprintf("%.0f %%", 100*s.CPU.Seconds()/s.Elapsed.Seconds())})
	}
	return facts
}

// costTexts returns each cost as a text.
func costTexts(s loadtest.Snapshot) (texts []string) {
	for _, fact := range costs(s) {
		texts = append(texts, fact[0]+" "+fact[1])
	}
	return texts
}

// frame draws a snapshot in at most height lines, none wider than width.
func (v *view) frame(s loadtest.Snapshot, width, height int) []string {
	name := "loadtest " + v.scenario

	clock := shortLength(s.Elapsed.Round(time.Second)) + " of " + shortLength(v.length)
	title := tty.Ellipsis("   "+v.about.Store+", "+v.about.Load, max(0, width-tty.Width(name)-tty.Width(clock)-1))
	lines := []string{
		v.Style.Bold(name) + v.Style.Dim(tty.Left(title, width-tty.Width(name)-tty.Width(clock))) + v.Style.Bold(clock),
	}

	counts := []string{
		"users " + tty.Number(int64(s.Users)), "admitted " + v.Style.Green(tty.Number(s.Admitted)),
		"refused " + v.Style.Yellow(tty.Number(s.Refused)),
	}
	// Failures, if there are any, have a line of their own with their kinds.
	if s.Total.Failures == 0 {
		counts = append(counts, "failed 0")
	}

	if s.Late > 0 || s.Waiting > 0 {
		counts = append(counts, lateText(s))
	}

	lines = append(lines, strings.Join(counts, "   "))

	if s.Total.Failures > 0 {
		lines = append(lines, v.Style.Red("failed "+failureText(s)))
	}

	if costs := costTexts(s); len(costs) > 0 {
		lines = append(lines, strings.Join(costs, "   "))
	}

	lines = append(lines, "")

	// Two lines are for the heading and the total.
	room := height - len(lines) - 2

	rows, hidden := s.Rows, 0
	// The number of hidden rows takes a line, too: in a room of 5 for 9 rows, 4
	// are shown and 5 are hidden.
	if len(rows) > room {
		hidden = len(rows) - max(room-1, 0)
		rows = rows[:len(rows)-hidden]
	}

	lines = append(lines, rowTable(append(slices.Clone(rows), s.Total), width, v.Style)...)
	if hidden > 0 {
		lines = append(lines, v.Style.Dim(fmt.Sprintf("%d more in the report", hidden)))
	}

	for i := range lines {
		lines[i] = tty.Ellipsis(lines[i], width)
	}

	return lines[:min(len(lines), max(height, 0))]
}

// rowTable lays out rows of calls, the total last.
func rowTable(rows []loadtest.Row, width int, style tty.Style) []string {
	columns := []tty.Column{
		{Title: "TYPE", Whole: true},
		{Title: "NAME"},
		{Title: "REQUESTS", Right: true, Whole: true},
		{Title: "REQ/S", Right: true, Whole: true},
		{Title: "AVG", Right: true, Whole: true, Spare: true},
		{Title: "P50", Right: true, Whole: true},
		{Title: "P95", Right: true, Whole: true},
		{Title: "P99", Right: true, Whole: true},
		{Title: "MAX", Right: true, Whole: true, Spare: true},
		{Title: "FAILED", Right: true, Whole: true},
	}

	cells := make([][]string, len(rows))
	for i, r := range rows {
		failures := tty.Number(r.Failures)
		if r.Failures > 0 {
			failures = style.Red(failures)
		}
		cells[i] = []string{
			r.Type, tty.Printable(r.Name), tty.Number(r.Requests), loadtest.Rate(r.PerSecond),
			loadtest.Latency(r.Average),
			loadtest.Latency(r.P50), loadtest.Latency(r.P95), loadtest.Latency(r.P99), loadtest.Latency(r.Max),
			failures,
		}
	}

	return tty.Table(columns, cells, width, style)
}

// shortLength formats a planned duration, such as 1m30s or 2h.
func shortLength(d time.Duration) string {
	text := d.String()

	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

package dynamo

import (
	"net/http"
	"testing"
	"time"
)

// sleep suspends the machine: its steady clock stands still.
func (w *clockWorld) sleep(d time.Duration) { w.table = w.table.Add(d) }

// hasStepped reports whether the next call would wait for a date because of a
// step.
func (w *clockWorld) hasStepped() bool {
	left, _ := w.unsettled(w.clocks())
	return left
}

// doubts reports whether the next call would wait for a second date.
func (w *clockWorld) doubts() bool {
	_, doubtful := w.unsettled(w.clocks())
	return doubtful
}

// inDoubt checks that a step leaves every call in doubt, and corrects nothing.
func (w *clockWorld) inDoubt(t *testing.T) {
	t.Helper()
	for range 2 {
		if !w.hasStepped() {
			t.Fatal("a call would not wait for a date")
		}
		uncorrected(t, w.correction(w.clocks()))
	}
	if _, _, known := w.estimate(w.clocks()); known {
		t.Error("the offset is known")
	}
}

// settled makes a request, and checks that its reply leaves no doubt.
func (w *clockWorld) settled(t *testing.T) {
	t.Helper()
	if w.reply(); w.hasStepped() || w.doubts() {
		t.Fatal("the reply settles nothing")
	}
}

// One reply shows that the clock was set.
func TestAStepOfTheMachinesClock(t *testing.T) {
	t.Parallel()
	w := newClockWorld(0).confirmed()
	uncorrected(t, w.correction(w.clocks()))
	w.ahead = 6 * time.Hour
	w.inDoubt(t)
	w.settled(t)
	w.run(t, time.Minute, 300*time.Millisecond, near(-6*time.Hour, time.Second))
	w.ahead = 0
	w.inDoubt(t)
	w.settled(t)
	w.run(t, time.Minute, 300*time.Millisecond, uncorrected)
}

// One date before the step and one after it agree about the table's time.
func TestAStepAfterOneDate(t *testing.T) {
	t.Parallel()
	w := newClockWorld(0)
	w.reply()
	w.pass(10 * time.Minute)
	w.ahead = 5 * time.Minute
	w.inDoubt(t)
	w.settled(t)
	near(-5*time.Minute, time.Second)(t, w.correction(w.clocks()))
}

// The steady clock stops while the machine sleeps. The date of the next reply
// shows that the machine's clock is as right or wrong as before.
func TestAMachineThatSleeps(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{0, 5 * time.Minute, -5 * time.Minute} {
		for _, slept := range []time.Duration{
			1100 * time.Millisecond, 1500 * time.Millisecond, 2 * time.Second, 3 * time.Second,
			10 * time.Second, time.Minute, 9 * time.Hour,
		} {
			for at := range 10 { // tenths of a second
				w := newClockWorld(ahead).confirmed()
				w.run(t, 5*time.Second, 90*time.Millisecond, func(*testing.T, time.Duration) {})
				w.pass(time.Duration(at) * 100 * time.Millisecond)
				w.sleep(slept)
				w.inDoubt(t)
				w.settled(t)
				check := uncorrected
				if ahead != 0 {
					check = near(-ahead, 1200*time.Millisecond)
				}
				w.run(t, 70*time.Second, 300*time.Millisecond, check)
			}
		}
	}
}

// The clock of a machine that wakes up is wrong in another way than before. A
// second date confirms it.
func TestAMachineThatWakesWithAnotherTime(t *testing.T) {
	t.Parallel()
	for _, before := range []time.Duration{0, 5 * time.Minute} {
		w := newClockWorld(before).confirmed()
		w.sleep(time.Hour)
		w.ahead = -20 * time.Minute
		w.inDoubt(t)
		w.reply()
		if w.hasStepped() || !w.doubts() {
			t.Error("one date suffices")
		}
		uncorrected(t, w.correction(w.clocks()))
		w.pass(nextDate)
		w.settled(t)
		w.run(t, time.Minute, 300*time.Millisecond, near(20*time.Minute, time.Second))
	}
}

// A reply that waited for the machine to wake up has a date from before.
func TestAReplyFromBeforeTheSleep(t *testing.T) {
	t.Parallel()
	w := newClockWorld(0).confirmed()
	sent, date := w.clocks(), w.table.Format(http.TimeFormat)
	w.pass(w.trip)
	early := w.clocks()
	w.sleep(time.Hour)
	w.observe(date, sent, w.clocks())
	w.inDoubt(t)
	w.settled(t)
	w.observe(date, sent, early) // another goroutine was slower
	if w.hasStepped() {
		t.Error("an older reply undoes a later one")
	}
	w.run(t, time.Minute, 300*time.Millisecond, uncorrected)
}

// Servers that contradict each other are not trusted sooner because of a step.
func TestAStepForgivesNoContradiction(t *testing.T) {
	t.Parallel()
	w := newClockWorld(5 * time.Minute).confirmed()
	w.skew = func(now time.Time) time.Time { return now.Add(time.Hour) }
	w.reply()
	w.skew = nil
	w.sleep(20 * time.Minute)
	w.reply()
	if w.doubts() {
		t.Error("a call would wait for a second date, which proves nothing")
	}
	w.run(t, 50*time.Second, 300*time.Millisecond, uncorrected)
}

// A date after a long time without any moves nothing far, unless another confirms
// it.
func TestOneDateAfterAnIdleHour(t *testing.T) {
	t.Parallel()
	lie := func(now time.Time) time.Time { return now.Add(5 * time.Minute) }
	for name, lies := range map[string]bool{"one date": false, "all dates": true} {
		w := newClockWorld(0).confirmed()
		w.pass(time.Hour)
		w.skew = lie
		w.reply()
		uncorrected(t, w.correction(w.clocks()))
		if !w.doubts() {
			t.Errorf("%s: no doubt", name)
		}
		if !lies {
			w.skew = nil
		}
		w.pass(nextDate)
		w.settled(t)
		if lies {
			near(5*time.Minute, time.Second)(t, w.correction(w.clocks()))
		} else {
			w.run(t, time.Minute, 300*time.Millisecond, uncorrected)
		}
	}
}

// A right clock is not moved past the guard by one date, however long nothing came
// before.
func TestOneDateNeverCorrectsARightClock(t *testing.T) {
	t.Parallel()
	for idle := 5 * time.Second; idle < 3*time.Hour; idle += idle / 3 {
		for lie := -20 * time.Second; lie <= 20*time.Second; lie += 100 * time.Millisecond {
			w := newClockWorld(0).confirmed()
			w.pass(idle)
			w.skew = func(now time.Time) time.Time { return now.Add(lie) }
			w.reply()
			uncorrected(t, w.correction(w.clocks()))
		}
	}
}

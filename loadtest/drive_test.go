package loadtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// simulatedMaster is a master whose test makes 10 requests a second.
type simulatedMaster struct {
	joined  time.Time // when all workers have connected
	began   time.Time
	ends    time.Time // when the test ends by itself
	stopped bool      // Drive stopped it
	fails   bool      // every poll fails after the start
	polls   int
	// age is how long the master repeats a response.
	age    time.Duration
	cached MasterStats
	at     time.Time // of the cached response
	// takes is how long the master takes to stop a test.
	takes time.Duration
}

func (m *simulatedMaster) stats(ctx context.Context) (MasterStats, error) {
	m.polls++
	if err := ctx.Err(); err != nil {
		return MasterStats{}, err
	}
	if !m.at.IsZero() && time.Since(m.at) <= m.age {
		return m.cached, nil
	}
	s, err := m.fresh()
	m.cached, m.at = s, time.Now()
	return s, err
}

func (m *simulatedMaster) fresh() (MasterStats, error) {
	s := *master("ready", 0)
	if !time.Now().Before(m.joined) {
		s = *master("ready", 0, "w0", "w1")
	}
	if m.began.IsZero() {
		return s, nil
	}
	if m.fails {
		return MasterStats{}, errors.New("connection refused")
	}
	until := time.Now()
	s.State = "running"
	if m.stopped || !until.Before(m.ends) {
		s.State = "stopped"
		if until.After(m.ends) {
			until = m.ends
		}
	}
	s.Rows = []MasterRow{{Name: "Aggregated", Requests: int64(10 * until.Sub(m.began).Seconds()), Failures: 3, P50: 4}}
	return s, nil
}

func (m *simulatedMaster) start(_ context.Context, t MasterTest) error {
	m.began = time.Now()
	if m.ends.IsZero() {
		m.ends = m.began.Add(t.Duration)
	}
	return nil
}

// stop lets the users run on until the master has stopped the test.
func (m *simulatedMaster) stop(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(m.takes):
	}
	m.stopped, m.ends = true, time.Now()
	return nil
}

func (m *simulatedMaster) options() DriveOptions {
	return DriveOptions{
		MasterTest: MasterTest{Users: 20, SpawnRate: 10, Duration: time.Minute}, Workers: 2, Stats: m.stats,
		Start: m.start, Stop: m.stop,
	}
}

// The rate is the number of requests by the duration, although the last response
// comes later.
func TestDrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		m := &simulatedMaster{joined: began.Add(12 * time.Second)}
		s, err := Drive(t.Context(), m.options())
		if err != nil || s.Requests != 600 || s.RPS != 10 || s.Failures != 3 || s.FailureRate != 0.005 || s.P50 != 4 {
			t.Errorf("%+v, %v", s, err)
		}
		if took := time.Since(began); took != (15+60+5)*time.Second || m.stopped {
			t.Errorf("it took %v", took)
		}
	})
}

func TestDriveEndsEarly(t *testing.T) {
	for _, test := range []struct {
		name     string
		prepare  func(*simulatedMaster)
		requests int64
		took     time.Duration
		want     string
		stopped  bool
	}{
		{
			"too few workers", func(m *simulatedMaster) { m.joined = time.Now().Add(time.Hour) },
			0, 5 * time.Minute, "0 of 2 workers have connected after 5m0s", false,
		},
		{"the master fails", func(m *simulatedMaster) {
			m.fails = true
		}, 0, 15*time.Second + 3*statsAge, "not responded 3 times: connection refused", true},
		{
			"the test does not end", func(m *simulatedMaster) { m.ends = time.Now().Add(time.Hour) },
			950, 95*time.Second + statsAge, "the test has not ended after 1m32s; its state is running", true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, m := time.Now(), &simulatedMaster{}
				test.prepare(m)
				s, err := Drive(t.Context(), m.options())
				if err == nil || !strings.Contains(err.Error(), test.want) || s.Requests != test.requests ||
					m.stopped != test.stopped {
					t.Errorf("%v, %+v, stopped %v; want %s", err, s, m.stopped, test.want)
				}
				if took := time.Since(began); took != test.took {
					t.Errorf("it took %v, want %v", took, test.took)
				}
			})
		})
	}
}

func TestInterruptedDriveStopsTheTest(t *testing.T) {
	for _, after := range []time.Duration{time.Second, 23 * time.Second} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), after)
				defer cancel()
				m := &simulatedMaster{}
				s, err := Drive(ctx, m.options())
				if err != nil || !m.stopped || s.Requests != int64(10*after.Seconds()) || s.RPS != 10 {
					t.Errorf("%+v, %v, stopped %v; want what was measured up to then", s, err, m.stopped)
				}
			})
		})
	}
}

// A master may repeat a response from before the stop, and may take long to stop.
func TestInterruptedDriveCountsTheLastRequests(t *testing.T) {
	for _, takes := range []time.Duration{0, time.Second, 2 * time.Minute} {
		t.Run(fmt.Sprint(takes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const after = 21500 * time.Millisecond // a poll at 20 s is repeated at 21.5 s
				ctx, cancel := context.WithTimeout(t.Context(), after)
				defer cancel()
				m := &simulatedMaster{age: 2 * time.Second, takes: takes}
				o := m.options()
				o.Duration = time.Hour
				o.Warn = func(err error) { t.Error(err) }
				s, err := Drive(ctx, o)
				if want := int64(10 * (after + takes).Seconds()); err != nil || s.Requests != want {
					t.Errorf("%+v, %v; want %d requests", s, err, want)
				}
			})
		})
	}
}

// A test that cannot be stopped ends with a warning and the last response.
func TestInterruptedDriveWarns(t *testing.T) {
	for _, test := range []struct {
		name    string
		prepare func(*simulatedMaster, *DriveOptions)
		took    time.Duration
		want    string
	}{
		{
			"the master takes too long", func(m *simulatedMaster, _ *DriveOptions) { m.takes = time.Hour },
			stopWithin, "the master did not stop the test, so its last requests are not counted: context " +
				"deadline exceeded",
		},
		{
			"the master fails", func(_ *simulatedMaster, o *DriveOptions) {
				o.Stop = func(context.Context) error { return errors.New("connection refused") }
			}, 0, "the master did not stop the test, so its last requests are not counted: connection refused",
		},
		{
			"the test runs on", func(_ *simulatedMaster, o *DriveOptions) {
				o.Stop = func(context.Context) error { return nil }
			}, lastWithin, "the master has no final statistics, so the last requests are not counted: the " +
				"state of the test is running after 30s",
		},
		{
			"no statistics after the stop", func(m *simulatedMaster, o *DriveOptions) {
				o.Stop = func(context.Context) error { m.fails = true; return nil }
			}, 3 * statsAge, "the master has no final statistics, so the last requests are not counted: " +
				"connection refused",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 23*time.Second)
				defer cancel()
				m := &simulatedMaster{}
				o := m.options()
				o.Duration = time.Hour
				var warned string
				o.Warn = func(err error) { warned += err.Error() }
				test.prepare(m, &o)
				s, err := Drive(ctx, o)
				if err != nil || s.Requests < 200 || warned != test.want {
					t.Errorf("%+v, %v, warning %q; want %q", s, err, warned, test.want)
				}
				if took := time.Since(began); took != 23*time.Second+test.took {
					t.Errorf("it took %v, want %v after the interrupt", took, test.took)
				}
			})
		})
	}
}

func TestInterruptedWaitForWorkersStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		m := &simulatedMaster{joined: time.Now().Add(time.Hour)}
		if _, err := Drive(ctx, m.options()); !errors.Is(err, context.DeadlineExceeded) || !m.began.IsZero() {
			t.Error(err)
		}
	})
}

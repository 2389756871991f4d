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
}

func (m *simulatedMaster) stats(ctx context.Context) (MasterStats, error) {
	m.polls++
	if err := ctx.Err(); err != nil {
		return MasterStats{}, err
	}
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

func (m *simulatedMaster) stop(context.Context) error {
	m.stopped, m.ends = true, time.Now()
	return nil
}

func (m *simulatedMaster) options() DriveOptions {
	return DriveOptions{MasterTest: MasterTest{Users: 20, SpawnRate: 10, Duration: time.Minute}, Workers: 2, Stats: m.stats, Start: m.start, Stop: m.stop}
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
		{"the master fails", func(m *simulatedMaster) { m.fails = true }, 0, 15 * time.Second, "not responded 3 times: connection refused", true},
		{
			"the test does not end", func(m *simulatedMaster) { m.ends = time.Now().Add(time.Hour) },
			950, 95 * time.Second, "the test has not ended after 1m32s; its state is running", true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, m := time.Now(), &simulatedMaster{}
				test.prepare(m)
				s, err := Drive(t.Context(), m.options())
				if err == nil || !strings.Contains(err.Error(), test.want) || s.Requests != test.requests || m.stopped != test.stopped {
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

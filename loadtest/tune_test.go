package loadtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
)

// worker returns a measure function for a worker whose median latency follows
// from the number of users. It makes perSecond requests for each user.
func worker(
	latency func(users int) time.Duration, perSecond float64, runs *[]string,
) func(context.Context, int, time.Duration) (Measurement, error) {
	return func(_ context.Context, users int, d time.Duration) (Measurement, error) {
		*runs = append(*runs, fmt.Sprint(users, " for ", d))
		p50 := latency(users)
		return Measurement{
			Requests: int64(perSecond * d.Seconds() * float64(users)), RPS: perSecond * float64(users),
			P50: p50, P95: 2 * p50, P99: 3 * p50,
		}, nil
	}
}

// saturating returns the latency of a worker that is overloaded beyond knee users.
func saturating(knee int) func(int) time.Duration {
	return func(users int) time.Duration {
		return 10*time.Millisecond + time.Duration(max(0, users-knee))*time.Millisecond
	}
}

func TestTuneFindsTheLastEfficientNumberOfUsers(t *testing.T) {
	for _, test := range []struct {
		name    string
		latency func(int) time.Duration
		opts    TuneOptions
		optimum int
		runs    []string
	}{
		{"always efficient", saturating(100), TuneOptions{}, 40, []string{"1 for 1m0s", "40 for 30s"}},
		{"one user at most", saturating(1), TuneOptions{MaxUsers: 1}, 1, []string{"1 for 1m0s"}},
		{
			"a knee", saturating(10),
			TuneOptions{},
			12,
			[]string{"1 for 1m0s", "40 for 30s", "11 for 30s", "16 for 30s", "13 for 30s", "12 for 30s"},
		},
		{"never efficient", func(users int) time.Duration {
			return time.Duration(users) * 10 * time.Millisecond
		}, TuneOptions{MaxUsers: 3}, 1, []string{"1 for 1m0s", "3 for 30s", "2 for 30s"}},
		{
			"durations are honoured", saturating(1),
			TuneOptions{MaxUsers: 2, Threshold: 0.95, StepDuration: 7 * time.Second, BaselineDuration: 9 * time.Second},
			1,
			[]string{"1 for 9s", "2 for 7s"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var runs []string
			got, err := Tune(t.Context(), worker(test.latency, 100, &runs), &test.opts)
			if err != nil || got.Optimum.Users != test.optimum {
				t.Errorf("optimum %d, %v; want %d", got.Optimum.Users, err, test.optimum)
			}
			if diff := cmp.Diff(test.runs, runs); diff != "" {
				t.Error(diff)
			}
			if len(got.Steps) != len(runs) || !got.Steps[0].Baseline {
				t.Errorf("steps: %+v", got.Steps)
			}
		})
	}
}

// Every knee below the maximum is found, in a number of invocations that is far
// below that of trying each number of users.
func TestTuneNeedsFewInvocations(t *testing.T) {
	total := 0
	for knee := 1; knee <= 38; knee++ {
		var runs []string
		got, err := Tune(t.Context(), worker(saturating(knee), 100, &runs), nil)
		want := min(40, knee+2) // 10 ms / 12 ms is above 0.8, 10 ms / 13 ms is not
		if err != nil || got.Optimum.Users != want {
			t.Errorf("knee at %d: optimum %d, %v; want %d", knee, got.Optimum.Users, err, want)
		}
		if len(runs) > 12 {
			t.Errorf("knee at %d: %d invocations: %q", knee, len(runs), runs)
		}
		total += len(runs)
	}
	if mean := float64(total) / 38; mean > 7.5 {
		t.Errorf("%.1f invocations on average, want 6 to 7", mean)
	}
}

// A step with many failures is not efficient, however quick they return.
func TestTuneCountsFailures(t *testing.T) {
	for _, test := range []struct {
		fails   int64 // of 5000, beyond 12 users
		optimum int
	}{{5000, 12}, {51, 12}, {50, 40}} {
		got, err := Tune(t.Context(), func(_ context.Context, users int, _ time.Duration) (Measurement, error) {
			m := Measurement{Requests: 5000, P50: 10 * time.Millisecond}
			if users > 12 {
				m.Failures, m.P50 = test.fails, time.Millisecond
			}
			return m, nil
		}, nil)
		if err != nil || got.Optimum.Users != test.optimum || len(got.Steps) > 8 {
			t.Errorf("%d failures: optimum %d after %d steps, %v; want %d", test.fails, got.Optimum.Users,
				len(got.Steps), err, test.optimum)
		}
	}
}

func TestTuneRefusesABaselineWithFailures(t *testing.T) {
	got, err := Tune(t.Context(), func(context.Context, int, time.Duration) (Measurement, error) {
		return Measurement{Requests: 600, Failures: 3, P50: time.Millisecond}, nil
	}, nil)
	bad, ok := errors.AsType[*BaselineError](err)
	if !ok || *bad != (BaselineError{600, 3}) || len(got.Steps) != 1 {
		t.Errorf("%v after %d steps", err, len(got.Steps))
	}
}

func TestBaselineGrowsUntilItHasEnoughRequests(t *testing.T) {
	for _, test := range []struct {
		name      string
		perSecond float64
		most      time.Duration
		runs      []string
	}{
		{"enough", 2, 0, []string{"1 for 1m0s", "1 for 30s"}},
		{"a third", 0.6, 0, []string{"1 for 1m0s", "1 for 3m0s", "1 for 30s"}},
		{"up to the limit", 0.1, 4 * time.Minute, []string{"1 for 1m0s", "1 for 4m0s", "1 for 30s"}},
		{"none", 0, 3 * time.Minute, []string{"1 for 1m0s", "1 for 2m0s", "1 for 3m0s", "1 for 30s"}},
		{"a limit below the baseline", 0.1, 30 * time.Second, []string{"1 for 30s", "1 for 30s"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var runs []string
			measure := worker(saturating(9), test.perSecond, &runs)
			// The step with one user stands for every later one.
			_, err := Tune(t.Context(), func(ctx context.Context, users int, d time.Duration) (Measurement, error) {
				return measure(ctx, min(users, 1), d)
			}, &TuneOptions{MaxDuration: test.most})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.runs, runs); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTuneEndsWithAnError(t *testing.T) {
	var runs []string
	none := func(int) time.Duration { return 0 }
	if got, err := Tune(
		t.Context(), worker(none, 100, &runs), nil,
	); !errors.Is(err, ErrNoLatency) || len(got.Steps) != 1 {
		t.Errorf("%v after %d steps", err, len(got.Steps))
	}
	broken := errors.New("broken")
	calls := 0
	got, err := Tune(t.Context(), func(context.Context, int, time.Duration) (Measurement, error) {
		if calls++; calls == 3 {
			return Measurement{}, broken
		}
		return Measurement{Requests: 100, P50: time.Duration(calls) * time.Second}, nil
	}, nil)
	if !errors.Is(err, broken) || len(got.Steps) != 2 {
		t.Errorf("%v after %d steps; want the steps before the error", err, len(got.Steps))
	}
	for _, o := range []TuneOptions{{MaxUsers: -1}, {Threshold: 1.5}, {Threshold: -1}, {StepDuration: -1}} {
		if _, err := Tune(t.Context(), nil, &o); !isInvalid(err) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func isInvalid(err error) bool {
	_, ok := errors.AsType[*limiter.InvalidError](err)
	return ok
}

func TestInterpolation(t *testing.T) {
	for _, test := range []struct {
		low, high int
		effs      [2]float64
		want      int
		why       string
	}{
		{1, 40, [2]float64{1, 0.6}, 20, "half-way: 19.5 rounds to even"},
		{1, 40, [2]float64{1, 0.2}, 11, "a quarter"},
		{10, 12, [2]float64{0.9, 0.1}, 11, "the only one between"},
		{1, 40, [2]float64{0.8, 0.1}, 2, "at least one more"},
		{1, 40, [2]float64{1, 0.7999}, 39, "at least one less"},
		{1, 41, [2]float64{0.5, 0.5}, 21, "equal efficiencies: the middle"},
	} {
		low, high := TuneStep{Users: test.low, Efficiency: test.effs[0]}, TuneStep{
			Users: test.high, Efficiency: test.effs[1],
		}
		if got := nextUsers(low, high, 0.8); got != test.want {
			t.Errorf("between %d and %d: %d, want %d (%s)", test.low, test.high, got, test.want, test.why)
		}
	}
}

func TestWorkersForUsers(t *testing.T) {
	tuning := Tuning{Optimum: TuneStep{Users: 12}}
	for users, want := range map[int]int{100: 9, 500: 42, 1000: 84, 12: 1, 13: 2} {
		if got := tuning.Workers(users); got != want {
			t.Errorf("%d users: %d workers, want %d", users, got, want)
		}
	}
}

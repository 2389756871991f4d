package loadtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// TuneOptions configures Tune. The zero value of a field is its default.
type TuneOptions struct {
	MaxUsers         int           // default 40
	Threshold        float64       // of the efficiency; default 0.8
	StepDuration     time.Duration // of each step; default 30 s
	BaselineDuration time.Duration // of the baseline; default 60 s
	// MaxDuration limits the baseline, which grows until it has enough requests;
	// default: no limit.
	MaxDuration time.Duration
	// Report, if not nil, is called with each step.
	Report func(TuneStep)
}

// TuneStep is one measurement of Tune.
type TuneStep struct {
	Users      int
	Duration   time.Duration
	Baseline   bool    // it has one user, and others are compared with it
	Efficiency float64 // median latency of the baseline divided by that of this step
	Measurement
}

// Measurement holds what one run of a worker measured.
type Measurement struct {
	Requests int64
	Failures int64
	RPS      float64
	P50      time.Duration
	P95      time.Duration
	P99      time.Duration
}

// Failing reports whether more than 1 % of the requests failed. Failures can be
// quick, so that the latency says nothing then.
func (m Measurement) Failing() bool { return share(m.Failures, m.Requests) > maxFailures }

// maxFailures is the share of failures that an efficient step may have.
const maxFailures = 0.01

// Tuning is the result of Tune.
type Tuning struct {
	Steps    []TuneStep // in the order of their runs
	Baseline TuneStep   // the last baseline
	// Optimum has the most users at which the efficiency reaches the threshold
	// and few requests fail.
	Optimum TuneStep
}

// minBaseline is the number of requests that a baseline needs.
const minBaseline = 100

// ErrNoLatency reports that a baseline measured no latency, so that nothing can
// be compared with it.
var ErrNoLatency = errors.New("the baseline measured no latency")

// BaselineError reports that requests of a baseline failed, so that nothing can be
// compared with it.
type BaselineError struct{ Requests, Failures int64 }

// Error returns how many requests failed, and what to do.
func (e *BaselineError) Error() string {
	return fmt.Sprintf(
		"%d of %d requests of the baseline failed; run the scenario with one user until none fails, then tune it",
		e.Failures, e.Requests,
	)
}

func (o TuneOptions) withDefaults() (TuneOptions, error) {
	o.MaxUsers = cmp.Or(o.MaxUsers, 40)
	o.Threshold = cmp.Or(o.Threshold, 0.8)
	o.StepDuration = cmp.Or(o.StepDuration, 30*time.Second)
	o.BaselineDuration = cmp.Or(o.BaselineDuration, time.Minute)
	o.MaxDuration = cmp.Or(o.MaxDuration, math.MaxInt64)

	switch {
	case o.MaxUsers < 1:
		return o, invalid("maximum of users", fmt.Sprint(o.MaxUsers), "must be 1 or more")
	// The negation also refuses NaN.
	case !(o.Threshold > 0 && o.Threshold <= 1):
		return o, invalid("threshold", fmt.Sprint(o.Threshold), "must be above 0 and at most 1")
	case o.StepDuration < 0 || o.BaselineDuration < 0 || o.MaxDuration < 0:
		return o, invalid("duration", fmt.Sprint(min(o.StepDuration, o.BaselineDuration, o.MaxDuration)),
			"must be positive")
	}

	if o.Report == nil {
		o.Report = func(TuneStep) {}
	}
	return o, nil
}

// tuner is the state of a Tune.
type tuner struct {
	opts    TuneOptions
	measure func(ctx context.Context, users int, d time.Duration) (Measurement, error)
	Tuning
}

// Tune searches for the number of users at which one worker is still efficient:
// the efficiency of u users is the median latency of 1 user over that of u users.
// A step with more than 1 % of failures is not efficient. Tune calls measure for
// each step. After an error it returns the steps up to then. The error is a
// *[BaselineError] if requests of the baseline fail.
func Tune(
	ctx context.Context, measure func(ctx context.Context, users int, d time.Duration) (Measurement, error),
	opts *TuneOptions,
) (Tuning, error) {
	if opts == nil {
		opts = &TuneOptions{}
	}

	o, err := opts.withDefaults()
	if err != nil {
		return Tuning{}, err
	}

	t := &tuner{opts: o, measure: measure}
	if err := t.baseline(ctx); err != nil {
		return t.Tuning, err
	}
	return t.Tuning, t.search(ctx)
}

// run measures a number of users and adds the step.
func (t *tuner) run(ctx context.Context, users int, d time.Duration, baseline bool) (TuneStep, error) {
	m, err := t.measure(ctx, users, d)
	if err != nil {
		return TuneStep{}, err
	}

	s := TuneStep{Users: users, Duration: d, Baseline: baseline, Measurement: m}
	switch {
	case baseline:
		s.Efficiency = 1
	case m.P50 > 0:
		s.Efficiency = float64(t.Baseline.P50) / float64(m.P50)
	}

	t.Steps = append(t.Steps, s)
	t.opts.Report(s)
	return s, nil
}

// baseline measures one user, for longer until it makes enough requests or the
// duration cannot grow.
func (t *tuner) baseline(ctx context.Context) error {
	d := min(t.opts.BaselineDuration, t.opts.MaxDuration)
	for {
		s, err := t.run(ctx, 1, d, true)
		if err != nil {
			return err
		}

		t.Baseline, t.Optimum = s, s
		if s.Failures > 0 {
			return &BaselineError{s.Requests, s.Failures}
		}

		longer := longerBaseline(d, s.Requests, t.opts.MaxDuration)
		switch {
		case s.Requests < minBaseline && longer > d:
			d = longer
		case s.P50 <= 0:
			return ErrNoLatency
		default:
			return nil
		}
	}
}

// longerBaseline returns the duration in which a baseline that made so many
// requests in d would make enough, at most most.
func longerBaseline(d time.Duration, requests int64, most time.Duration) time.Duration {
	factor := int64(2)
	if requests > 0 {
		factor = (minBaseline + requests - 1) / requests
	}

	// The product may exceed the largest duration, so the division comes first.
	if int64(d) > int64(most)/factor {
		return most
	}
	return time.Duration(int64(d) * factor)
}

// search narrows the range between an efficient and an inefficient number of
// users until they are adjacent.
func (t *tuner) search(ctx context.Context) error {
	low := t.Baseline
	if t.opts.MaxUsers == 1 {
		return nil
	}

	high, err := t.run(ctx, t.opts.MaxUsers, t.opts.StepDuration, false)
	if err != nil {
		return err
	}
	if t.isEfficient(high) {
		t.Optimum = high
		return nil
	}

	for high.Users-low.Users > 1 {
		s, err := t.run(ctx, nextUsers(low, high, t.opts.Threshold), t.opts.StepDuration, false)
		if err != nil {
			return err
		}

		if t.isEfficient(s) {
			low, t.Optimum = s, s
		} else {
			high = s
		}
	}
	return nil
}

func (t *tuner) isEfficient(s TuneStep) bool { return !s.Failing() && s.Efficiency >= t.opts.Threshold }

// nextUsers interpolates where the efficiency crosses the threshold, strictly
// between low and high. It takes the middle if the efficiency of high has no
// meaning.
func nextUsers(low, high TuneStep, threshold float64) int {
	share := 0.5
	if gap := low.Efficiency - high.Efficiency; gap != 0 && !high.Failing() {
		share = (low.Efficiency - threshold) / gap
	}
	mid := low.Users + int(math.RoundToEven(share*float64(high.Users-low.Users)))
	return min(max(mid, low.Users+1), high.Users-1)
}

// Workers returns the number of workers for so many users in all.
func (t Tuning) Workers(users int) int {
	return (users + t.Optimum.Users - 1) / max(1, t.Optimum.Users)
}

package loadtest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Entities of the scenario "stress" that stand out, and the kinds of its traffic.
const (
	whaleEntity, spikerEntity                    = "entity-whale", "entity-spiker"
	whaleTraffic, spikerTraffic, powerlawTraffic = "whale", "spiker", "powerlaw"
)

// stress returns the scenario "stress": traffic of very uneven entities.
func stress() Scenario {
	return Scenario{
		Name: "stress",
		Description: "A whale, a spiker and thousands of entities by a power law call several APIs; settings " +
			"are environment variables.",
		Setup: setUpStress,
		Classes: []Class{{
			Name: "LoadTestUser", Wait: Wait{10 * time.Millisecond, 100 * time.Millisecond}, Pause: stressPause,
			Tasks: []Task{
				{Name: "acquire", Weight: 100, Run: stressAcquire},
				{Name: "available", Weight: 5, Run: stressAvailable},
			},
		}},
	}
}

// stressTest is the state of the scenario in one process.
type stressTest struct {
	stressSettings
	ranks      *zipf
	spikeUntil atomic.Int64 // Unix nanoseconds
}

// setUpStress stores the limits of every API, and the higher limits of the whale,
// the spiker and the busiest entities.
func setUpStress(ctx context.Context, test *Test) error {
	settings, err := readStressSettings(test.Getenv)
	if err != nil {
		return err
	}

	// The whale and the spiker have no rank.
	test.Data = &stressTest{stressSettings: settings, ranks: newZipf(settings.alpha, settings.entities-2)}

	for i := range settings.apis {
		if err := test.SetResourceDefaults(ctx, api(i), stressLimits(1)...); err != nil {
			return err
		}
	}

	// Every process of a test calls the setup. The limits of the whale are
	// stored last, so they mean that another process has stored all of them.
	if stored, err := test.Limits(ctx, whaleEntity, ""); err != nil || len(stored) > 0 {
		return err
	}

	err = inParallel(ctx, settings.customLimits-1, func(i int) error {
		return test.SetLimits(ctx, customEntity(i+1), "", stressLimits(2)...)
	})
	if err != nil || settings.customLimits == 0 {
		return err
	}

	return test.SetLimits(ctx, whaleEntity, "", stressLimits(2)...)
}

// stressLimits returns the limits of an entity for each API, times a factor.
func stressLimits(factor int64) []limiter.Limit {
	return []limiter.Limit{limiter.PerMinute(limiter.RPM, 600*factor), limiter.PerMinute(limiter.TPM, 300_000*factor)}
}

func api(i int) string { return fmt.Sprintf("api-%d", i) }

// customEntity returns the entities with limits of their own: the whale, the
// spiker, and then the others, the busiest first.
func customEntity(i int) string {
	switch i {
	case 0:
		return whaleEntity
	case 1:
		return spikerEntity
	}
	return rankedEntity(i - 2)
}

func rankedEntity(rank int) string { return fmt.Sprintf("entity-%05d", rank) }

// inParallel calls do with 0 to n-1, a few at a time. It returns the first error,
// after which it starts no more calls.
func inParallel(ctx context.Context, n int, do func(i int) error) error {
	const workers = 16
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var all sync.WaitGroup

	for range workers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					cancel(err)
				}
			}
		})
	}

	all.Wait()
	return context.Cause(ctx)
}

// pick returns an entity by the distribution of traffic, and the kind of traffic.
func (t *stressTest) pick(u *User) (entity, traffic string) {
	if t.spiking() {
		return spikerEntity, spikerTraffic
	}

	if u.Rand.Float64() < t.spikeProbability/60 {
		t.spikeUntil.Store(time.Now().Add(t.spikeDuration).UnixNano())
		return spikerEntity, spikerTraffic
	}

	switch share := u.Rand.Float64(); {
	case share < t.whaleShare:
		return whaleEntity, whaleTraffic
	case share < t.whaleShare+t.spikeShare:
		return spikerEntity, spikerTraffic
	}

	return rankedEntity(t.ranks.rank(u.Rand.Float64())), powerlawTraffic
}

// spiking reports whether a spike lasts.
func (t *stressTest) spiking() bool { return time.Now().UnixNano() < t.spikeUntil.Load() }

func stressState(u *User) *stressTest {
	t, _ := u.Test.Data.(*stressTest)
	return t
}

// stressPause returns the pause of a user. If a rate is set for the present
// traffic, pauses vary by half around the mean of the rate.
func stressPause(u *User) time.Duration {
	t := stressState(u)
	rpm := t.baselineRPM
	if t.spiking() {
		rpm = cmp.Or(t.spikeRPM, t.baselineRPM)
	}

	if rpm == 0 {
		return 10*time.Millisecond + time.Duration(u.Rand.Int64N(int64(90*time.Millisecond)))
	}
	return time.Duration((0.5 + u.Rand.Float64()) * float64(time.Minute) / rpm)
}

// stressAcquire takes a request and 100 to 1000 tokens.
func stressAcquire(ctx context.Context, u *User) error {
	t := stressState(u)
	entity, traffic := t.pick(u)
	resource := api(u.Rand.IntN(t.apis))
	req := limiter.Request{
		Entity: entity, Resource: resource,
		Consume: limiter.Tokens(limiter.RPM, 1).And(limiter.TPM, 100+u.Rand.Int64N(901)),
	}
	return u.As(resource+"/"+traffic).Do(ctx, req, finish)
}

// stressAvailable asks what is left.
func stressAvailable(ctx context.Context, u *User) error {
	t := stressState(u)
	entity, traffic := t.pick(u)
	resource := api(u.Rand.IntN(t.apis))
	_, err := u.As(resource+"/"+traffic).Available(ctx, entity, resource)
	return err
}

// stressSettings configures the scenario "stress".
type stressSettings struct {
	apis, entities, customLimits int
	whaleShare, spikeShare       float64 // of all picks, outside of a spike
	spikeProbability             float64 // that a spike starts in 60 picks
	spikeDuration                time.Duration
	alpha                        float64 // of the power law
	// baselineRPM and spikeRPM are the tasks of a user a minute. A baseline of
	// 0 means the pauses of the class, and a spike of 0 the baseline.
	baselineRPM, spikeRPM float64
}

// readStressSettings reads the settings from the environment. The error is an
// *InvalidError that names the variable.
func readStressSettings(getenv func(string) string) (stressSettings, error) {
	r := envReader{getenv: getenv}
	s := stressSettings{
		apis: int(r.number("NUM_APIS", 8, 1, 1000, true)),
		// Ranks have five digits, which leaves 100,000 entities beside the
		// whale and the spiker.
		entities:         int(r.number("NUM_ENTITIES", 16_000, 3, 100_002, true)),
		customLimits:     int(r.number("NUM_CUSTOM_LIMITS", 300, 0, 100_002, true)),
		whaleShare:       r.number("WHALE_SHARE", 0.5, 0, 1, false),
		spikeShare:       r.number("SPIKE_SHARE", 0.03, 0, 1, false),
		spikeProbability: r.number("SPIKE_PROBABILITY", 0.1, 0, 1, false),
		spikeDuration:    time.Duration(r.number("SPIKE_DURATION", 30, 0, 86_400, false) * float64(time.Second)),
		alpha:            r.number("POWERLAW_ALPHA", 1.5, 0, 10, false),
		baselineRPM:      r.number("BASELINE_RPM", 0, 0, 1e6, false),
		spikeRPM:         r.number("SPIKE_RPM", 0, 0, 1e6, false),
	}

	switch {
	case r.err != nil:
		return s, r.err
	case s.whaleShare+s.spikeShare > 1:
		return s, invalid("SPIKE_SHARE", fmt.Sprint(s.spikeShare), "must be at most %v, which WHALE_SHARE leaves",
			1-s.whaleShare)
	case s.customLimits > s.entities:
		return s, invalid("NUM_CUSTOM_LIMITS", fmt.Sprint(s.customLimits),
			"must be at most the number of entities, %d", s.entities)
	}
	return s, nil
}

// envReader reads numbers from environment variables and keeps the first error.
type envReader struct {
	getenv func(string) string
	err    error
}

// number returns the value of a variable, or the default if it is empty.
func (r *envReader) number(name string, value, least, most float64, whole bool) float64 {
	text := r.getenv(name)
	if text == "" {
		return value
	}

	n, err := strconv.ParseFloat(text, 64)
	if err == nil && n >= least && n <= most && (!whole || n == math.Trunc(n)) {
		return n
	}

	if r.err == nil {
		kind := "a number"
		if whole {
			kind = "a whole number"
		}
		r.err = invalid(name, text, "must be %s from %v to %v", kind, least, int64(most))
	}
	return value
}

// zipf is the distribution in which rank k of n, counted from 0, has a
// probability in proportion to (k+1)^-alpha.
type zipf struct{ sums []float64 }

func newZipf(alpha float64, n int) *zipf {
	z := &zipf{sums: make([]float64, n)}
	sum := 0.0
	for k := range z.sums {
		sum += math.Pow(float64(k+1), -alpha)
		z.sums[k] = sum
	}
	return z
}

// rank returns the rank at a point between 0 and 1, without 1.
func (z *zipf) rank(at float64) int {
	last := len(z.sums) - 1
	k, _ := slices.BinarySearch(z.sums, at*z.sums[last])
	return min(k, last)
}

package loadtest

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

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

package demo

import (
	"math/rand/v2"
	"time"
)

// call is a call to the gateway.
type call struct {
	at               time.Duration // since the start
	key              key
	model            string
	estimate, actual int64 // tokens
	work             time.Duration
	fails            bool
}

// traffic generates calls: a Poisson process in which some calls come in bursts.
// The same seed gives the same calls.
type traffic struct {
	*rand.Rand
	at    time.Duration
	key   key
	model string
	// burst is the number of calls left in the burst of key to model.
	burst int
	// calm is the number of calls until one uses far more than estimated.
	calm int
	// scale multiplies the number of calls.
	scale int
}

const (
	meanGap  = 160 * time.Millisecond
	burstGap = 25 * time.Millisecond
)

func newTraffic(seed uint64) *traffic {
	return &traffic{Rand: rand.New(rand.NewPCG(seed, seed)), calm: 6, scale: 1}
}

// next returns the next call.
func (t *traffic) next() call {
	gap := meanGap
	if t.burst > 0 {
		t.burst--
		gap = burstGap
	} else {
		t.key, t.model = t.drawKey(), t.drawModel()
		if !t.key.waits && t.IntN(10) == 0 {
			t.burst = 4 + t.IntN(6)
		}
	}

	t.at += time.Duration(t.ExpFloat64() * float64(gap) / float64(t.scale))

	c := call{at: t.at, key: t.key, model: t.model, fails: t.IntN(10) == 0}
	c.work = 50*time.Millisecond + time.Duration(t.Int64N(int64(750*time.Millisecond)))
	c.estimate, c.actual = t.drawTokens(c.model == small, c.key.waits)

	return c
}

// drawTokens returns the estimated and the actual tokens of a call. The actual
// number is mostly a little less, and sometimes far more.
func (t *traffic) drawTokens(cheap, bulky bool) (estimate, actual int64) {
	estimate = 300 + t.Int64N(700)
	surprise := 2500 + t.Int64N(2500)

	if cheap {
		estimate, surprise = estimate/2, surprise/2
	}
	if bulky {
		estimate *= 2
	}

	if t.calm--; t.calm <= 0 {
		t.calm = 6 + t.IntN(9)
		return estimate, estimate + surprise
	}
	return estimate, int64(float64(estimate) * (0.4 + 0.8*t.Float64()))
}

func (t *traffic) drawKey() key {
	shares := 0
	for _, k := range keys() {
		shares += k.share
	}

	n := t.IntN(shares)
	for _, k := range keys() {
		if n -= k.share; n < 0 {
			return k
		}
	}
	panic("unreachable: n is less than the sum of the shares")
}

func (t *traffic) drawModel() string {
	if t.IntN(5) < 3 {
		return large
	}
	return small
}

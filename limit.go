package limiter

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/figure"
)

// Limit is a token bucket. It holds Capacity tokens, starts full, and gains Refill
// tokens every Period. Any window of one Period admits up to Capacity + Refill
// tokens; [Within] chooses the two so that they add up to a given number. A limit
// with a Window is a [Quota] instead, which fills at calendar boundaries. Limit is
// a comparable value. The calls that use a limit validate it.
type Limit struct {
	// Name is a letter, then letters, digits, "_", "." or "-"; at most 64
	// characters. The attribute names of usage records, such as "resource" or
	// "ttl", are reserved.
	Name string
	// Capacity and Refill are in whole tokens, at least 1. The Refill of a quota
	// is 0.
	Capacity, Refill int64
	// Period is in whole seconds, at least one; 0 for a quota.
	Period time.Duration
	// Window is the window of a quota, 0 for a rate.
	Window Calendar
	// IsShadow marks a limit that never refuses; see Shadow.
	IsShadow bool
	// Zone is the IANA zone of the window, "" for UTC.
	Zone string
}

// Names of common limits. Any other valid name works as well.
const (
	RPS = "rps" // requests per second
	RPM = "rpm" // requests per minute
	RPH = "rph" // requests per hour
	RPD = "rpd" // requests per day
	TPM = "tpm" // tokens per minute
	TPH = "tph" // tokens per hour
	TPD = "tpd" // tokens per day
)

// PerSecond returns a limit that refills n tokens a second and holds n, so that one
// call can take all of them.
func PerSecond(name string, n int64) Limit { return Custom(name, n, n, time.Second) }

// PerMinute returns a limit that refills n tokens a minute and holds n, so that one
// call can take all of them. A full bucket admits nearly 2n in the first minute;
// [Within] admits at most n.
func PerMinute(name string, n int64) Limit { return Custom(name, n, n, time.Minute) }

// PerHour returns a limit that refills n tokens an hour and holds n, so that one
// call can take all of them.
func PerHour(name string, n int64) Limit { return Custom(name, n, n, time.Hour) }

// PerDay returns a limit that refills n tokens in 24 hours and holds n, so that one
// call can take all of them.
func PerDay(name string, n int64) Limit { return Custom(name, n, n, 24*time.Hour) }

// Custom returns a limit that holds capacity tokens and gains refill tokens every
// period.
func Custom(name string, capacity, refill int64, period time.Duration) Limit {
	return Limit{Name: name, Capacity: capacity, Refill: refill, Period: period}
}

// WithBurst returns l with another capacity and the same rate. A quota has no
// burst: [Limit.Validate] refuses it.
func (l Limit) WithBurst(capacity int64) Limit {
	// Validate refuses a quota that has a refill, so that the mistake is
	// reported.
	if l.Window != 0 {
		l.Refill = l.Capacity
	}
	l.Capacity = capacity
	return l
}

// Validate checks l. The error is an *[InvalidError].
func (l Limit) Validate() error {
	if err := validLimitName(l.Name); err != nil {
		return err
	}
	if err := validCount("capacity", l.Capacity); err != nil {
		return err
	}

	if l.Window != 0 {
		return l.validateWindow()
	}
	if l.Zone != "" {
		return invalid("zone", l.Zone, "must be empty for a rate; only a quota has a zone")
	}
	// WithinBurst returns such a limit for a burst above n.
	if l.Refill < 0 {
		return invalid("refill_amount", strconv.FormatInt(l.Refill, 10),
			"must not be negative; the burst of WithinBurst must be at most its n")
	}
	if err := validCount("refill_amount", l.Refill); err != nil {
		return err
	}

	if l.Period <= 0 || l.Period%time.Second != 0 {
		return invalid("refill_period_seconds", l.Period.String(),
			"must be a whole number of seconds, from 1s to 9223372036s")
	}
	return nil
}

func validCount(field string, n int64) error {
	if n < 1 || n > bucket.MaxTokens {
		return invalid(field, strconv.FormatInt(n, 10),
			fmt.Sprintf("must be between 1 and %d tokens", int64(bucket.MaxTokens)))
	}
	return nil
}

// validLimits checks that limits is not empty, each limit is valid, and no name
// occurs twice.
func validLimits(limits []Limit) error {
	if len(limits) == 0 {
		return invalid("limits", "", "must not be empty; give at least one limit")
	}
	for i, l := range limits {
		if err := l.Validate(); err != nil {
			return err
		}

		for _, other := range limits[:i] {
			if other.Name == l.Name {
				return invalid("limits", l.Name, "is listed twice; give each limit once")
			}
		}
	}
	return nil
}

// String formats l like "tpm 10000/min burst 15000", "tokens 1000000@month" or
// "spend $50.00@day:Europe/Berlin", with " shadow" at the end of a shadow limit.
// It omits a burst that equals the refill.
func (l Limit) String() string {
	s := l.Name + " " + figure.Amount(l.Name, l.Refill) + "/" + figure.Period(l.Period)

	switch {
	case l.Window != 0:
		s = l.Name + " " + figure.Amount(l.Name, l.Capacity) + "@" + l.Window.String()
		if l.Zone != "" {
			s += ":" + l.Zone
		}
	case l.Capacity != l.Refill:
		s += " burst " + figure.Amount(l.Name, l.Capacity)
	}

	if l.IsShadow {
		s += " shadow"
	}
	return s
}

type limitJSON struct {
	Name     string `json:"name"`
	Capacity int64  `json:"capacity"`
	Refill   int64  `json:"refill_amount"`
	Seconds  int64  `json:"refill_period_seconds"`
	Window   string `json:"window,omitempty"`
	Zone     string `json:"zone,omitempty"`
	Shadow   bool   `json:"shadow,omitempty"`
}

// MarshalJSON encodes l as an object with name, capacity, refill_amount and
// refill_period_seconds. It adds window and zone of a quota, and shadow.
func (l Limit) MarshalJSON() ([]byte, error) {
	return json.Marshal(limitJSON{
		l.Name, l.Capacity, l.Refill, int64(l.Period / time.Second), l.Window.String(), l.Zone, l.IsShadow,
	})
}

// UnmarshalJSON decodes the output of MarshalJSON. The keys name and capacity are
// required, and for a rate refill_amount and refill_period_seconds too. The limit
// must be valid.
func (l *Limit) UnmarshalJSON(data []byte) error {
	var in limitJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}

	read, err := in.limit()
	if err == nil {
		err = read.Validate()
	}
	if err != nil {
		return err
	}

	*l = read
	return nil
}

// limit returns the limit without validating it.
func (in limitJSON) limit() (Limit, error) {
	if in.Window != "" {
		every, err := ParseCalendar(in.Window)
		if err != nil {
			return Limit{}, err
		}
		// The period stays as it is, so that Validate can refuse it.
		l := Limit{
			Name: in.Name, Capacity: in.Capacity, Refill: in.Refill, Period: time.Duration(in.Seconds),
			Window: every, IsShadow: in.Shadow,
		}
		return l.In(in.Zone), nil
	}

	const maxSeconds = int64(1<<63-1) / int64(time.Second)
	if in.Seconds < 1 || in.Seconds > maxSeconds {
		return Limit{}, invalid("refill_period_seconds", strconv.FormatInt(in.Seconds, 10),
			fmt.Sprintf("must be between 1 and %d", maxSeconds))
	}

	l := Custom(in.Name, in.Capacity, in.Refill, time.Duration(in.Seconds)*time.Second)
	l.Zone, l.IsShadow = in.Zone, in.Shadow
	return l, nil
}

// Within returns a limit that admits at most n tokens in every window of length
// period, wherever the window starts. The burst is a tenth of n, at least 1; the
// rest refills over the period. A request above the burst never fits.
//
// The result is an ordinary limit whose capacity and refill add up to n:
// Within("tpm", 10_000, time.Minute) holds 1,000 and refills 9,000 a minute.
// [PerMinute] with the same numbers admits nearly 20,000 in its first minute.
func Within(name string, n int64, period time.Duration) Limit {
	return WithinBurst(name, n, max(n/10, 1), period)
}

// WithinBurst returns a limit like [Within] with another burst, from 1 to n. A
// larger burst admits larger requests and refills more slowly. If burst
// is n, nothing is left to refill within the period. The limit then refills one
// token in 1000/999 of the period, rounded up to whole seconds.
func WithinBurst(name string, n, burst int64, period time.Duration) Limit {
	switch {
	case n < 1 || n > bucket.MaxTokens:
		return Custom(name, n, n, period) // Validate rejects it
	case burst < 1 || burst > bucket.MaxTokens:
		return Custom(name, burst, n, period) // Validate rejects it
	case burst == n:
		return Custom(name, n, 1, singleTokenPeriod(period))
	}
	return Custom(name, burst, n-burst, period)
}

// singleTokenPeriod returns the shortest refill period of one token, in whole
// seconds, for which less than a token refills within period. Buckets refill in
// thousandths, rounded at both ends of a window, so at most 999 of them refill
// only if the refill takes 1000/999 of the period. An invalid period is returned
// unchanged.
func singleTokenPeriod(period time.Duration) time.Duration {
	if period <= 0 || period%time.Second != 0 {
		return period
	}

	seconds := int64(period / time.Second)
	seconds += (seconds + 998) / 999
	if seconds > int64(math.MaxInt64/time.Second) {
		return math.MaxInt64
	}
	return time.Duration(seconds) * time.Second
}

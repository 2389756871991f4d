package limiter

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Limit is a token bucket: it holds Capacity tokens, is full at first, and gains
// Refill tokens every Period. A window of time admits at most the capacity plus
// what refills in it, so a window of one Period admits up to Capacity + Refill.
// [Within] makes a limit that never admits more than n in a window. Limit is a
// plain comparable value, checked where it is used, not where it is made.
type Limit struct {
	// Name is a letter, then letters, digits, "_", "." or "-"; at most 64. The
	// attribute names of usage records, such as "resource" or "ttl", are
	// reserved.
	Name string
	// Capacity and Refill are whole tokens, at least 1.
	Capacity, Refill int64
	// Period is whole seconds, at least one.
	Period time.Duration
}

// PerSecond refills n tokens a second and holds up to n, all of which may be taken
// at once.
func PerSecond(name string, n int64) Limit { return Custom(name, n, n, time.Second) }

// PerMinute refills n tokens a minute and holds up to n, all of which may be taken
// at once. A full bucket admits nearly 2n in the first minute; [Within] never more
// than n.
func PerMinute(name string, n int64) Limit { return Custom(name, n, n, time.Minute) }

// PerHour refills n tokens an hour and holds up to n, all of which may be taken
// at once.
func PerHour(name string, n int64) Limit { return Custom(name, n, n, time.Hour) }

// PerDay refills n tokens in 24 hours and holds up to n, all of which may be taken
// at once.
func PerDay(name string, n int64) Limit { return Custom(name, n, n, 24*time.Hour) }

// Custom holds up to capacity tokens and refills refill of them every period.
func Custom(name string, capacity, refill int64, period time.Duration) Limit {
	return Limit{Name: name, Capacity: capacity, Refill: refill, Period: period}
}

// WithBurst is the same rate under another capacity.
func (l Limit) WithBurst(capacity int64) Limit {
	l.Capacity = capacity
	return l
}

// Validate is nil or an *[InvalidError].
func (l Limit) Validate() error {
	if err := validLimitName(l.Name); err != nil {
		return err
	}
	if err := validCount("capacity", l.Capacity); err != nil {
		return err
	}
	if l.Refill < 0 {
		return invalid("refill_amount", strconv.FormatInt(l.Refill, 10), "must not be negative; the burst of WithinBurst must be at most its n")
	}
	if err := validCount("refill_amount", l.Refill); err != nil {
		return err
	}
	if l.Period <= 0 || l.Period%time.Second != 0 {
		return invalid("refill_period_seconds", l.Period.String(), "must be a whole number of seconds, from 1s to 9223372036s")
	}
	return nil
}

func validCount(field string, n int64) error {
	if n < 1 || n > bucket.MaxTokens {
		return invalid(field, strconv.FormatInt(n, 10), fmt.Sprintf("must be between 1 and %d tokens", int64(bucket.MaxTokens)))
	}
	return nil
}

// validLimits checks a whole set: at least one limit, each valid, no name twice.
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

// String reads like "tpm 10000/1m burst 15000"; the burst is left out when it
// is the refill.
func (l Limit) String() string {
	s := fmt.Sprintf("%s %d/%s", l.Name, l.Refill, shortPeriod(l.Period))
	if l.Capacity != l.Refill {
		s += fmt.Sprintf(" burst %d", l.Capacity)
	}
	return s
}

func shortPeriod(d time.Duration) string {
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if d >= unit.size && d%unit.size == 0 {
			return strconv.FormatInt(int64(d/unit.size), 10) + unit.name
		}
	}
	return d.String()
}

type limitJSON struct {
	Name     string `json:"name"`
	Capacity int64  `json:"capacity"`
	Refill   int64  `json:"refill_amount"`
	Seconds  int64  `json:"refill_period_seconds"`
}

// MarshalJSON gives an object with name, capacity, refill_amount and
// refill_period_seconds.
func (l Limit) MarshalJSON() ([]byte, error) {
	return json.Marshal(limitJSON{l.Name, l.Capacity, l.Refill, int64(l.Period / time.Second)})
}

// UnmarshalJSON reads what MarshalJSON wrote. All four keys are required, and
// the limit must be valid.
func (l *Limit) UnmarshalJSON(data []byte) error {
	var in limitJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	const longest = int64(1<<63-1) / int64(time.Second)
	if in.Seconds < 1 || in.Seconds > longest {
		return invalid("refill_period_seconds", strconv.FormatInt(in.Seconds, 10), fmt.Sprintf("must be between 1 and %d", longest))
	}
	read := Custom(in.Name, in.Capacity, in.Refill, time.Duration(in.Seconds)*time.Second)
	if err := read.Validate(); err != nil {
		return err
	}
	*l = read
	return nil
}

// rate is the limit in the units of the arithmetic.
func (l Limit) rate() bucket.Rate {
	return bucket.RateOf(l.Capacity, l.Refill, l.Period)
}

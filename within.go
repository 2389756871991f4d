package limiter

import (
	"math"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Within allows at most n tokens in every window of the given length, whenever
// it begins. A tenth of n, at least 1, can be taken at once; the rest refills
// over the period. A request above that burst never fits.
//
// It is an ordinary limit, whose capacity and refill add up to n: Within("tpm",
// 10_000, time.Minute) has a capacity of 1,000 and refills 9,000 a minute.
// [PerMinute] with the same numbers admits nearly 20,000 in its first minute.
func Within(name string, n int64, period time.Duration) Limit {
	return WithinBurst(name, n, max(n/10, 1), period)
}

// WithinBurst is [Within] with another burst, from 1 to n. A larger burst admits
// larger requests, and refills more slowly. A burst of n leaves nothing to
// refill: then one token comes back in a little more than the period, which is
// a thousandth longer, rounded up to whole seconds.
func WithinBurst(name string, n, burst int64, period time.Duration) Limit {
	switch {
	case n < 1 || n > bucket.MaxTokens:
		return Custom(name, n, n, period) // which is not valid, and neither are the next two
	case burst < 1 || burst > bucket.MaxTokens:
		return Custom(name, burst, n, period)
	case burst == n:
		return Custom(name, n, 1, longer(period))
	}
	return Custom(name, burst, n-burst, period)
}

// longer is the least whole number of seconds in which a token may refill so
// that less than a token refills within period. A bucket gains in thousandths,
// rounded at both ends of a window: at most 999 of them are due only where the
// refill takes 1000/999 of the period. A period that is not valid stays so.
func longer(period time.Duration) time.Duration {
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

package limiter

import (
	"math"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

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

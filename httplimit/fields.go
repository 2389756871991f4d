package httplimit

import (
	"errors"
	"math/bits"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Fields configures the response fields that describe limits. A nil Fields is the
// same as a zero one.
//
// RateLimit-Policy and RateLimit are structured fields of
// draft-ietf-httpapi-ratelimit-headers-10, with one member for each limit of the
// caller's own entity: q is the capacity, w the seconds to fill an empty bucket,
// r the available tokens, and t the seconds until there are more. A full bucket
// has no t. In a refusal, t of an exceeded limit equals Retry-After, and is absent
// if no retry helps. The w of a quota is the length of its window, and t the time
// left of it. Shadow limits have no members, since they never refuse.
type Fields struct {
	// Units gives limits their quota unit, the parameter qu, by the name of the
	// limit: "requests", "content-bytes", "concurrent-requests", or a unit of the
	// service. A limit without an entry has none, which means requests.
	Units map[string]string
	// Legacy adds X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset
	// for the limit that is nearest to its end. Reset counts seconds, like t, and
	// is 0 for a full bucket.
	Legacy bool
}

// Set sets the fields of h for the entity that d is about. It omits the limits of
// its parent, and shadow limits. If no limit is left, as in an allowed outage, Set
// changes nothing.
func (f *Fields) Set(h http.Header, d limiter.Decision) {
	own := ownLimits(d)
	if len(own) == 0 {
		return
	}

	// A client that comes back after the shorter of two waits is refused again.
	// So every exceeded limit shows the wait of the refusal.
	after, _ := strconv.ParseInt(retryAfter(d), 10, 64)

	policy, state := make([]byte, 0, 32*len(own)), make([]byte, 0, 32*len(own))
	for i := range own {
		s := &own[i]
		if i > 0 {
			policy, state = append(policy, ", "...), append(state, ", "...)
		}
		policy = f.appendPolicy(policy, s)
		state = appendState(state, s, after)
	}

	h[fieldPolicy], h[fieldState] = []string{string(policy)}, []string{string(state)}

	if f != nil && f.Legacy {
		setLegacy(h, own, after)
	}
}

// The fields in the form that net/http gives them. Header.Set would make it anew
// for every answer.
const (
	fieldPolicy = "Ratelimit-Policy"
	fieldState  = "Ratelimit"
)

// setRefused sets the fields of h for a refusal. Other errors have no balances.
func (f *Fields) setRefused(h http.Header, err error) {
	if refusal, ok := errors.AsType[*limiter.ExceededError](err); ok {
		f.Set(h, refusal.Decision)
	}
}

// ownLimits returns the limits of the entity itself, which come first, without
// shadow limits.
func ownLimits(d limiter.Decision) []limiter.Status {
	own, isShadow := d.Statuses, func(s limiter.Status) bool { return s.Limit.IsShadow }

	for i := range own {
		if own[i].Entity != own[0].Entity {
			own = own[:i]
			break
		}
	}

	// Most decisions have no shadow limit, and need no copy.
	if !slices.ContainsFunc(own, isShadow) {
		return own
	}
	return slices.DeleteFunc(slices.Clone(own), isShadow)
}

// retryAfter returns the value of Retry-After for a refusal, or "" if d is none or
// no retry helps.
func retryAfter(d limiter.Decision) string {
	for i := range d.Statuses {
		if d.Statuses[i].Exceeded {
			return (&limiter.ExceededError{Decision: d}).RetryAfterHeader()
		}
	}
	return ""
}

// appendPolicy appends the member of RateLimit-Policy for a status.
func (f *Fields) appendPolicy(b []byte, s *limiter.Status) []byte {
	l := &s.Limit
	b = appendString(b, l.Name)
	b = appendInteger(append(b, ";q="...), l.Capacity)
	b = appendInteger(append(b, ";w="...), windowSeconds(s))

	if f != nil && f.Units[l.Name] != "" {
		b = appendString(append(b, ";qu="...), f.Units[l.Name])
	}
	return b
}

// appendState appends the member of RateLimit for a status. The wait of a refusal
// is after, or 0 if no retry helps.
func appendState(b []byte, s *limiter.Status, after int64) []byte {
	b = appendString(b, s.Limit.Name)
	b = appendInteger(append(b, ";r="...), s.Available)
	if t := waitSeconds(s, after); t > 0 {
		b = appendInteger(append(b, ";t="...), t)
	}
	return b
}

// setLegacy sets the fields that came before the draft. They have room for one
// limit: the exceeded one, or else the emptiest one.
func setLegacy(h http.Header, own []limiter.Status, after int64) {
	nearest := &own[0]
	for i := range own {
		if s := &own[i]; s.Exceeded && !nearest.Exceeded || s.Exceeded == nearest.Exceeded &&
			fullness(s) < fullness(nearest) {
			nearest = s
		}
	}

	h.Set("X-Ratelimit-Limit", strconv.FormatInt(nearest.Limit.Capacity, 10))
	h.Set("X-Ratelimit-Remaining", strconv.FormatInt(max(nearest.Available, 0), 10))
	h.Set("X-Ratelimit-Reset", strconv.FormatInt(waitSeconds(nearest, after), 10))
}

// fullness returns the share of the capacity that is available.
func fullness(s *limiter.Status) float64 { return float64(s.Available) / float64(s.Limit.Capacity) }

// windowSeconds returns the time that an empty bucket takes to fill, or the length
// of a quota's window, in whole seconds, rounded up. It is the same in every
// answer of a window.
func windowSeconds(s *limiter.Status) int64 {
	l := &s.Limit
	if l.IsQuota() {
		return max(1, ceilSeconds(s.WindowEnd.Sub(s.WindowStart)))
	}

	period := uint64(l.Period / time.Second)

	// Adding Refill-1 rounds up.
	return max(1, mulDiv(uint64(l.Capacity), period, uint64(l.Refill), uint64(l.Refill)-1))
}

// waitSeconds returns the whole seconds until s has more tokens, rounded up, or 0
// if it is full. An exceeded limit has after, which is 0 if no retry helps.
func waitSeconds(s *limiter.Status, after int64) int64 {
	if s.Exceeded {
		return after
	}
	if s.FullAfter <= 0 {
		return 0
	}

	if s.Limit.IsQuota() {
		return max(1, ceilSeconds(s.WindowLeft))
	}

	// FullAfter is the time until all missing tokens have come. Without the time
	// for all but the first of them, the wait for the next token is left.
	rest := max(0, s.Limit.Capacity-max(s.Available, 0)-1)
	later := mulDiv(uint64(rest), uint64(s.Limit.Period), uint64(s.Limit.Refill), 0)

	wait := s.FullAfter - time.Duration(min(later, int64(s.FullAfter)))
	rate := bucket.RateOf(s.Limit.Capacity, s.Limit.Refill, s.Limit.Period)
	return max(1, bucket.Seconds(wait.Milliseconds()+min(1, int64(wait%time.Millisecond)), rate))
}

// ceilSeconds returns d in whole seconds, rounded up.
func ceilSeconds(d time.Duration) int64 {
	seconds := int64(d / time.Second)
	if d%time.Second > 0 {
		seconds++
	}
	return seconds
}

// mulDiv returns (a*b + add) / c without overflow of the product. A quotient
// above the range of an int64 becomes its maximum.
func mulDiv(a, b, c, add uint64) int64 {
	const most = 1<<63 - 1

	hi, lo := bits.Mul64(a, b)
	lo, carry := bits.Add64(lo, add, 0)
	hi += carry

	// bits.Div64 panics if the quotient overflows.
	if hi >= c {
		return most
	}

	quotient, _ := bits.Div64(hi, lo, c)
	return int64(min(quotient, most))
}

// maxInteger is the largest integer of a structured field (RFC 9651).
const maxInteger = 999_999_999_999_999

// appendInteger appends n as an integer of a structured field, from 0 to
// maxInteger.
func appendInteger(b []byte, n int64) []byte {
	return strconv.AppendInt(b, min(max(n, 0), maxInteger), 10)
}

// appendString appends s as a string of a structured field. Characters that such
// a string cannot hold become "?".
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c > '~':
			b = append(b, '?')
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

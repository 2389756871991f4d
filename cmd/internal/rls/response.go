package rls

import (
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/zeroae/zae-limiter-go"
	limits "github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// response returns the answer to Envoy, with a status for each descriptor.
// Descriptors after a refused one are not judged, and have the code UNKNOWN.
func (t *transaction) response(withHeaders bool) *ratelimit.RateLimitResponse {
	out := &ratelimit.RateLimitResponse{
		OverallCode: ratelimit.RateLimitResponse_OK,
		Statuses:    make([]*ratelimit.RateLimitResponse_DescriptorStatus, len(t.calls)),
	}
	for i := range t.calls {
		out.Statuses[i] = t.calls[i].status()
	}

	refusal := t.refusal()
	if refusal != nil {
		out.OverallCode = ratelimit.RateLimitResponse_OVER_LIMIT
	}

	if withHeaders {
		t.describe(out, refusal)
	}

	return out
}

// describe adds the headers of httplimit for the refused descriptor, or for the
// descriptor that is nearest to its limit, and the body of a refusal.
func (t *transaction) describe(out *ratelimit.RateLimitResponse, refusal *call) {
	h := http.Header{}
	if refusal != nil {
		refusal.describe(out, h)
	} else if c := t.tightest(); c != nil {
		limits.Fields(c.decision).Set(h, c.decision)
	}

	for name, v := range h {
		out.ResponseHeadersToAdd = append(out.ResponseHeadersToAdd, &core.HeaderValue{
			Key: strings.ToLower(name), Value: v[0],
		})
	}

	// A map has no order, and equal answers should be equal.
	slices.SortFunc(out.GetResponseHeadersToAdd(), func(a, b *core.HeaderValue) int {
		return strings.Compare(a.GetKey(), b.GetKey())
	})
}

// describe adds the body of a refusal, and the header Retry-After if a retry can
// help.
func (c *call) describe(out *ratelimit.RateLimitResponse, h http.Header) {
	refusal := &limiter.ExceededError{Decision: c.decision}
	problem := httplimit.NewProblem(refusal)

	switch after := refusal.RetryAfterHeader(); {
	case c.disabled:
		// Envoy sends 429, so the document has the same status.
		problem = &httplimit.Problem{
			Type: httplimit.TypeBlank, Title: "Access disabled", Status: problem.Status,
			Detail: "access is disabled",
		}
	// A rule refused the descriptor without asking the limiter.
	case len(c.decision.Statuses) == 0:
		problem = &httplimit.Problem{
			Type: httplimit.TypeQuotaExceeded, Title: problem.Title, Status: problem.Status,
			Detail: "the limits admit no request of this kind",
		}
	case after != "":
		h.Set("Retry-After", after)
	}

	if body, err := json.Marshal(problem); err == nil {
		body = append(body, '\n')
		out.RawBody = body
		h.Set("Content-Type", "application/problem+json")
	}

	limits.Fields(c.decision).Set(h, c.decision)
}

// tightest returns the descriptor with the smallest share of a limit left, or nil
// if no descriptor has a limit.
func (t *transaction) tightest() (nearest *call) {
	least := math.Inf(1)

	for i := range t.calls {
		if s := t.calls[i].subject(); s != nil && fullness(s) < least {
			nearest, least = &t.calls[i], fullness(s)
		}
	}

	return nearest
}

// fullness returns the share of the capacity that is available.
func fullness(s *limiter.Status) float64 { return float64(s.Available) / float64(s.Limit.Capacity) }

// subject returns the limit that the status of the descriptor is about: the
// exceeded one with the longest wait, or else the emptiest one that it names. It
// leaves out limits of a parent and shadow limits, which clients do not see.
func (c *call) subject() (best *limiter.Status) {
	all := c.decision.Statuses
	for i := range all {
		s := &all[i]
		// A request without amounts names no limit, and is about all of the
		// entity's.
		if _, named := c.request.Consume.Lookup(s.Limit.Name); s.Limit.IsShadow || s.Entity != all[0].Entity ||
			!named && c.request.Consume.Len() > 0 {
			continue
		}

		if best == nil || s.RetryAfter > best.RetryAfter || s.RetryAfter == best.RetryAfter &&
			fullness(s) < fullness(best) {
			best = s
		}
	}

	return best
}

// status returns the answer for one descriptor.
func (c *call) status() *ratelimit.RateLimitResponse_DescriptorStatus {
	out := &ratelimit.RateLimitResponse_DescriptorStatus{}
	switch c.verdict {
	case admitted:
		out.Code = ratelimit.RateLimitResponse_OK
	case over:
		out.Code = ratelimit.RateLimitResponse_OVER_LIMIT
	case unjudged:
	}

	if c.isUnlimited() {
		out.LimitRemaining = math.MaxUint32
	}

	if s := c.subject(); s != nil && (c.verdict == admitted || s.Exceeded) {
		out.CurrentLimit = currentLimit(s.Limit)
		out.LimitRemaining = clamp(s.Available)

		out.DurationUntilReset = durationpb.New(s.FullAfter)
		if s.Limit.IsQuota() {
			out.DurationUntilReset = durationpb.New(s.WindowLeft)
		}
	}

	// A request that never fits has no time after which it would.
	if c.verdict == over {
		out.DurationUntilReset = nil
		if wait := c.decision.RetryAfter(); wait > 0 && !c.decision.NeverFits() {
			out.DurationUntilReset = durationpb.New(wait)
		}
	}

	return out
}

// isUnlimited reports whether a rule admitted the descriptor without a limit. It
// reports false for a descriptor that no rule matches.
func (c *call) isUnlimited() bool {
	return c.verdict == admitted && c.rule != nil && (c.kind == unlimited || len(c.decision.Statuses) == 0 &&
		!c.isLate())
}

// units holds Envoy's names of the windows of quotas.
var units = map[limiter.Calendar]ratelimit.RateLimitResponse_RateLimit_Unit{
	limiter.EveryHour:  ratelimit.RateLimitResponse_RateLimit_HOUR,
	limiter.EveryDay:   ratelimit.RateLimitResponse_RateLimit_DAY,
	limiter.EveryWeek:  ratelimit.RateLimitResponse_RateLimit_WEEK,
	limiter.EveryMonth: ratelimit.RateLimitResponse_RateLimit_MONTH,
	limiter.EveryYear:  ratelimit.RateLimitResponse_RateLimit_YEAR,
}

// currentLimit describes a limit by its refill in the largest fitting unit, and a
// quota by its capacity and window.
func currentLimit(l limiter.Limit) *ratelimit.RateLimitResponse_RateLimit {
	if l.IsQuota() {
		return &ratelimit.RateLimitResponse_RateLimit{
			Name: l.Name, RequestsPerUnit: clamp(l.Capacity), Unit: units[l.Window],
		}
	}

	out := &ratelimit.RateLimitResponse_RateLimit{Name: l.Name, RequestsPerUnit: clamp(l.Refill)}
	for _, u := range []struct {
		unit   ratelimit.RateLimitResponse_RateLimit_Unit
		period time.Duration
	}{
		{ratelimit.RateLimitResponse_RateLimit_DAY, 24 * time.Hour},
		{ratelimit.RateLimitResponse_RateLimit_HOUR, time.Hour},
		{ratelimit.RateLimitResponse_RateLimit_MINUTE, time.Minute},
		{ratelimit.RateLimitResponse_RateLimit_SECOND, time.Second},
	} {
		// The units go from large to small: 120 s are 2 minutes, and 90 s are
		// 90 seconds.
		if l.Period%u.period == 0 {
			out.Unit = u.unit
			if n := int64(l.Period / u.period); n > 1 {
				out.UnitMultiplier = wrapperspb.UInt32(clamp(n))
			}
			break
		}
	}

	return out
}

// clamp returns n as an uint32, or the nearest one.
func clamp(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

package rls_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	descriptors "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/rls"
	"github.com/zeroae/zae-limiter-go/memory"
)

// suiteRules has the limits of the integration suite of Envoy's own service
// (envoyproxy/ratelimit, test/integration), whose answers have no headers.
const suiteRules = `
headers: false
rules:
  - {domain: basic, match: {key1: "*"}, entity: "key1-{key1}", resource: second, consume: {requests: hits}}
  - {domain: another, match: {key2: "*"}, entity: "key2-{key2}", resource: minute, consume: {requests: hits}}
  - {domain: another, match: {key3: "*"}, entity: "key3-{key3}", resource: hour, consume: {requests: hits}}
  - {domain: another, match: {key4: "*"}, entity: "key4-{key4}", resource: day, consume: {requests: hits}}
  - {domain: share, match: {files: "files/*"}, entity: "files", resource: hour, consume: {requests: hits}}
  - {domain: share, match: {own: "files/*"}, entity: "own-{own|hash}", resource: hour, consume: {requests: hits}}
  - {domain: share, match: {free: "*"}, answer: allow}
`

// reloadedRule is the domain that the suite adds to a running service.
const reloadedRule = `
  - {domain: reload, match: {key1: "*"}, entity: "reload-{key1}", resource: second, consume: {requests: hits}}
`

// suite is a service with the limits of the suite, and a clock.
type suite struct {
	*rls.Service
	t   *testing.T
	now time.Time
}

func startSuite(t *testing.T) *suite {
	t.Helper()
	s := &suite{t: t, now: noon}
	lim, err := limiter.New(memory.New(nil), &limiter.Options{Now: func() time.Time { return s.now }})
	check(t, err)
	for resource, limit := range map[string]limiter.Limit{
		"second": limiter.PerSecond("requests", 50), "minute": limiter.PerMinute("requests", 20),
		"hour": limiter.Quota("requests", 10, limiter.EveryHour),
		"day":  limiter.Quota("requests", 20, limiter.EveryDay),
	} {
		check(t, lim.SetResourceDefaults(t.Context(), resource, limit))
	}
	s.Service = rls.New(func(context.Context) (*limiter.RateLimiter, error) { return lim, nil }, nil, nil)
	s.setRules(suiteRules)
	return s
}

func (s *suite) setRules(text string) {
	s.t.Helper()
	parsed, err := rls.ParseRules([]byte(text))
	check(s.t, err)
	s.SetRules(parsed)
}

// call asks and returns the answer without the times until the resets, which the
// suite does not compare, and without the names of limits, which it has none of.
func (s *suite) call(
	domain string, ds ...*descriptors.RateLimitDescriptor,
) (*ratelimit.RateLimitResponse, []time.Duration) {
	s.t.Helper()
	out, err := s.ShouldRateLimit(s.t.Context(), &ratelimit.RateLimitRequest{
		Domain: domain, Descriptors: ds, HitsAddend: 1,
	})
	check(s.t, err)
	var resets []time.Duration
	for _, d := range out.GetStatuses() {
		resets = append(resets, d.GetDurationUntilReset().AsDuration())
		d.DurationUntilReset = nil
		if d.GetCurrentLimit() != nil {
			d.CurrentLimit.Name = ""
		}
	}
	return out, resets
}

// suiteStatus returns the answer for a descriptor as the suite expects it.
func suiteStatus(
	over bool, most uint32, unit ratelimit.RateLimitResponse_RateLimit_Unit, remaining uint32,
) *ratelimit.RateLimitResponse_DescriptorStatus {
	out := &ratelimit.RateLimitResponse_DescriptorStatus{
		Code: ratelimit.RateLimitResponse_OK, LimitRemaining: remaining,
		CurrentLimit: &ratelimit.RateLimitResponse_RateLimit{RequestsPerUnit: most, Unit: unit},
	}
	if over {
		out.Code, out.LimitRemaining = ratelimit.RateLimitResponse_OVER_LIMIT, 0
	}
	return out
}

// wants compares a whole answer.
func (s *suite) wants(
	over bool, got *ratelimit.RateLimitResponse, statuses ...*ratelimit.RateLimitResponse_DescriptorStatus,
) {
	s.t.Helper()
	want := &ratelimit.RateLimitResponse{OverallCode: ratelimit.RateLimitResponse_OK, Statuses: statuses}
	if over {
		want.OverallCode = ratelimit.RateLimitResponse_OVER_LIMIT
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		s.t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestEnvoySuite repeats the calls of the suite and compares the whole answers.
func TestEnvoySuite(t *testing.T) {
	const second, minute = ratelimit.RateLimitResponse_RateLimit_SECOND, ratelimit.RateLimitResponse_RateLimit_MINUTE
	const hour, day = ratelimit.RateLimitResponse_RateLimit_HOUR, ratelimit.RateLimitResponse_RateLimit_DAY
	s := startSuite(t)

	noLimit := &ratelimit.RateLimitResponse_DescriptorStatus{Code: ratelimit.RateLimitResponse_OK}
	unknown, _ := s.call("foo", descriptor("hello", "world"))
	s.wants(false, unknown, noLimit)
	basic, _ := s.call("basic", descriptor("key1", "foo"))
	s.wants(false, basic, suiteStatus(false, 50, second, 49))

	for i := range uint32(25) { // over a limit a minute
		got, _ := s.call("another", descriptor("key2", "first"))
		s.wants(i >= 20, got, suiteStatus(i >= 20, 20, minute, 20-min(i+1, 20)))
	}
	for i := range uint32(15) { // two descriptors, as with stop_cache_key_increment_when_overlimit
		got, _ := s.call("another", descriptor("key2", "second"), descriptor("key3", "second"))
		s.wants(i >= 10, got, suiteStatus(false, 20, minute, 20-min(i+1, 10)),
			suiteStatus(i >= 10, 10, hour, 10-min(i+1, 10)))
	}
	for i := range uint32(25) { // over a limit a day
		got, _ := s.call("another", descriptor("key4", "first"))
		s.wants(i >= 20, got, suiteStatus(i >= 20, 20, day, 20-min(i+1, 20)))
	}

	_, before := s.call("another", descriptor("key4", "durTest"))
	s.now = s.now.Add(2 * time.Second)
	_, after := s.call("another", descriptor("key4", "durTest"))
	if before[0]-after[0] != 2*time.Second || before[0] != 12*time.Hour {
		t.Errorf("the time until the reset is %v, and %v after 2 s", before, after)
	}

	for i := range uint32(12) { // values that share a threshold, and values of their own
		got, _ := s.call("share", descriptor("files", fmt.Sprint("files/", i)))
		s.wants(i >= 10, got, suiteStatus(i >= 10, 10, hour, 10-min(i+1, 10)))
		got, _ = s.call("share", descriptor("own", fmt.Sprint("files/", i)))
		s.wants(false, got, suiteStatus(false, 10, hour, 9))
	}
	free, _ := s.call("share", descriptor("free", "x"))
	s.wants(false, free, &ratelimit.RateLimitResponse_DescriptorStatus{
		Code: ratelimit.RateLimitResponse_OK, LimitRemaining: 1<<32 - 1,
	})

	added := func(want *ratelimit.RateLimitResponse_DescriptorStatus) { // a domain that rules add and remove
		t.Helper()
		got, _ := s.call("reload", descriptor("key1", "foo"))
		s.wants(false, got, want)
	}
	added(noLimit)
	s.setRules(suiteRules + reloadedRule)
	added(suiteStatus(false, 50, second, 49))
	s.setRules(suiteRules)
	added(noLimit)
}

package rls_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/zeroae/zae-limiter-go"
)

func headers(r *ratelimit.RateLimitResponse) map[string]string {
	all := map[string]string{}
	for _, h := range r.GetResponseHeadersToAdd() {
		all[h.GetKey()] = h.GetValue()
	}
	return all
}

func TestStatusOfAnAdmittedDescriptor(t *testing.T) {
	w := start(t, rules)
	r := w.ask(hits(descriptor("asks", "alice"), 400))
	s := r.GetStatuses()[0]
	if l := s.GetCurrentLimit(); l.GetName() != "tpm" || l.GetRequestsPerUnit() != 1000 ||
		l.GetUnit() != ratelimit.RateLimitResponse_RateLimit_MINUTE || l.GetUnitMultiplier() != nil {
		t.Errorf("limit %v", l)
	}
	if s.GetLimitRemaining() != 600 || s.GetDurationUntilReset().AsDuration() != 24*time.Second+time.Millisecond {
		t.Errorf("status %v", s)
	}
	want := map[string]string{
		"ratelimit-policy": `"rpm";q=100;w=60, "tpm";q=1000;w=60;qu="tokens"`,
		"ratelimit":        `"rpm";r=99;t=1, "tpm";r=600;t=1`,
	}
	if diff := cmp.Diff(want, headers(r)); diff != "" {
		t.Error(diff)
	}
	if r.GetRawBody() != nil {
		t.Errorf("body %s", r.GetRawBody())
	}
}

// The headers have room for one bucket, which is the emptiest.
func TestHeadersOfSeveralDescriptors(t *testing.T) {
	w := start(t, rules)
	w.ask(hits(descriptor("user", "bob"), 8))
	r := w.ask(descriptor("user", "alice"), descriptor("user", "bob"), descriptor("nothing", "known"))
	if got := headers(r)["ratelimit"]; got != `"rpm";r=1;t=6` {
		t.Error(got)
	}
}

func TestStatusOfARefusedDescriptor(t *testing.T) {
	w := start(t, rules)
	w.ask(hits(descriptor("user", "alice"), 9))
	r := w.ask(hits(descriptor("user", "alice"), 3))
	s := r.GetStatuses()[0]
	if s.GetLimitRemaining() != 1 || s.GetDurationUntilReset().AsDuration() != 12*time.Second+time.Millisecond ||
		s.GetCurrentLimit().GetRequestsPerUnit() != 10 {
		t.Errorf("status %v", s)
	}
	h := headers(r)
	if h["retry-after"] != "12" || h["content-type"] != "application/problem+json" ||
		h["ratelimit"] != `"rpm";r=1;t=12` {
		t.Errorf("headers %v", h)
	}
	if body := string(r.GetRawBody()); !strings.Contains(body, `"violated-policies":["rpm"]`) ||
		strings.Contains(body, "alice") {
		t.Errorf("body %s", body)
	}
	r = w.ask(hits(descriptor("user", "alice"), 11))
	if s := r.GetStatuses()[0]; s.GetDurationUntilReset() != nil || headers(r)["retry-after"] != "" {
		t.Errorf("a call that never fits: %v, %v", s, headers(r))
	}
}

func TestAnswersSayNothingAboutAParent(t *testing.T) {
	w := start(t, rules)
	_, err := w.lim.CreateEntity(t.Context(), limiter.Entity{ID: "alice", Parent: "project-x", Cascade: true})
	check(t, err)
	check(t, w.lim.SetLimits(t.Context(), "project-x", "api", limiter.PerMinute("rpm", 7)))
	r := w.ask(hits(descriptor("user", "alice"), 7))
	if got := r.GetStatuses()[0].GetLimitRemaining(); got != 3 {
		t.Errorf("%d remaining", got)
	}
	r = w.ask(descriptor("user", "alice"))
	w.wants("OVER_LIMIT: OVER_LIMIT", r)
	s := r.GetStatuses()[0]
	if s.GetCurrentLimit() != nil || s.GetLimitRemaining() != 0 || s.GetDurationUntilReset().AsDuration() == 0 {
		t.Errorf("status %v", s)
	}
	text := r.String()
	for _, secret := range []string{"project-x", "capacity\\\":7", "alice"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is in %s", secret, text)
		}
	}
	if headers(r)["retry-after"] != "9" {
		t.Errorf("headers %v", headers(r))
	}
}

func TestPeriodsAreWrittenInUnits(t *testing.T) {
	w := start(t, rules)
	for _, test := range []struct {
		period time.Duration
		want   string
	}{
		{time.Second, "SECOND 0"},
		{90 * time.Second, "SECOND 90"},
		{time.Minute, "MINUTE 0"},
		{12 * time.Hour, "HOUR 12"},
		{48 * time.Hour, "DAY 2"},
	} {
		check(t, w.lim.SetLimits(t.Context(), "alice", "api", limiter.Custom("rpm", 10, 1<<40, test.period)))
		l := w.ask(hits(descriptor("user", "alice"), 0)).GetStatuses()[0].GetCurrentLimit()
		got := fmt.Sprint(l.GetUnit(), " ", l.GetUnitMultiplier().GetValue())
		if got != test.want || l.GetRequestsPerUnit() != 1<<32-1 {
			t.Errorf("%v: %s, %d", test.period, got, l.GetRequestsPerUnit())
		}
	}
}

func TestHeadersCanBeLeftOut(t *testing.T) {
	w := start(t, "headers: false"+rules)
	w.ask(hits(descriptor("user", "alice"), 10))
	r := w.ask(descriptor("user", "alice"))
	w.wants("OVER_LIMIT: OVER_LIMIT", r)
	if len(r.GetResponseHeadersToAdd()) > 0 || r.GetRawBody() != nil {
		t.Errorf("%v", r)
	}
}

// A descriptor that was rolled back shows its limit and what remains then.
func TestStatusAfterARollback(t *testing.T) {
	w := start(t, rules)
	w.ask(hits(descriptor("user", "alice"), 2))
	r := w.ask(hits(descriptor("user", "alice"), 3), descriptor("banned", "yes"), descriptor("user", "bob"))
	w.wants("OVER_LIMIT: OK OVER_LIMIT UNKNOWN", r)
	s := r.GetStatuses()[0]
	if s.GetLimitRemaining() != 8 || s.GetCurrentLimit().GetRequestsPerUnit() != 10 ||
		s.GetDurationUntilReset().AsDuration().Round(time.Second) != 12*time.Second {
		t.Errorf("status %v", s)
	}
	w.left("alice", "api", "rpm", 8)
}

// What a rule admits without a limit has the largest remaining number.
func TestStatusWithoutALimit(t *testing.T) {
	w := start(t, rules)
	r := w.ask(descriptor("banned", "no"), descriptor("free", "alice"), descriptor("nothing", "known"))
	w.wants("OK: OK OK OK", r)
	for i, want := range []uint32{math.MaxUint32, math.MaxUint32, 0} {
		if s := r.GetStatuses()[i]; s.GetLimitRemaining() != want || s.GetCurrentLimit() != nil {
			t.Errorf("status %d is %v, want %d remaining", i, s, want)
		}
	}
}

// Use above the largest amount is charged as that.
func TestSettleIsClamped(t *testing.T) {
	for _, n := range []uint64{1 << 60, math.MaxUint64} {
		w := start(t, rules)
		d := descriptor("tokens_of", "alice")
		d.HitsAddend = wrapperspb.UInt64(n)
		w.wants("OK: OK", w.ask(d))
		if err := w.reported(); err != nil {
			t.Error(err)
		}
		w.left("alice", "llm", "tpm", 1000-math.MaxInt64/1_000_000)
	}
}

func TestAFixedRefusalHasABody(t *testing.T) {
	w := start(t, rules)
	r := w.ask(descriptor("banned", "yes"))
	if h := headers(r); h["retry-after"] != "" || h["ratelimit"] != "" ||
		!strings.Contains(string(r.GetRawBody()), `"status":429`) {
		t.Errorf("%v\n%s", h, r.GetRawBody())
	}
}

package rls_test

import (
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// TestQuotasInEnvoysUnits checks the unit, the capacity and the end of the window.
func TestQuotasInEnvoysUnits(t *testing.T) {
	w := start(t, rules)
	for _, test := range []struct {
		every limiter.Calendar
		unit  string
		left  time.Duration // from Friday noon, January 2
	}{
		{limiter.EveryHour, "HOUR", time.Hour},
		{limiter.EveryDay, "DAY", 12 * time.Hour},
		{limiter.EveryWeek, "WEEK", 60 * time.Hour},
		{limiter.EveryMonth, "MONTH", 29*24*time.Hour + 12*time.Hour},
		{limiter.EveryYear, "YEAR", 363*24*time.Hour + 12*time.Hour},
	} {
		check(t, w.lim.SetLimits(t.Context(), "alice", "api", limiter.Quota("rpm", 10, test.every)))
		s := w.ask(hits(descriptor("user", "alice"), 0)).GetStatuses()[0]
		if l := s.GetCurrentLimit(); l.GetUnit().String() != test.unit || l.GetRequestsPerUnit() != 10 ||
			s.GetDurationUntilReset().AsDuration() != test.left {
			t.Errorf("%v: %v", test.every, s)
		}
	}
	r := w.ask(hits(descriptor("user", "alice"), 11))
	w.wants("OVER_LIMIT: OVER_LIMIT", r)
	check(t, w.lim.SetLimits(t.Context(), "alice", "api", limiter.Quota("rpm", 10, limiter.EveryDay)))
	w.wants("OK: OK", w.ask(hits(descriptor("user", "alice"), 10)))
	r = w.ask(descriptor("user", "alice"))
	if s := r.GetStatuses()[0]; headers(r)["retry-after"] != "43200" ||
		s.GetDurationUntilReset().AsDuration() != 12*time.Hour {
		t.Errorf("%v, %v", s, headers(r))
	}
}

// TestShadowLimitsAreNotShownToEnvoy checks that a shadow limit neither refuses nor
// appears.
func TestShadowLimitsAreNotShownToEnvoy(t *testing.T) {
	w := start(t, rules)
	check(t,
		w.lim.SetLimits(t.Context(), "alice", "llm", limiter.PerMinute("rpm", 100),
			limiter.PerMinute("tpm", 5).Shadow()))
	r := w.ask(hits(descriptor("asks", "alice"), 50))
	w.wants("OK: OK", r)
	if l := r.GetStatuses()[0].GetCurrentLimit(); l.GetName() != "rpm" || strings.Contains(r.String(), "tpm") {
		t.Errorf("%v", r)
	}
}

// TestADisabledEntityIsOverLimit checks the answer, that earlier descriptors are
// rolled back, and that use after the fact is charged.
func TestADisabledEntityIsOverLimit(t *testing.T) {
	w := start(t, rules)
	check(t, w.lim.Disable(t.Context(), limiter.Scope{Entity: "alice"}, "unpaid"))
	r := w.ask(descriptor("user", "bob"), descriptor("user", "alice"), descriptor("user", "carol"))
	w.wants("OVER_LIMIT: OK OVER_LIMIT UNKNOWN", r)
	w.left("bob", "api", "rpm", 10)
	h := headers(r)
	if body := string(r.GetRawBody()); h["retry-after"] != "" || h["ratelimit"] != "" ||
		!strings.Contains(body, `"detail":"access is disabled"`) || !strings.Contains(body, `"status":429`) {
		t.Errorf("%v\n%s", h, body)
	}
	for _, secret := range []string{"alice", "unpaid"} {
		if strings.Contains(r.String(), secret) {
			t.Errorf("%q is in %v", secret, r)
		}
	}
	w.wants("OVER_LIMIT: OVER_LIMIT", w.ask(hits(descriptor("checks", "alice"), 0)))
	if err := w.reported(); err != nil {
		t.Error(err)
	}
	w.wants("OK: OK", w.ask(hits(descriptor("tokens_of", "alice"), 5)))
	if err := w.reported(); err != nil {
		t.Error(err)
	}
	check(t, w.lim.Enable(t.Context(), limiter.Scope{Entity: "alice"}))
	w.left("alice", "llm", "tpm", 995)
	w.wants("OK: OK", w.ask(descriptor("user", "alice")))
}

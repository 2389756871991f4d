package rls_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	descriptors "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/rls"
	"github.com/zeroae/zae-limiter-go/repotest"
)

func TestHitsOfTheCallAndOfTheDescriptor(t *testing.T) {
	w := start(t, rules)
	for _, step := range []struct {
		name       string
		call       uint32
		descriptor *descriptors.RateLimitDescriptor
		want       string
		left       int64
	}{
		{"0 means 1", 0, descriptor("user", "alice"), "OK: OK", 9},
		{"the call's hits", 3, descriptor("user", "alice"), "OK: OK", 6},
		{"its own hits override", 3, hits(descriptor("user", "alice"), 5), "OK: OK", 1},
		{"its own 0 is a peek", 3, hits(descriptor("user", "alice"), 0), "OK: OK", 1},
		{"above what is left", 2, descriptor("user", "alice"), "OVER_LIMIT: OVER_LIMIT", 1},
		{"the rest", 1, descriptor("user", "alice"), "OK: OK", 0},
		{"a peek at an empty bucket", 1, hits(descriptor("user", "alice"), 0), "OK: OK", 0},
		{"nothing left", 0, descriptor("user", "alice"), "OVER_LIMIT: OVER_LIMIT", 0},
		{"never fits", math.MaxUint32, descriptor("user", "alice"), "OVER_LIMIT: OVER_LIMIT", 0},
	} {
		response, err := w.ShouldRateLimit(t.Context(), &ratelimit.RateLimitRequest{
			Domain: "edge", Descriptors: []*descriptors.RateLimitDescriptor{step.descriptor}, HitsAddend: step.call,
		})
		check(t, err)
		if got := answer(response); got != step.want {
			t.Errorf("%s: %s, want %s", step.name, got, step.want)
		}
		w.left("alice", "api", "rpm", step.left)
	}
	huge := descriptor("user", "alice")
	huge.HitsAddend = hits(descriptor(), 1).GetHitsAddend()
	huge.HitsAddend.Value = math.MaxUint64
	w.wants("OVER_LIMIT: OVER_LIMIT", w.ask(huge))
}

func TestPeekRefusesInDebt(t *testing.T) {
	w := start(t, rules)
	w.wants("OK: OK", w.ask(hits(descriptor("checks", "alice"), 0)))
	w.wants("OK: OK", w.ask(hits(descriptor("tokens_of", "alice"), 1001)))
	w.left("alice", "llm", "tpm", -1)
	w.wants("OVER_LIMIT: OVER_LIMIT", w.ask(hits(descriptor("checks", "alice"), 0)))
	w.left("alice", "llm", "tpm", -1)
}

func TestSettleChargesAsDebtAndGivesBack(t *testing.T) {
	w := start(t, rules)
	w.wants("OK: OK", w.ask(hits(descriptor("tokens_of", "alice"), 2500)))
	w.left("alice", "llm", "tpm", -1500)
	w.left("alice", "llm", "rpm", 99)
	w.wants("OK: OK", w.ask(hits(descriptor("tokens_of", "alice"), 100)))
	w.left("alice", "llm", "tpm", -1600)
	w.wants("OK: OK", w.ask(hits(descriptor("tokens_of", "alice"), -1700)))
	w.left("alice", "llm", "tpm", 100)
	w.left("alice", "llm", "rpm", 98) // only the hits are given back
	w.wants("OK: OK", w.ask(hits(descriptor("tokens_of", "alice"), -1_000_000)))
	w.left("alice", "llm", "tpm", 1000) // never above the capacity
	w.wants("OK: OK", w.ask(hits(descriptor("tokens_of", "alice"), 0)))
	w.left("alice", "llm", "rpm", 97)
}

func TestNegativeHitsNeedARule(t *testing.T) {
	w := start(t, rules)
	w.ask(hits(descriptor("user", "alice"), 5))
	w.wants("OVER_LIMIT: OVER_LIMIT", w.ask(hits(descriptor("user", "alice"), -5)))
	w.left("alice", "api", "rpm", 5)
	if err := w.reported(); err == nil || !strings.Contains(err.Error(), "give_back: true") {
		t.Errorf("reported: %v", err)
	}
}

func TestEarlierDescriptorsAreRolledBack(t *testing.T) {
	w := start(t, rules)
	w.ask(hits(descriptor("user", "bob"), 10))
	response := w.ask(descriptor("user", "alice"), descriptor("asks", "alice"), descriptor("user", "bob"),
		descriptor("user", "carol"))
	w.wants("OVER_LIMIT: OK OK OVER_LIMIT UNKNOWN", response)
	for _, who := range []string{"alice", "carol"} {
		w.left(who, "api", "rpm", 10)
	}
	w.left("alice", "llm", "rpm", 100)
	w.wants("OK: OK OK OK",
		w.ask(descriptor("user", "alice"), descriptor("asks", "alice"), descriptor("user", "carol")))
	w.left("alice", "api", "rpm", 9)
}

// Work that is done is charged even if the call is refused. What is given back
// waits for an admitted call, because a refused one may be repeated.
func TestSettlingBesideARefusal(t *testing.T) {
	w := start(t, rules)
	w.ask(hits(descriptor("user", "bob"), 10))
	w.wants("OVER_LIMIT: OK OVER_LIMIT", w.ask(hits(descriptor("tokens_of", "alice"), 700), descriptor("user", "bob")))
	w.left("alice", "llm", "tpm", 300)
	w.wants("OVER_LIMIT: UNKNOWN OVER_LIMIT",
		w.ask(hits(descriptor("tokens_of", "alice"), -200), descriptor("user", "bob")))
	w.left("alice", "llm", "tpm", 300)
	w.wants("OK: OK OK", w.ask(hits(descriptor("tokens_of", "alice"), -200), descriptor("user", "alice")))
	w.left("alice", "llm", "tpm", 500)
}

func TestDescriptorsWithoutARuleAreAdmitted(t *testing.T) {
	w := start(t, rules)
	for _, d := range []*descriptors.RateLimitDescriptor{
		descriptor("nothing", "known"), descriptor("user", "a", "path", "b"), descriptor("user", "a", "user", "b"),
		descriptor(),
		descriptor("banned", "no"), descriptor("key", "x"),
	} {
		w.wants("OK: OK", w.ask(d))
	}
	w.wants("OVER_LIMIT: OVER_LIMIT", w.ask(descriptor("banned", "yes")))
	if err := w.reported(); err != nil {
		t.Error(err)
	}
}

func TestLastRuleRefusesTheRest(t *testing.T) {
	w := start(t, rules+"  - domain: edge\n    answer: refuse\n")
	w.wants("OVER_LIMIT: OVER_LIMIT", w.ask(descriptor("nothing", "known")))
	w.wants("OK: OK", w.ask(descriptor("user", "alice")))
	response, err := w.ShouldRateLimit(t.Context(), &ratelimit.RateLimitRequest{
		Domain: "other", Descriptors: []*descriptors.RateLimitDescriptor{descriptor("nothing", "known")},
	})
	check(t, err)
	w.wants("OK: OK", response)
}

// Values that clients choose must not lead to an error, which Envoy admits by
// default, and reports must not contain them.
func TestWhatCannotBeJudgedIsRefusedAndReported(t *testing.T) {
	for _, test := range []struct{ key, value, says string }{
		{"user", "s3cret/../#", "invalid entity_id"},
		{"user", "", "invalid entity_id"},
		{"user", strings.Repeat("s3cret", 100), "maximum length"},
		{"lost", "s3cret", "no_limits: allow"},
		{"typo", "s3cret", "invalid consume"},
	} {
		w := start(t, rules)
		w.wants("OVER_LIMIT: OVER_LIMIT", w.ask(descriptor(test.key, test.value)))
		err := w.reported()
		if err == nil || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "line ") ||
			strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s %.20q: reported %v, want %q", test.key, test.value, err, test.says)
		}
	}
	w := start(t, rules)
	w.wants("OK: OK", w.ask(descriptor("free", "alice")))
	if err := w.reported(); err != nil {
		t.Error(err)
	}
	w.wants("OK: OK", w.ask(hits(descriptor("tokens_of", "#"), 5))) // settling never refuses
	if w.reported() == nil {
		t.Error("a charge was lost without a report")
	}
}

func TestSecretsAreHashed(t *testing.T) {
	w := start(t, rules)
	_, err := w.ShouldRateLimit(t.Context(), &ratelimit.RateLimitRequest{
		Domain: "secret", Descriptors: []*descriptors.RateLimitDescriptor{descriptor("key", "sk-#?")},
	})
	check(t, err)
	w.left("key-a0401ff01c4b0bf2", "api", "rpm", 9)
}

func TestBadCallsAreRejected(t *testing.T) {
	w := start(t, rules)
	many := make([]*descriptors.RateLimitDescriptor, 101)
	for _, req := range []*ratelimit.RateLimitRequest{
		{Descriptors: []*descriptors.RateLimitDescriptor{descriptor("user", "a")}},
		{Domain: "edge"},
		{Domain: "edge", Descriptors: many},
	} {
		if _, err := w.ShouldRateLimit(t.Context(), req); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v", err)
		}
	}
}

func TestRulesAreReplaced(t *testing.T) {
	w := start(t, rules)
	fresh, err := rls.ParseRules([]byte("rules: [{answer: refuse}]"))
	check(t, err)
	w.wants("OK: OK", w.ask(descriptor("user", "alice")))
	w.SetRules(fresh)
	w.wants("OVER_LIMIT: OVER_LIMIT", w.ask(descriptor("user", "alice")))
}

func TestErrorsOfTheSource(t *testing.T) {
	parsed, err := rls.ParseRules([]byte("rules: [{answer: refuse}]"))
	check(t, err)
	for want, cause := range map[codes.Code]error{
		codes.Unauthenticated:    status.Error(codes.Unauthenticated, "no token"),
		codes.FailedPrecondition: limiter.ErrNotFound,
		codes.Internal:           errors.New("s3cret"),
	} {
		s := rls.New(func(context.Context) (*limiter.RateLimiter, error) { return nil, cause }, parsed, nil)
		_, err := s.ShouldRateLimit(t.Context(), &ratelimit.RateLimitRequest{
			Domain: "d", Descriptors: []*descriptors.RateLimitDescriptor{descriptor()},
		})
		if status.Code(err) != want || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%v", err)
		}
	}
}

// TestFaults lists what Envoy hears and what stays charged for each fault of the
// store. Three descriptors are asked for: two acquire, the third settles.
func TestFaults(t *testing.T) {
	nth := func(method string, n int, fault repotest.Fault) func(string) repotest.Fault {
		return func(m string) repotest.Fault {
			if m != method {
				return repotest.None
			}
			if n--; n == 0 {
				return fault
			}
			return repotest.None
		}
	}
	for _, test := range []struct {
		name    string
		faults  func(string) repotest.Fault
		code    codes.Code
		left    [3]int64 // rpm of alice and bob, tpm of carol
		reports int
	}{
		{"none", nil, codes.OK, [3]int64{9, 9, -1000}, 0},
		{"down before the first", nth("Consume", 1, repotest.Before), codes.Unavailable, [3]int64{10, 10, -1000}, 1},
		{
			"down after the first was stored", nth("Consume", 1, repotest.After), codes.Unavailable,
			[3]int64{9, 10, -1000},
			1,
		},
		{"down before the second", nth("Consume", 2, repotest.Before), codes.Unavailable, [3]int64{10, 10, -1000}, 1},
		{
			"down after the second was stored", nth("Consume", 2, repotest.After), codes.Unavailable,
			[3]int64{10, 9, -1000},
			1,
		},
		{"down before the debt", nth("Credit", 1, repotest.Before), codes.Unavailable, [3]int64{10, 10, 1000}, 1},
		{
			"down after the debt was stored", nth("Credit", 1, repotest.After), codes.Unavailable,
			[3]int64{10, 10, -1000},
			1,
		},
		{"down for good", func(m string) repotest.Fault {
			if m == "Credit" {
				return repotest.Before
			}
			return repotest.None
		}, codes.Unavailable, [3]int64{9, 9, 1000}, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := start(t, rules)
			check(t, w.lim.SetOnUnavailable(t.Context(), limiter.Allow)) // Envoy decides nevertheless
			w.fail(test.faults)
			_, err := w.ShouldRateLimit(t.Context(), &ratelimit.RateLimitRequest{
				Domain: "edge",
				Descriptors: []*descriptors.RateLimitDescriptor{
					descriptor("user", "alice"), descriptor("user", "bob"),
					hits(descriptor("tokens_of", "carol"), 2000),
				},
			})
			if status.Code(err) != test.code {
				t.Errorf("%v, want %v", err, test.code)
			}
			w.fail(nil)
			w.left("alice", "api", "rpm", test.left[0])
			w.left("bob", "api", "rpm", test.left[1])
			w.left("carol", "llm", "tpm", test.left[2])
			if len(w.errors) != test.reports {
				t.Errorf("reported: %v, want %d", w.reported(), test.reports)
			}
			if err != nil && strings.Contains(err.Error()+w.reported().Error(), "alice") {
				t.Errorf("an entity is in %v or in %v", err, w.reported())
			}
		})
	}
}

// A caller that had left when its call arrived is charged for what it reports.
func TestACallerThatLeftBefore(t *testing.T) {
	w := start(t, rules)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.ShouldRateLimit(ctx, &ratelimit.RateLimitRequest{
		Domain: "edge",
		Descriptors: []*descriptors.RateLimitDescriptor{
			descriptor("user", "alice"), hits(descriptor("tokens_of", "carol"), 2000),
		},
	})
	if status.Code(err) != codes.Canceled {
		t.Errorf("%v", err)
	}
	w.left("alice", "api", "rpm", 10)
	w.left("carol", "llm", "tpm", -1000)
}

// A caller that left does not hear that it was admitted, so nothing is charged,
// except for what a stream has used.
func TestACallerThatLeft(t *testing.T) {
	w := start(t, rules)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.fail(func(method string) repotest.Fault {
		if method == "Credit" { // of the settling descriptor, after both acquired
			cancel()
		}
		return repotest.None
	})
	_, err := w.ShouldRateLimit(ctx, &ratelimit.RateLimitRequest{
		Domain: "edge",
		Descriptors: []*descriptors.RateLimitDescriptor{
			descriptor("user", "alice"), descriptor("user", "bob"), hits(descriptor("tokens_of", "carol"), 2000),
		},
	})
	if status.Code(err) != codes.Canceled {
		t.Errorf("%v", err)
	}
	w.left("alice", "api", "rpm", 10)
	w.left("bob", "api", "rpm", 10)
	w.left("carol", "llm", "tpm", -1000)
}

// A caller that leaves while its charge is under way gets it back, and no further
// descriptor is charged.
func TestACallerThatLeftDuringACharge(t *testing.T) {
	w := start(t, rules)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lim, err := limiter.New(repotest.NewLeaving(w.repo, cancel), &limiter.Options{Now: func() time.Time {
		return noon
	}})
	check(t, err)
	parsed, err := rls.ParseRules([]byte(rules))
	check(t, err)
	s := rls.New(func(context.Context) (*limiter.RateLimiter, error) { return lim, nil }, parsed, nil)
	_, err = s.ShouldRateLimit(ctx, &ratelimit.RateLimitRequest{
		Domain: "edge",
		Descriptors: []*descriptors.RateLimitDescriptor{
			descriptor("user", "alice"), descriptor("user", "bob"), hits(descriptor("tokens_of", "carol"), 2000),
		},
	})
	if status.Code(err) != codes.Canceled {
		t.Errorf("%v", err)
	}
	w.left("alice", "api", "rpm", 10)
	w.left("bob", "api", "rpm", 10)
	w.left("carol", "llm", "tpm", -1000)
}

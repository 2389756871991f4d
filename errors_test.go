package limiter_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
)

func refusal(waits ...time.Duration) *limiter.ExceededError {
	e := &limiter.ExceededError{}
	for i, wait := range waits {
		e.Decision.Statuses = append(e.Decision.Statuses, limiter.Status{
			Entity: "e" + string(rune('0'+i)), Resource: resource,
			Limit:     limiter.PerMinute("l"+string(rune('0'+i)), 100),
			Requested: 5, Exceeded: wait > 0, RetryAfter: wait,
		})
	}
	return e
}

func TestExceededMessage(t *testing.T) {
	for _, c := range []struct {
		err  *limiter.ExceededError
		want string
	}{
		{
			refusal(30 * time.Second),
			"rate limit exceeded for e0/gpt-4: l0 (5 requested, 0 of 100 left); retry after 30s",
		},
		{
			refusal(time.Second, 0, 1249*time.Millisecond),
			"rate limit exceeded for e2/gpt-4: l0 (5 requested, 0 of 100 left), l2 (5 requested, 0 of 100 " +
				"left); retry after 1.3s",
		},
		{
			refusal(time.Millisecond),
			"rate limit exceeded for e0/gpt-4: l0 (5 requested, 0 of 100 left); retry after 0.1s",
		},
		{
			refusal(12*time.Hour + time.Millisecond),
			"rate limit exceeded for e0/gpt-4: l0 (5 requested, 0 of 100 left); retry after 12h",
		},
		{
			refusal(60_051 * time.Millisecond),
			"rate limit exceeded for e0/gpt-4: l0 (5 requested, 0 of 100 left); retry after 1m1s",
		},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// TestRetryAfterHeader covers row D-5 of docs/defects.md: seconds are rounded up,
// and whole seconds stay unchanged.
func TestRetryAfterHeader(t *testing.T) {
	for _, c := range []struct {
		wait time.Duration
		want string
	}{
		{0, "1"},
		{time.Millisecond, "1"},
		{999 * time.Millisecond, "1"},
		{1000 * time.Millisecond, "1"},
		{1001 * time.Millisecond, "2"},
		{30 * time.Second, "30"},
		{30*time.Second + time.Millisecond, "30"}, // a wait has a millisecond more than 30 s
		{30*time.Second + 2*time.Millisecond, "31"},
		{1<<63 - 1, "9223372037"},
	} {
		if got := refusal(c.wait).RetryAfterHeader(); got != c.want {
			t.Errorf("%v: %q, want %q", c.wait, got, c.want)
		}
	}
}

// TestWhatNeverFitsHasNoRetryAfter checks that a request that never fits has no
// Retry-After header, since clients would retry forever.
func TestWhatNeverFitsHasNoRetryAfter(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10), limiter.PerMinute("tpm", 10))
	w.take(t, alice, rpm(10))
	_, err := w.Acquire(bg, request(alice, rpm(1).And("tpm", 11)))
	ex := &limiter.ExceededError{Decision: exceeded(t, err)}
	if got := ex.RetryAfterHeader(); got != "" {
		t.Errorf("Retry-After is %q", got)
	}
	if strings.Contains(ex.Error(), "Retry") {
		t.Error(ex)
	}
	body, err := json.Marshal(ex.Public())
	check(t, err)
	const want = `{"error":"rate_limit_exceeded",` +
		`"message":"Rate limit exceeded for alice/gpt-4: rpm (1 requested, 0 of 10 left), tpm. Never fits: 11 tpm is above the capacity (burst) of 10","never_fits":true,` +
		`"limits":[{"entity_id":"alice","resource":"gpt-4","limit_name":"rpm","capacity":10,"refill_amount":10,"refill_period_seconds":60,` +
		`"available":0,"requested":1,"exceeded":true,"retry_after_seconds":0},` +
		`{"entity_id":"alice","resource":"gpt-4","limit_name":"tpm","capacity":10,"refill_amount":10,"refill_period_seconds":60,` +
		`"available":10,"requested":11,"exceeded":true,"retry_after_seconds":0}]}`
	if string(body) != want {
		t.Errorf("got  %s\nwant %s", body, want)
	}
}

func TestPrimaryIsTheLongestWaitAndTheFirstOnATie(t *testing.T) {
	for _, c := range []struct {
		waits []time.Duration
		want  string
	}{
		{[]time.Duration{1, 2, 2}, "e1"},
		{[]time.Duration{2, 2, 1}, "e0"},
		{[]time.Duration{0, 1, 1}, "e1"},
		{[]time.Duration{0, 0}, ""},
	} {
		e := refusal(c.waits...)
		if got := e.Decision.Primary(); got.Entity != c.want || e.Decision.RetryAfter() != got.RetryAfter {
			t.Errorf("%v: %q, want %q", c.waits, got.Entity, c.want)
		}
		if e.Decision.Admitted() != (c.want == "") {
			t.Errorf("%v: admitted %t", c.waits, e.Decision.Admitted())
		}
	}
	// A passed limit does not count, even if it takes long to fill.
	passed := limiter.Decision{Statuses: []limiter.Status{{RetryAfter: time.Hour}, {
		Entity: "x", Exceeded: true, RetryAfter: 1,
	}}}
	if got := passed.Primary().Entity; got != "x" {
		t.Errorf("primary is %q", got)
	}
}

// TestExceededIsNoDecision checks that the error does not promote the methods of
// its decision: err.Admitted() must not compile.
func TestExceededIsNoDecision(t *testing.T) {
	if _, ok := reflect.TypeFor[*limiter.ExceededError]().MethodByName("Admitted"); ok {
		t.Error("*ExceededError has a method Admitted")
	}
}

func TestExceededMatchesNeverFits(t *testing.T) {
	e := refusal(time.Second, 0)
	if errors.Is(e, limiter.ErrNeverFits) || errors.Is(e, limiter.ErrNotFound) {
		t.Error("an ordinary refusal matches a sentinel")
	}
	e.Decision.Statuses[0].NeverFits = true
	is(t, e, limiter.ErrNeverFits)
}

// TestExceededJSON checks that the body has the status of every limit of the
// entity and of its parent, exceeded or not.
func TestExceededJSON(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 1000).WithBurst(2000))
	w.family(t)
	check(t, w.SetLimits(bg, project, "", limiter.PerHour("rpm", 500)))
	w.take(t, alice, rpm(100).And("tpm", 1))
	data, err := json.Marshal(&limiter.ExceededError{Decision: w.refuse(t, rpm(2).And("tpm", 10))})
	check(t, err)
	const want = `{
		"error": "rate_limit_exceeded",
		"message": "Rate limit exceeded for alice/gpt-4: rpm (2 requested, 0 of 100 left). Retry after 1.3s",
		"retry_after_seconds": 1.201,
		"retry_after_ms": 1201,
		"limits": [
			{"entity_id": "alice", "resource": "gpt-4", "limit_name": "rpm", "capacity": 100, "refill_amount": 100,
			 "refill_period_seconds": 60, "available": 0, "requested": 2, "exceeded": true, "retry_after_seconds": 1.201},
			{"entity_id": "alice", "resource": "gpt-4", "limit_name": "tpm", "capacity": 2000, "refill_amount": 1000,
			 "refill_period_seconds": 60, "available": 1999, "requested": 10, "exceeded": false, "retry_after_seconds": 0},
			{"entity_id": "project-1", "resource": "gpt-4", "limit_name": "rpm", "capacity": 500, "refill_amount": 500,
			 "refill_period_seconds": 3600, "available": 400, "requested": 2, "exceeded": false, "retry_after_seconds": 0}
		]
	}`
	var got, wanted any
	check(t, json.Unmarshal(data, &got))
	check(t, json.Unmarshal([]byte(want), &wanted))
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Error(diff)
	}
}

// TestRefusalAlwaysNamesALimitAndAWait checks that a refusal names a limit and a
// wait even if the store refused because it lost every race, with a sufficient
// balance.
func TestRefusalAlwaysNamesALimitAndAWait(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 100))
	w.store.onConsume = func(ctx context.Context, now time.Time, c limiter.Charge) (limiter.Outcome, error) {
		out, err := w.store.Repository.Consume(ctx, now, c)
		out.Admitted = false
		return out, err
	}
	ex := w.refuse(t, rpm(1))
	if v := ex.Violations(); len(v) != 1 || v[0].Limit.Name != "rpm" || v[0].RetryAfter <= 0 || ex.NeverFits() {
		t.Errorf("violations: %+v", v)
	}
}

func TestDeficit(t *testing.T) {
	for _, c := range []struct {
		status limiter.Status
		want   int64
	}{
		{limiter.Status{Requested: 5, Available: 3, Exceeded: true}, 2},
		{limiter.Status{Requested: 0, Available: -3, Exceeded: true}, 3},
		{limiter.Status{Requested: 5, Available: 5, Exceeded: true}, 0}, // a fraction of a token is missing
		{limiter.Status{Requested: 5, Available: 0}, 0},                 // not exceeded
		{limiter.Status{Requested: 1<<63 - 1, Available: -5, Exceeded: true}, 1<<63 - 1},
	} {
		if got := c.status.Deficit(); got != c.want {
			t.Errorf("%+v: %d, want %d", c.status, got, c.want)
		}
	}
}

func TestErrorTexts(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{
			&limiter.UnavailableError{Op: "acquire", Entity: alice, Resource: resource, Err: errDown},
			"acquire: store unavailable [entity=alice, resource=gpt-4]: connection refused",
		},
		{
			&limiter.UnavailableError{Op: "status", Entity: alice, Err: errDown},
			"status: store unavailable [entity=alice]: connection refused",
		},
		{&limiter.UnavailableError{Op: "ping", Err: errDown}, "ping: store unavailable: connection refused"},
		{
			&limiter.InvalidError{Field: "entity_id", Value: "a#b", Reason: `must not contain "#"`},
			`invalid entity_id "a#b": must not contain "#"`,
		},
		{&limiter.InvalidError{Field: "limits", Reason: "must not be empty"}, "invalid limits: must not be empty"},
		{
			&limiter.CorruptError{Item: "bucket alice/gpt-4", Reason: "no capacity"},
			"corrupt data in bucket alice/gpt-4: no capacity",
		},
		{
			&limiter.VersionError{Store: "limits.db", Schema: "2", Client: "1", Reason: "upgrade the program"},
			"limits.db: schema 2, this program knows 1: upgrade the program",
		},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func TestNeverFittingSaysSo(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10))
	_, err := w.Acquire(bg, request(alice, rpm(11)))
	if want := "rate limit exceeded for alice/gpt-4: rpm; never fits: 11 rpm is above the capacity (burst) of 10"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	body, err := json.Marshal(err)
	if err != nil || !strings.Contains(string(body), `"never_fits":true`) {
		t.Errorf("%s %v", body, err)
	}
}

// TestEveryAmountThatNeverFitsIsNamed checks the text for several limits. A quota has
// no burst.
func TestEveryAmountThatNeverFitsIsNamed(t *testing.T) {
	w := start(t, limiter.Quota("spend", 1_000_000, limiter.EveryMonth), limiter.PerMinute("tokens", 1000))
	_, err := w.Acquire(bg, request(alice, limiter.Tokens("spend", 2_000_000).And("tokens", 5000)))
	const want = "rate limit exceeded for alice/gpt-4: spend, tokens; never fits: $2.00 spend is above the capacity " +
		"of $1.00, 5000 tokens is above the capacity (burst) of 1000"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// TestPublicRefusalNamesNoOtherEntity checks that no field of a public refusal
// belongs to the parent.
func TestPublicRefusalNamesNoOtherEntity(t *testing.T) {
	for _, c := range []struct {
		name    string
		take    limiter.Amounts
		message string
		never   bool
	}{
		{"only the parent", rpm(54_321), "Rate limit exceeded for alice/gpt-4. Retry after 1.7s", false},
		{
			"only the parent, forever", rpm(90_000),
			"Rate limit exceeded for alice/gpt-4. Never fits: the request is above a capacity", true,
		},
		{
			"both", tpm(100).And("rpm", 54_321),
			"Rate limit exceeded for alice/gpt-4: tpm (100 requested, 0 of 100 left). Retry after 1m", false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := start(t, limiter.PerMinute("rpm", 100_000), limiter.PerMinute("tpm", 100))
			w.family(t)
			check(t, w.SetLimits(bg, project, "", limiter.PerMinute("rpm", 76_543)))
			w.take(t, project, rpm(24_389)) // 52,154 are left
			w.take(t, alice, tpm(100))
			ex := &limiter.ExceededError{Decision: w.refuse(t, c.take)}
			public := ex.Public()
			if public.Message != c.message || public.NeverFits != c.never || (public.RetryAfter == 0) != c.never {
				t.Errorf("%+v", public)
			}
			if len(public.Limits) != 2 || public.Limits[0].Entity != alice || public.Limits[1].Entity != alice {
				t.Errorf("limits: %+v", public.Limits)
			}
			body, err := json.Marshal(public)
			check(t, err)
			for _, secret := range []string{project, "76543", "52154"} {
				if strings.Contains(string(body), secret) {
					t.Errorf("%s is in %s", secret, body)
				}
			}
			if hasWait := strings.Contains(string(body), `"retry_after_ms"`); hasWait == c.never ||
				!strings.Contains(string(body), `"rate_limit_exceeded"`) {
				t.Error(string(body))
			}
		})
	}
}

// TestRefusalOfMoneyReadsAsMoney checks that people read dollars, and programs
// both dollars and millionths.
func TestRefusalOfMoneyReadsAsMoney(t *testing.T) {
	budget := limiter.Quota("spend", 50_000_000, limiter.EveryMonth)
	ex := &limiter.ExceededError{Decision: limiter.Decision{Statuses: []limiter.Status{{
		Entity: "alice", Resource: resource, Limit: budget, Available: -1_250_000, Requested: 40_000,
		Exceeded: true, RetryAfter: 20 * 24 * time.Hour,
	}}}}
	if want := "rate limit exceeded for alice/gpt-4: spend ($0.04 requested, $1.25 in debt); retry after 20d"; ex.Error() != want {
		t.Errorf("got  %v\nwant %s", ex, want)
	}
	body, err := json.Marshal(ex)
	check(t, err)
	if want := `"available":-1250000,"requested":40000,"exceeded":true,"retry_after_seconds":1728000,` +
		`"dollars":{"capacity":50,"available":-1.25,"requested":0.04}}`; !strings.Contains(string(body), want) {
		t.Errorf("%s lacks %s", body, want)
	}
}

package httplimit_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// decode reads a problem document strictly.
func decode(t *testing.T, body string) (p httplimit.Problem) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		t.Fatalf("%v in %q", err, body)
	}
	return p
}

func TestRefusalIsAProblemDocument(t *testing.T) {
	r := newRig(t)
	handler := r.handler(hello, &httplimit.Options{Fields: httplimit.Fields{
		Units: map[string]string{"rpm": "requests"}, Legacy: true,
	}})
	for range 3 {
		serve(t.Context(), handler)
	}
	w := serve(t.Context(), handler)
	r.equal("status", w.Code, 429)
	for field, want := range map[string]string{
		"Content-Type": "application/problem+json", "Retry-After": "20", "Content-Length": fmt.Sprint(w.Body.Len()),
		"RateLimit-Policy":  `"rpm";q=3;w=60;qu="requests", "tpm";q=1000;w=60`,
		"RateLimit":         `"rpm";r=0;t=20, "tpm";r=700;t=1`,
		"X-Ratelimit-Limit": "3", "X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "20",
	} {
		r.equal(field, w.Header().Get(field), want)
	}
	r.equal("document", decode(t, w.Body.String()), httplimit.Problem{
		Type: httplimit.TypeQuotaExceeded, Title: "Quota exceeded", Status: 429,
		Detail: "rpm: the request needs 1, and 0 are available; retry after 20s", ViolatedPolicies: []string{"rpm"},
		Limits: []httplimit.LimitState{
			{Name: "rpm", Capacity: 3, Refill: 3, Seconds: 60, Available: 0, Requested: 1, Exceeded: true},
			{Name: "tpm", Capacity: 1000, Refill: 1000, Seconds: 60, Available: 700, Requested: 100},
		},
	})
	r.ended(3)
	r.reported()
}

// TestARefusalNeverShowsTheParent refuses by the parent's limit, once for a moment
// and once for ever. The answers contain neither its ID nor its numbers, nor the
// ID of the entity, which may come from a key.
func TestARefusalNeverShowsTheParent(t *testing.T) {
	for _, c := range []struct {
		name             string
		rpm              int64
		detail, retry    string
		wantStatusOfSelf string
	}{
		{
			"later", 1, "rpm: a limit that others share is exceeded; retry after 1m", "60",
			`"rpm";r=2;t=20, "tpm";r=900;t=1`,
		},
		{"never", 7, "rpm: the request is above a capacity that others share", "", `"rpm";r=50;t=2, "tpm";r=1000`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			const parent = "secret-project"
			r.ok(r.lim.SetLimits(context.Background(), parent, model, limiter.PerMinute("rpm", 1),
				limiter.PerMinute("tpm", 777_777)))
			_, err := r.lim.CreateEntity(context.Background(), limiter.Entity{ID: key, Parent: parent, Cascade: true})
			r.ok(err)
			if c.rpm > 1 {
				r.ok(r.lim.SetLimits(context.Background(), key, model, limiter.PerMinute("rpm", 51),
					limiter.PerMinute("tpm", 1000)))
			}
			limit := httplimit.New(r.lim, func(q *http.Request) (limiter.Request, error) {
				return limiter.Request{
					Entity: key, Resource: model, Consume: limiter.Tokens("rpm", c.rpm).And("tpm", 100),
				}, nil
			}, nil).Handler(http.HandlerFunc(hello))
			if c.rpm == 1 {
				serve(t.Context(), limit)
			} else {
				_, err := r.lim.Acquire(context.Background(), limiter.Request{
					Entity: key, Resource: model, Consume: limiter.Tokens("rpm", 1),
				})
				r.ok(err)
			}
			w := serve(t.Context(), limit)
			r.equal("status", w.Code, 429)
			r.equal("retry", w.Header().Get("Retry-After"), c.retry)
			r.equal("state", w.Header().Get("RateLimit"), c.wantStatusOfSelf)
			p := decode(t, w.Body.String())
			r.equal("detail", p.Detail, c.detail)
			r.equal("violated", p.ViolatedPolicies, []string{"rpm"})
			r.equal("limits", len(p.Limits), 2)
			for _, secret := range []string{parent, "777777", key} {
				if text := fmt.Sprint(w.Header(), w.Body); strings.Contains(text, secret) {
					t.Errorf("the answer contains %q: %s", secret, text)
				}
			}
		})
	}
}

func TestRequestThatNeverFits(t *testing.T) {
	r := newRig(t)
	limit := httplimit.New(r.lim, func(*http.Request) (limiter.Request, error) {
		return limiter.Request{Entity: key, Resource: model, Consume: limiter.Tokens("rpm", 1).And("tpm", 2000)}, nil
	}, nil)
	w := serve(t.Context(), limit.Handler(http.HandlerFunc(hello)))
	r.equal("status", w.Code, 429)
	r.equal("retry", w.Header().Values("Retry-After"), []string(nil))
	r.equal("state", w.Header().Get("RateLimit"), `"rpm";r=3, "tpm";r=1000`)
	r.equal("detail", decode(t, w.Body.String()).Detail, "tpm: the request needs 2000, above the capacity of 1000")
}

// TestProblemOfEveryError lists the statuses. No detail repeats the error's text.
func TestProblemOfEveryError(t *testing.T) {
	const secret = "sk-secret"
	plain := errors.New("dial " + secret)
	for _, c := range []struct {
		err    error
		status int
		retry  string
	}{
		{&limiter.UnavailableError{Op: "acquire", Entity: secret, Err: plain}, 503, "5"},
		{
			&limiter.DisabledError{
				Entity: secret, Resource: model, Scope: limiter.Scope{Entity: secret}, Reason: secret,
				Since: noon,
			},
			403, "",
		},
		{fmt.Errorf("%s: %w", secret, limiter.ErrClosed), 503, "5"},
		{context.DeadlineExceeded, 503, "5"},
		{&limiter.InvalidError{Field: "entity_id", Value: secret, Reason: "must not be empty"}, 400, ""},
		{
			&limiter.InvalidError{
				Field: "limits", Value: secret, Reason: "none for " + secret, Err: limiter.ErrNoLimits,
			},
			500, "",
		},
		{
			&limiter.InvalidError{Field: "model", Value: secret, Reason: "has no price in " + secret, Err: plain},
			500, "",
		},
		{&limiter.InvalidError{Field: "consume", Value: "tpm", Reason: "is no limit of " + secret}, 400, ""},
		{&http.MaxBytesError{Limit: 1}, 413, ""},
		{&limiter.CorruptError{Item: secret, Reason: "bad"}, 500, ""},
		{limiter.ErrNotFound, 500, ""},
		{plain, 500, ""},
		{&httplimit.Problem{Status: 401, Detail: "give an API key"}, 401, ""},
		{fmt.Errorf("no key: %w", &httplimit.Problem{Status: 402, RetryAfter: 1500 * time.Millisecond}), 402, "2"},
		{&httplimit.Problem{}, 400, ""},
		{&httplimit.Problem{Status: 422}, 422, ""},
		{&httplimit.Problem{Status: 17}, 400, ""},
	} {
		w := httptest.NewRecorder()
		httplimit.WriteError(w, c.err, nil)
		p := decode(t, w.Body.String())
		if w.Code != c.status || p.Status != c.status || w.Header().Get("Retry-After") != c.retry ||
			p.Type != httplimit.TypeBlank || p.Title != titleOf(c.status) {
			t.Errorf("%v: %d, Retry-After %q, %+v; want %d, %q", c.err, w.Code, w.Header().Get("Retry-After"), p,
				c.status, c.retry)
		}
		if strings.Contains(w.Body.String(), secret) {
			t.Errorf("%v: the answer repeats the error: %s", c.err, w.Body)
		}
	}
}

// titleOf returns the phrase of a status in RFC 9110, which net/http lacks of two.
func titleOf(status int) string {
	return cmp.Or(map[int]string{413: "Content Too Large", 422: "Unprocessable Content"}[status],
		http.StatusText(status))
}

func TestProblemIsAnError(t *testing.T) {
	p := &httplimit.Problem{Status: 401, Detail: "give an API key"}
	if got, want := p.Error(), "401 Unauthorized: give an API key"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestFailedMapping checks the answers to requests that the function cannot map.
func TestFailedMapping(t *testing.T) {
	secret := errors.New("no user for sk-secret")
	for _, c := range []struct {
		err      error
		status   int
		reported bool
	}{
		{secret, 400, true},
		{&httplimit.Problem{Status: 401}, 401, false},
		{fmt.Errorf("no key: %w", &httplimit.Problem{Status: 403}), 403, false},
		{&http.MaxBytesError{Limit: 1}, 413, true},
		{&limiter.UnavailableError{Err: secret}, 503, true},
	} {
		r := newRig(t)
		limit := httplimit.New(r.lim, func(*http.Request) (limiter.Request, error) {
			return limiter.Request{}, c.err
		}, &httplimit.Options{OnError: r.onError})
		w := serve(t.Context(), limit.Handler(r.handler(hello, nil)))
		r.equal("status", w.Code, c.status)
		if strings.Contains(w.Body.String(), "sk-secret") {
			t.Errorf("the answer repeats the error: %s", w.Body)
		}
		if c.reported {
			r.reported(c.err)
		} else {
			r.reported()
		}
	}
}

// TestRejectedRequests sends requests that the limiter rejects: a request without
// a key, a bad one, and one that the operator forgot, who hears of it.
func TestRejectedRequests(t *testing.T) {
	for _, c := range []struct {
		entity, resource string
		status, reports  int
		detail           string
	}{
		{"", model, 401, 0, "the request has no key, or no other sign of who sends it"},
		{key, "no such resource", 400, 1, `invalid resource: must begin with a letter, then letters, digits or "_.-/"`},
		{
			key, "unlimited", 500, 1,
			"the server is not set up for this request; its operator finds the reason in the log",
		},
	} {
		r := newRig(t)
		limit := httplimit.New(r.lim, func(*http.Request) (limiter.Request, error) {
			return limiter.Request{Entity: c.entity, Resource: c.resource, Consume: limiter.Tokens("rpm", 1)}, nil
		}, &httplimit.Options{OnError: r.onError})
		w := serve(t.Context(), limit.Handler(http.HandlerFunc(hello)))
		r.equal("status", w.Code, c.status)
		r.equal("detail", decode(t, w.Body.String()).Detail, c.detail)
		r.equal("reports", len(r.errs), c.reports)
	}
}

// A status 401 has a challenge, as RFC 9110 requires, and other answers have none.
func TestUnauthorizedHasAChallenge(t *testing.T) {
	r := newRig(t)
	challenge := func(problem error, opts *httplimit.Options) string {
		limit := httplimit.New(r.lim, func(*http.Request) (limiter.Request, error) {
			return limiter.Request{}, problem
		}, opts)
		return serve(t.Context(), limit.Handler(http.HandlerFunc(hello))).Header().Get("WWW-Authenticate")
	}
	const realm = `Bearer realm="api"`
	r.equal("no entity", challenge(nil, nil), "ApiKey")
	r.equal("no entity, with an option", challenge(nil, &httplimit.Options{Challenge: realm}), realm)
	r.equal("a problem", challenge(&httplimit.Problem{Status: 401}, &httplimit.Options{Challenge: realm}), "ApiKey")
	r.equal("a problem with a challenge", challenge(&httplimit.Problem{Status: 401, Challenge: realm}, nil), realm)
	r.equal("another status", challenge(&httplimit.Problem{Status: 403, Challenge: realm}, nil), "")
	w := httptest.NewRecorder()
	w.Header().Set("WWW-Authenticate", realm)
	httplimit.WriteError(w, &httplimit.Problem{Status: 401, Challenge: "Other"}, nil)
	r.equal("set before", w.Header().Values("WWW-Authenticate"), []string{realm})
}

// A call of no tokens is refused only by a debt.
func TestRefusalByADebt(t *testing.T) {
	refusal := &limiter.ExceededError{Decision: limiter.Decision{Statuses: []limiter.Status{
		{
			Entity: "key", Limit: limiter.PerMinute("tpm", 100), Available: -7, Exceeded: true,
			RetryAfter: 5 * time.Second,
		},
	}}}
	if got, want := httplimit.NewProblem(refusal).Detail, "tpm: the limit is in debt by 7; retry after 5s"; got != want {
		t.Errorf("detail %q, want %q", got, want)
	}
}

// A limit of money has its amounts in dollars beside the millionths.
func TestRefusalHasDollars(t *testing.T) {
	refusal := &limiter.ExceededError{Decision: limiter.Decision{Statuses: []limiter.Status{
		{
			Entity: "key", Limit: limiter.Quota("spend", 50_000_000, limiter.EveryMonth), Available: -125,
			Requested: 250_000, Exceeded: true,
		},
		{Entity: "key", Limit: limiter.PerMinute("rpm", 5), Available: 5, Requested: 1},
	}}}
	w := httptest.NewRecorder()
	httplimit.WriteError(w, refusal, nil)
	const dollars = `"available":-125,"requested":250000,"exceeded":true,"dollars":{"capacity":50,"refill_amount":0,"available":-0.000125,"requested":0.25}},{"name":"rpm"`
	if body := w.Body.String(); !strings.Contains(body, dollars) || strings.Count(body, "dollars") != 1 {
		t.Errorf("%s\nwant %s", body, dollars)
	}
}

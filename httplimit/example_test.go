package httplimit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/memory"
)

// exampleLimiter returns a limiter whose clock stands still.
func exampleLimiter(limits ...limiter.Limit) *limiter.RateLimiter {
	lim, err := limiter.New(memory.New(nil), &limiter.Options{Limits: limits, Now: func() time.Time { return noon }})
	if err != nil {
		panic(err)
	}
	return lim
}

// show sends a request to a handler and prints the answer.
func show(handler http.Handler, apiKey string) {
	w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/",
		http.NoBody)
	r.Header.Set("X-Api-Key", apiKey)
	handler.ServeHTTP(w, r)
	fmt.Println(strings.TrimSpace(fmt.Sprint(w.Code, " ", w.Header().Get("RateLimit"), " ", w.Body)))
}

// Two requests a minute for each API key.
func ExampleNew() {
	lim := exampleLimiter(limiter.PerMinute(limiter.RPM, 2))
	mux := http.NewServeMux()
	mux.HandleFunc("POST /", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "hello") })

	limit := httplimit.New(lim, func(r *http.Request) (limiter.Request, error) {
		return limiter.Request{
			Entity: r.Header.Get("X-Api-Key"), Resource: "api", Consume: limiter.Tokens(limiter.RPM, 1),
		}, nil
	}, nil)
	handler := limit.Handler(mux)

	for range 3 {
		show(handler, "key-abc")
	}
	// Output:
	// 200 "rpm";r=1;t=30 hello
	// 200 "rpm";r=0;t=30 hello
	// 429 "rpm";r=0;t=30 {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,"detail":"rpm: the request needs 1, and 0 are available; retry after 30s","violated-policies":["rpm"],"limits":[{"name":"rpm","capacity":2,"refill_amount":2,"refill_period_seconds":60,"available":0,"requested":1,"exceeded":true}]}
}

// A handler that knows only afterwards what it used.
func ExampleUsed() {
	lim := exampleLimiter(limiter.PerDay(limiter.TPD, 10_000))
	limit := httplimit.New(lim, func(r *http.Request) (limiter.Request, error) {
		return limiter.Request{
			Entity: r.Header.Get("X-Api-Key"), Resource: "gpt-4", Consume: limiter.Tokens(limiter.TPD, 500),
		}, nil
	}, nil)
	handler := limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = httplimit.Used(r.Context(), limiter.TPD, 620) // instead of the estimate of 500
	}))

	show(handler, "key-abc")
	show(handler, "key-abc")
	// Output:
	// 200 "tpd";r=9500;t=9
	// 200 "tpd";r=8880;t=9
}

// The function that maps requests chooses the answer to a request that it cannot
// map, and the requests that need no limit.
func ExampleProblem() {
	lim := exampleLimiter(limiter.PerMinute(limiter.RPM, 2))
	limit := httplimit.New(lim, func(r *http.Request) (limiter.Request, error) {
		switch apiKey := r.Header.Get("X-Api-Key"); apiKey {
		case "":
			return limiter.Request{}, &httplimit.Problem{Status: http.StatusUnauthorized, Detail: "set X-Api-Key"}
		case "admin":
			return limiter.Request{}, httplimit.ErrSkip
		default:
			return limiter.Request{Entity: apiKey, Resource: "api", Consume: limiter.Tokens(limiter.RPM, 1)}, nil
		}
	}, nil)
	handler := limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, "hello")
	}))

	show(handler, "")
	show(handler, "admin")
	// Output:
	// 401  {"type":"about:blank","title":"Unauthorized","status":401,"detail":"set X-Api-Key"}
	// 200  hello
}

// A client that keeps within the limits of another service. It waits for room
// as long as the request's context allows, and takes the real amount from the
// answer.
func ExampleNewTransport() {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Tokens", "120")
	}))
	defer api.Close()

	lim := exampleLimiter(limiter.PerMinute(limiter.TPM, 1000))
	client := &http.Client{Transport: httplimit.NewTransport(lim, func(*http.Request) (limiter.Request, error) {
		return limiter.Request{
			Entity: "our-account", Resource: "their-api", Consume: limiter.Tokens(limiter.TPM, 500),
		}, nil
	}, &httplimit.TransportOptions{Used: func(resp *http.Response) limiter.Amounts {
		n, _ := strconv.ParseInt(resp.Header.Get("X-Tokens"), 10, 64)
		return limiter.Tokens(limiter.TPM, n)
	}})}

	req, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, api.URL, http.NoBody)
	resp, err := client.Do(req)
	if err != nil {
		panic(err)
	}
	_ = resp.Body.Close()
	left, _ := lim.Explain(context.Background(), limiter.Request{
		Entity: "our-account", Resource: "their-api", Consume: limiter.Tokens(limiter.TPM, 0),
	})
	fmt.Println(resp.StatusCode, left.Statuses[0].Available)
	// Output: 200 880
}

package limiter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

// refuse answers a refused request. The client sees its own limits and when to
// retry, but nothing about its project.
func refuse(w http.ResponseWriter, err error) {
	ex, ok := errors.AsType[*limiter.ExceededError](err)
	if !ok {
		http.Error(w, "unavailable", http.StatusServiceUnavailable)
		return
	}
	if after := ex.RetryAfterHeader(); after != "" { // empty: no retry helps
		w.Header().Set("Retry-After", after)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusTooManyRequests)
	_ = json.NewEncoder(w).Encode(ex.Public())
}

// An HTTP handler that answers a refusal with status 429.
func ExampleExceededError_Public() {
	ctx := context.Background()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	lim, _ := limiter.New(memory.New(nil), &limiter.Options{Now: func() time.Time { return noon }})
	_ = lim.SetResourceDefaults(ctx, "gpt-4", limiter.PerMinute(limiter.RPM, 100))
	_ = lim.SetLimits(ctx, "project-1", "gpt-4", limiter.PerMinute(limiter.RPM, 2))
	_, _ = lim.CreateEntity(ctx, limiter.Entity{ID: "key-abc", Parent: "project-1", Cascade: true})

	handler := func(w http.ResponseWriter, r *http.Request) {
		err := lim.Do(r.Context(), limiter.Request{
			Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens(limiter.RPM, 1),
		},
			func(context.Context, *limiter.Lease) error { return nil })
		if err != nil {
			refuse(w, err)
		}
	}
	for range 3 {
		w := httptest.NewRecorder()
		handler(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil))
		fmt.Printf("%d %q\n%s", w.Code, w.Header().Get("Retry-After"), w.Body)
	}
	// Output:
	// 200 ""
	// 200 ""
	// 429 "30"
	// {"error":"rate_limit_exceeded","message":"Rate limit exceeded for key-abc/gpt-4. Retry after 30s","retry_after_seconds":30.001,"retry_after_ms":30001,"limits":[{"entity_id":"key-abc","resource":"gpt-4","limit_name":"rpm","capacity":100,"refill_amount":100,"refill_period_seconds":60,"available":98,"requested":1,"exceeded":false,"retry_after_seconds":0}]}
}

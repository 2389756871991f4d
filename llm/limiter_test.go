package llm_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/llm"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

var ctx = context.Background()

// newLimiter returns a limiter whose time never moves, with limits for model m.
func newLimiter(t *testing.T, repo limiter.Repository, limits ...limiter.Limit) *limiter.RateLimiter {
	t.Helper()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	lim, err := limiter.New(repo, &limiter.Options{Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	if err := lim.SetResourceDefaults(ctx, "m", limits...); err != nil {
		t.Fatal(err)
	}
	return lim
}

func newCosts(t *testing.T, lim *limiter.RateLimiter, opts *llm.Options) *llm.Limiter {
	t.Helper()
	costs, err := llm.New(lim, opts)
	if err != nil {
		t.Fatal(err)
	}
	return costs
}

func acquire(t *testing.T, costs *llm.Limiter, body string) *llm.Lease {
	t.Helper()
	req, err := llm.ParseRequest(llm.Chat, []byte(body), nil)
	if err != nil {
		t.Fatal(err)
	}
	lease, err := costs.Acquire(ctx, "key", "m", req)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func wantLeft(t *testing.T, lim *limiter.RateLimiter, want limiter.Amounts) {
	t.Helper()
	if got, err := lim.Available(ctx, "key", "m"); err != nil || !got.Equal(want) {
		t.Errorf("left %v, %v; want %v", got, err, want)
	}
}

const answer = `{"usage":{"prompt_tokens":30,"completion_tokens":12,"prompt_tokens_details":{"cached_tokens":10}}}`

// With FullEstimate, only a maximum that the request does not set is capped.
func TestFullEstimate(t *testing.T) {
	lim := newLimiter(t, memory.New(nil), limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 1_000))
	costs := newCosts(t, lim, &llm.Options{FullEstimate: true})
	for body, want := range map[string]int64{`{"model":"m","max_tokens":1000}`: 1000, `{"model":"m"}`: 250} {
		lease := acquire(t, costs, body)
		if got := lease.Estimate().Output; got != want {
			t.Errorf("%s: estimate %d, want %d", body, got, want)
		}
		if err := lease.Rollback(ctx); err != nil {
			t.Fatal(err)
		}
	}
	req, err := llm.ParseRequest(llm.Chat, []byte(`{"model":"m","max_tokens":1001}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := costs.Acquire(ctx, "key", "m", req); !errors.Is(err, limiter.ErrNeverFits) {
		t.Errorf("more than the limit: %v", err)
	}
	wantLeft(t, lim, limiter.Tokens("rpm", 100).And("tpm", 1_000))
}

func TestEstimates(t *testing.T) {
	lim := newLimiter(t, memory.New(nil), limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 10_000))
	costs := newCosts(t, lim, nil)
	for _, tc := range []struct {
		body string
		want llm.Usage
	}{
		{`{"model":"m","max_tokens":100}`, llm.Usage{Output: 100}},
		{`{"model":"m","messages":["12345678"]}`, llm.Usage{Input: 2, Output: 512}},
		{`{"model":"m","max_tokens":1000000}`, llm.Usage{Output: 2500}},
		{
			`{"model":"m","messages":["` + strings.Repeat("x", 4*9000) + `"],"max_tokens":5000}`,
			llm.Usage{Input: 9000, Output: 1000},
		},
	} {
		lease := acquire(t, costs, tc.body)
		if got := lease.Estimate(); got != tc.want {
			t.Errorf("%.60s: estimate %+v, want %+v", tc.body, got, tc.want)
		}
		if err := lease.Rollback(ctx); err != nil {
			t.Fatal(err)
		}
	}
	wantLeft(t, lim, limiter.Tokens("rpm", 100).And("tpm", 10_000))
}

func TestAveragesAreLearned(t *testing.T) {
	costs := newCosts(t, newLimiter(t, memory.New(nil), limiter.PerMinute("tpm", 100_000)),
		&llm.Options{Output: 7, MaxEntries: 2})
	call := func(entity, output string) int64 {
		req, _ := llm.ParseRequest(llm.Chat, []byte(`{"model":"m"}`), nil)
		lease, err := costs.Acquire(ctx, entity, "m", req)
		if err != nil {
			t.Fatal(err)
		}
		text := `{"usage":null}`
		if output != "" {
			text = `{"usage":{"prompt_tokens":1,"completion_tokens":` + output + `}}`
		}
		_, _ = lease.Write([]byte(text))
		if err := lease.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		return lease.Estimate().Output
	}
	for _, step := range []struct {
		entity, output string
		estimate       int64
	}{
		{"a", "100", 7},
		{"a", "200", 100},
		{"a", "", 120}, // an answer without usage teaches nothing
		{"a", "120", 120},
		{"b", "50", 120}, // as a
		{"c", "60", 85},  // as a and b
		{"a", "1", 55},   // its own are forgotten: b and c came after it
		{"a", "1", 55},   // and small answers make it no cheaper than the others
		{"c", "100", 60}, // its own
	} {
		if got := call(step.entity, step.output); got != step.estimate {
			t.Errorf("%+v: estimate %d", step, got)
		}
	}
}

func TestCommitCharges(t *testing.T) {
	all := []limiter.Limit{
		limiter.PerMinute("r", 100), limiter.PerMinute("t", 1000), limiter.PerMinute("i", 1000),
		limiter.PerMinute("o", 1000), limiter.PerMinute("c", 1000),
	}
	lim := newLimiter(t, memory.New(nil), all...)
	costs := newCosts(t, lim, &llm.Options{Limits: llm.Limits{
		Requests: "r", Total: "t", Input: "i", Output: "o", Cached: "c",
	}})
	lease := acquire(t, costs, `{"model":"m","max_tokens":50}`)
	_, _ = lease.Answer("application/json", "").Write([]byte(answer))
	if err := lease.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	left := limiter.Tokens("r", 99).And("t", 958).And("i", 970).And("o", 988).And("c", 990)
	wantLeft(t, lim, left)
	if u, reported := lease.Usage(); u != (llm.Usage{Input: 30, Output: 12, Cached: 10}) || !reported {
		t.Errorf("usage %+v, %t", u, reported)
	}
	if err := lease.Commit(ctx); !errors.Is(err, limiter.ErrLeaseDone) {
		t.Errorf("second commit: %v", err)
	}
	if err := acquire(t, costs, `{"model":"m","max_tokens":50}`).CommitRequest(ctx); err != nil {
		t.Fatal(err)
	}
	wantLeft(t, lim, left.And("r", -1))
}

func TestOneLimitForInputAndOutput(t *testing.T) {
	lim := newLimiter(t, memory.New(nil), limiter.PerMinute("t", 1000))
	costs := newCosts(t, lim, &llm.Options{Limits: llm.Limits{Input: "t", Output: "t"}})
	lease := acquire(t, costs, `{"model":"m","max_tokens":50}`)
	_, _ = lease.Write([]byte(answer))
	if err := lease.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	wantLeft(t, lim, limiter.Tokens("t", 958))
}

func TestOnlyLimitsInForceAreCharged(t *testing.T) {
	lim := newLimiter(t, memory.New(nil), limiter.PerMinute("rpm", 100))
	costs := newCosts(t, lim, nil)
	call := func() {
		t.Helper()
		lease := acquire(t, costs, `{"model":"m"}`)
		_, _ = lease.Write([]byte(answer))
		if err := lease.Commit(ctx); err != nil {
			t.Fatal(err)
		}
	}
	call()
	wantLeft(t, lim, limiter.Tokens("rpm", 99))
	if err := lim.SetResourceDefaults(ctx, "m", limiter.PerMinute("tpm", 1000)); err != nil { // rpm is gone
		t.Fatal(err)
	}
	call()
	wantLeft(t, lim, limiter.Tokens("tpm", 958))
	if err := lim.SetResourceDefaults(ctx, "m", limiter.PerMinute("words", 1000)); err != nil {
		t.Fatal(err)
	}
	if _, err := costs.Acquire(ctx, "key", "m", nil); !errors.Is(err, limiter.ErrNoLimits) {
		t.Errorf("without a limit to charge: %v", err)
	}
	if _, err := costs.Acquire(ctx, "key", "unknown", nil); !errors.Is(err, limiter.ErrNoLimits) {
		t.Errorf("without limits: %v", err)
	}
}

func TestStepsFollowAStream(t *testing.T) {
	lim := newLimiter(t, memory.New(nil), limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 40))
	costs := newCosts(t, lim, &llm.Options{Step: 10})
	lease := acquire(t, costs, `{"model":"m","stream":true,"max_tokens":10}`)
	lease.Answer("text/event-stream", "")
	event := `data: {"choices":[{"delta":{"content":"` + strings.Repeat("x", 20) + `"}}]}` + "\n\n" // 5 tokens
	n, err := lease.Write([]byte(strings.Repeat(event, 20)))
	if _, refused := errors.AsType[*limiter.ExceededError](err); !refused || n != 9*len(event) {
		t.Errorf("wrote %d bytes, %v; want a refusal after 9 events", n, err)
	}
	if err := lease.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	wantLeft(t, lim, limiter.Tokens("rpm", 99).And("tpm", -5))
}

func TestStepsCountTheTextOfCompletions(t *testing.T) {
	lim := newLimiter(t, memory.New(nil), limiter.PerMinute("tpm", 40))
	req, err := llm.ParseRequest(llm.Completions, []byte(`{"model":"m","stream":true,"max_tokens":10}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	lease, err := newCosts(t, lim, &llm.Options{Step: 10}).Acquire(ctx, "key", "m", req)
	if err != nil {
		t.Fatal(err)
	}
	event := `data: {"choices":[{"text":"` + strings.Repeat("x", 20) + `"}]}` + "\n\n" // 5 tokens
	n, err := lease.Answer("text/event-stream", "").Write([]byte(strings.Repeat(event, 20)))
	if _, refused := errors.AsType[*limiter.ExceededError](err); !refused || n != 9*len(event) {
		t.Errorf("wrote %d bytes, %v; want a refusal after 9 events", n, err)
	}
	if err := lease.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	wantLeft(t, lim, limiter.Tokens("tpm", -5))
}

// TestFinalReportsDoNotCutAStream checks streams that are complete when their usage
// turns out to be above the limit.
func TestFinalReportsDoNotCutAStream(t *testing.T) {
	const text, usage = `data: {"choices":[{"delta":{"content":"12345678"}}]}` +
		"\n\n", `"usage":{"prompt_tokens":5,"completion_tokens":5000}`
	for name, tc := range map[string]struct {
		format llm.Format
		stream string
	}{
		"chat": {llm.Chat, text + `data: {"choices":[],` + usage + "}\n\ndata: [DONE]\n\n"},
		"finish chunk": {
			llm.Chat,
			text + `data: {"choices":[{"delta":{},"finish_reason":"stop"}],` + usage + "}\n\ndata: [DONE]\n\n",
		},
		"messages": {llm.Messages, `data: {"type":"message_start","message":{"usage":{"input_tokens":5,"output_tokens":1}}}` + "\n\n" +
			`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5000}}` +
			"\n\n" + `data: {"type":"message_stop"}` + "\n\n"},
	} {
		lim := newLimiter(t, memory.New(nil), limiter.PerMinute("tpm", 400))
		req, err := llm.ParseRequest(tc.format, []byte(`{"model":"m","stream":true,"max_tokens":10}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		lease, err := newCosts(t, lim, &llm.Options{Step: 1}).Acquire(ctx, "key", "m", req)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := lease.Answer("text/event-stream", "").Write([]byte(tc.stream)); n != len(tc.stream) || err != nil {
			t.Errorf("%s: wrote %d of %d bytes, %v", name, n, len(tc.stream), err)
		}
		if err := lease.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		wantLeft(t, lim, limiter.Tokens("tpm", 400-5005))
	}
}

func TestStepsAreTakenTogether(t *testing.T) {
	charges := 0
	repo := repotest.NewFaulty(memory.New(nil), func(method string) repotest.Fault {
		if method == "Consume" {
			charges++
		}
		return repotest.None
	})
	lease := acquire(t, newCosts(t, newLimiter(t, repo, limiter.PerMinute("tpm", 4000)), &llm.Options{Step: 10}),
		`{"model":"m","stream":true,"max_tokens":10}`)
	charges = 0
	event := `data: {"choices":[{"delta":{"content":"` + strings.Repeat("x", 4000) + `"}}]}` + "\n\n"
	if _, err := lease.Answer("text/event-stream", "").Write([]byte(event)); err != nil || charges != 1 {
		t.Errorf("%d charges for one event, %v; want 1", charges, err)
	}
	if got := lease.Consumed().Get("tpm"); got != 1000 {
		t.Errorf("the lease holds %d tokens, want 1000", got)
	}
}

func TestCutBodiesAreChargedByTheirText(t *testing.T) {
	lim := newLimiter(t, memory.New(nil), limiter.PerMinute("tpm", 10_000))
	lease := acquire(t, newCosts(t, lim, nil), `{"model":"m","max_tokens":10}`)
	_, _ = lease.Write([]byte(`{"choices":[{"message":{"content":"` + strings.Repeat("word ", 4000)))
	if err := lease.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	wantLeft(t, lim, limiter.Tokens("tpm", 5000))
}

func TestMissingNumbersKeepTheEstimate(t *testing.T) {
	for usage, want := range map[string]int64{
		`{"prompt_tokens":30}`:                            30 + 50,
		`{"prompt_tokens":30,"completion_tokens":-9}`:     30 + 50,
		`{"prompt_tokens":-30,"completion_tokens":-9}`:    2 + 50,
		`{"prompt_tokens":-30,"completion_tokens":70}`:    2 + 70,
		`{"prompt_tokens":30,"completion_tokens":0}`:      30,
		`{"input_tokens":30,"output_tokens":9}`:           30 + 9,
		`{"prompt_tokens":"30","completion_tokens":null}`: 2 + 50,
	} {
		lim := newLimiter(t, memory.New(nil), limiter.PerMinute("tpm", 1000))
		lease := acquire(t, newCosts(t, lim, nil), `{"model":"m","messages":["12345678"],"max_tokens":50}`)
		_, _ = lease.Write([]byte(`{"usage":` + usage + `}`))
		if err := lease.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		if left, err := lim.Available(ctx, "key", "m"); err != nil || 1000-left.Get("tpm") != want {
			t.Errorf("%s: charged %d, %v; want %d", usage, 1000-left.Get("tpm"), err, want)
		}
	}
}

func TestAveragesAreForOneChoice(t *testing.T) {
	costs := newCosts(t, newLimiter(t, memory.New(nil), limiter.PerMinute("tpm", 100_000)), &llm.Options{Output: 50})
	for _, step := range []struct {
		n        string
		output   string
		estimate int64
	}{{"10", "1000", 500}, {"1", "100", 100}, {"3", "300", 300}} {
		lease := acquire(t, costs, `{"model":"m","n":`+step.n+`}`)
		if got := lease.Estimate().Output; got != step.estimate {
			t.Errorf("n = %s: estimate %d, want %d", step.n, got, step.estimate)
		}
		_, _ = lease.Write([]byte(`{"usage":{"prompt_tokens":1,"completion_tokens":` + step.output + `}}`))
		if err := lease.Commit(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOutages(t *testing.T) {
	down := false
	repo := repotest.NewFaulty(memory.New(nil), func(string) repotest.Fault {
		if down {
			return repotest.Before
		}
		return repotest.None
	})
	lim := newLimiter(t, repo, limiter.PerMinute("rpm", 100))
	costs := newCosts(t, lim, nil)
	down = true
	_, err := costs.Acquire(ctx, "key", "m", nil)
	if _, ok := errors.AsType[*limiter.UnavailableError](err); !ok {
		t.Errorf("in an outage: %v", err)
	}
	down = false
	if err := lim.SetOnUnavailable(ctx, limiter.Allow); err != nil {
		t.Fatal(err)
	}
	down = true
	lease, err := costs.Acquire(ctx, "key", "m", nil)
	if err != nil || lease.Outage() == nil || lease.Commit(ctx) != nil {
		t.Errorf("in an allowed outage: %v, %v", lease, err)
	}
	down = false
	wantLeft(t, lim, limiter.Tokens("rpm", 100))
}

func TestNewRejectsBadOptions(t *testing.T) {
	prices := func(string, time.Time) (llm.Price, error) { return llm.Price{}, nil }
	for _, opts := range []llm.Options{
		{Output: -1},
		{Step: -1},
		{MaxEntries: -1},
		{MaxBytes: -1},
		{Limits: llm.Limits{Cost: "spend"}},
		{Prices: prices, Limits: llm.Limits{Total: "spend"}},
		{Prices: prices, Limits: llm.Limits{Cost: "rpm", Requests: "rpm"}},
	} {
		if _, err := llm.New(nil, &opts); err == nil {
			t.Errorf("%+v was accepted", opts)
		}
	}
}

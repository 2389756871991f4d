package llm_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/llm"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

// prices returns a price of 3 and 15 millionths a token for m, and 5 for a call.
// From 2027 on, tokens are free.
func prices(t *testing.T) *llm.PriceList {
	t.Helper()
	list, err := llm.ParsePrices("prices.yaml", []byte(`
models:
  m:
  - {input: 3000000, output: 15000000, cache_read: 300000, cache_write: 4000000, request: 5}
  - {from: 2027-01-01, input: 0, output: 0}
`))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func wantSpent(t *testing.T, lim *limiter.RateLimiter, want int64) {
	t.Helper()
	left, err := lim.Available(ctx, "key", "m")
	if err != nil || left.Get("spend") != spendLimit-want {
		t.Errorf("the key has spent %d, %v; want %d", spendLimit-left.Get("spend"), err, want)
	}
}

const spendLimit = 1_000_000

func newSpender(t *testing.T, opts llm.Options) (*limiter.RateLimiter, *llm.Limiter) {
	t.Helper()
	lim := newLimiter(t, memory.New(nil), limiter.PerDay("spend", spendLimit))
	if opts.Prices == nil {
		opts.Prices = prices(t).Price
	}
	return lim, newCosts(t, lim, &opts)
}

// A call takes the cost of its estimate, and is corrected to its truth.
func TestCostIsCharged(t *testing.T) {
	for name, tc := range map[string]struct {
		answer string
		want   int64
	}{
		"less": {`{"usage":{"prompt_tokens":30,"completion_tokens":12}}`, 5 + 90 + 180},
		"more": {`{"usage":{"prompt_tokens":30,"completion_tokens":1000}}`, 5 + 90 + 15_000},
		"cached": {
			`{"usage":{"prompt_tokens":30,"completion_tokens":12,"prompt_tokens_details":{"cached_tokens":10,"cache_write_tokens":5}}}`,
			5 + 45 + 3 + 20 + 180,
		},
		"named reasoning": {
			`{"usage":{"prompt_tokens":30,"completion_tokens":12,"total_tokens":1042,"completion_tokens_details":{"reasoning_tokens":1000}}}`,
			5 + 90 + 15*1012,
		},
		"a total within the reservation": {
			`{"usage":{"prompt_tokens":30,"completion_tokens":12,"total_tokens":82}}`, 5 + 90 + 15*52,
		},
		"a total above the reservation": {
			`{"usage":{"prompt_tokens":30,"completion_tokens":12,"total_tokens":1042}}`, 5 + 90 + 15*100,
		},
		"cut": {`{"usage":`, 5 + 27*4 + 1500},
	} {
		t.Run(name, func(t *testing.T) {
			lim, costs := newSpender(t, llm.Options{})
			lease := acquire(t, costs, `{"model":"m","messages":["say more"],"max_tokens":100}`)
			const most = 5 + 27*4 + 1500 // 54 bytes at two bytes a token, all written to the cache
			if got := lease.Estimate().Cost; got != most {
				t.Errorf("estimate %d", got)
			}
			wantSpent(t, lim, most)
			_, _ = lease.Write([]byte(tc.answer))
			if err := lease.Commit(ctx); err != nil {
				t.Fatal(err)
			}
			if u, _ := lease.Usage(); u.Cost != tc.want {
				t.Errorf("cost %d, want %d", u.Cost, tc.want)
			}
			wantSpent(t, lim, tc.want)
		})
	}
}

// A call that the API refused costs no money, and one that is rolled back nothing.
func TestRefusedCallsAreFree(t *testing.T) {
	lim, costs := newSpender(t, llm.Options{})
	for _, end := range []func(*llm.Lease) error{
		func(l *llm.Lease) error { return l.CommitRequest(ctx) },
		func(l *llm.Lease) error { return l.Rollback(ctx) },
	} {
		if err := end(acquire(t, costs, `{"model":"m"}`)); err != nil {
			t.Fatal(err)
		}
		wantSpent(t, lim, 0)
	}
}

// The price at the beginning of a call is the price at its end.
func TestPriceOverMidnight(t *testing.T) {
	now := time.Date(2026, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
	lim, costs := newSpender(t, llm.Options{Now: func() time.Time { return now }})
	lease := acquire(t, costs, `{"model":"m","max_tokens":1}`)
	now = now.Add(1)
	_, _ = lease.Write([]byte(answer))
	if err := lease.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	wantSpent(t, lim, 5+60+3+180)
	if got := acquire(t, costs, `{"model":"m","max_tokens":1}`).Estimate().Cost; got != 0 {
		t.Errorf("the new price is %d", got)
	}
}

func TestCostNeedsPrices(t *testing.T) {
	lim := newLimiter(t, memory.New(nil), limiter.PerDay("spend", spendLimit))
	_, err := llm.New(lim, &llm.Options{Limits: llm.Limits{Cost: "spend"}})
	if _, ok := errors.AsType[*limiter.InvalidError](err); !ok {
		t.Errorf("a limit of cost without prices: %v", err)
	}
}

// A model without a price is refused where cost is limited, and only there.
func TestUnpricedModels(t *testing.T) {
	lim, costs := newSpender(t, llm.Options{})
	if err := lim.SetResourceDefaults(ctx, "rated", limiter.PerMinute("rpm", 10)); err != nil {
		t.Fatal(err)
	}
	req := &llm.Request{Format: llm.Chat, Model: "new-model", Choices: 1}
	_, err := costs.Acquire(ctx, "key", "m", req)
	bad, ok := errors.AsType[*limiter.InvalidError](err)
	if !ok || !errors.Is(err, llm.ErrNoPrice) || bad.Value != "new-model" ||
		!strings.Contains(bad.Reason, "prices.yaml") {
		t.Errorf("without a price: %v", err)
	}
	wantSpent(t, lim, 0)
	lease, err := costs.Acquire(ctx, "key", "rated", req)
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Commit(ctx); err != nil || lease.Consumed().Len() != 1 {
		t.Errorf("without a limit of cost: %v, %v", lease.Consumed(), err)
	}
	if _, err := costs.Acquire(ctx, "key", "m", nil); err != nil {
		t.Errorf("a call that is not about a model: %v", err)
	}
}

// In an outage, it is not known whether a limit of cost is in force. A model without a
// price passes only if the store stays away.
func TestUnpricedInAnOutage(t *testing.T) {
	for name, tc := range map[string]struct {
		failing []string
		passes  bool
	}{"the store is back": {[]string{"Peek"}, false}, "the store stays away": {[]string{"Peek", "Consume"}, true}} {
		t.Run(name, func(t *testing.T) {
			down := false
			repo := repotest.NewFaulty(memory.New(nil), func(method string) repotest.Fault {
				if down && slices.Contains(tc.failing, method) {
					return repotest.Before
				}
				return repotest.None
			})
			lim := newLimiter(t, repo, limiter.PerDay("spend", spendLimit))
			if err := lim.SetOnUnavailable(ctx, limiter.Allow); err != nil {
				t.Fatal(err)
			}
			costs := newCosts(t, lim, &llm.Options{Limits: llm.Limits{Cost: "spend"}, Prices: prices(t).Price})
			down = true
			lease, err := costs.Acquire(ctx, "key", "m", &llm.Request{Format: llm.Chat, Model: "new-model"})
			if tc.passes != (err == nil && lease.Outage() != nil) || !tc.passes && !errors.Is(err, llm.ErrNoPrice) {
				t.Errorf("%v, %v", lease, err)
			}
			down = false
			wantSpent(t, lim, 0)
		})
	}
}

// A shadow limit of cost is charged what it would be if it were enforced, and changes
// nothing else: it writes no maximum, and refuses no model without a price.
func TestShadowCost(t *testing.T) {
	lim := newLimiter(t, memory.New(nil), limiter.PerDay("tpm", 1_000_000),
		limiter.Quota("spend", 2000, limiter.EveryMonth).Shadow())
	costs := newCosts(t, lim, &llm.Options{Prices: prices(t).Price})
	for range 5 {
		lease := acquire(t, costs, `{"model":"m","max_tokens":100}`)
		if got := lease.Estimate(); got.Output != 100 || got.Cost != 1505 || lease.MaxOutput() != 0 ||
			lease.HoldsMoney() {
			t.Errorf("estimate %+v, maximum %d", got, lease.MaxOutput())
		}
		if err := lease.Commit(ctx); err != nil {
			t.Fatal(err)
		}
	}
	left, err := lim.Available(ctx, "key", "m")
	const cost = 5 + 15*4 + 1500 // 29 bytes
	// the other calls were spared
	if err != nil || left.Get("spend") != 2000-cost || left.Get("tpm") != 1_000_000-5*100 {
		t.Errorf("left %v, %v", left, err)
	}
	if _, err := costs.Acquire(ctx, "key", "m", &llm.Request{Format: llm.Chat, Model: "new-model"}); err != nil {
		t.Errorf("without a price: %v", err)
	}
}

// A budget of a month is full again in the next one, less its debt.
func TestBudgetOfAMonth(t *testing.T) {
	now := time.Date(2026, 1, 31, 23, 59, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	lim, err := limiter.New(memory.New(nil), &limiter.Options{Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	if err := lim.SetResourceDefaults(ctx, "m", limiter.Quota("spend", spendLimit, limiter.EveryMonth)); err != nil {
		t.Fatal(err)
	}
	costs := newCosts(t, lim, &llm.Options{Prices: prices(t).Price, Now: clock})
	lease := acquire(t, costs, `{"model":"m","max_tokens":100}`)
	_, _ = lease.Write([]byte(`{"usage":{"prompt_tokens":0,"completion_tokens":70000}}`))
	if err := lease.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	wantSpent(t, lim, 1_050_005)
	_, err = costs.Acquire(ctx, "key", "m", &llm.Request{Format: llm.Chat, Model: "m", MaxOutput: 100})
	refused, ok := errors.AsType[*limiter.ExceededError](err)
	if !ok || refused.Decision.RetryAfter() != time.Minute {
		t.Errorf("at the end of the month: %v", err)
	}
	now = now.Add(time.Minute)
	wantSpent(t, lim, 50_005)
	acquire(t, costs, `{"model":"m","max_tokens":100}`)
}

// A maximum that the request sets is reserved whole, also above a quarter of the
// limit. If it does not fit, the error names a maximum that does.
func TestMaximumIsReservedWhole(t *testing.T) {
	lim, costs := newSpender(t, llm.Options{})
	request := func(prompt, most, n int64) *llm.Request {
		return &llm.Request{Format: llm.Chat, Model: "m", Prompt: prompt, MaxOutput: most * n, Choices: n}
	}
	for _, tc := range []struct{ prompt, most, n, fits int64 }{
		{0, 66_666, 1, 0},
		{0, 66_667, 1, 66_666},
		{0, 520, 128, 0},
		{0, 521, 128, 520},
		{100_000, 40_000, 1, (spendLimit - 5 - 400_000) / 15},
		{250_000, 1, 1, 0}, // the prompt alone does not fit
	} {
		lease, err := costs.Acquire(ctx, "key", "m", request(tc.prompt, tc.most, tc.n))
		refused, isRefused := errors.AsType[*llm.SpendError](err)
		if isRefused != (tc.fits > 0 || tc.prompt == 250_000) || isRefused && (refused.MaxOutput != tc.fits ||
			refused.RetryAfter != 0) {
			t.Fatalf("%+v: %v", tc, err)
		}
		if !isRefused {
			if lease.MaxOutput() != 0 {
				t.Errorf("%+v: a maximum of %d would be written over the client's", tc, lease.MaxOutput())
			}
			if err := lease.Rollback(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	wantSpent(t, lim, 0)
}

// A cost beyond every number is refused, and an answer that reports one leaves a
// debt that does not wrap.
func TestHugeCosts(t *testing.T) {
	huge := func(string, time.Time) (llm.Price, error) { return llm.Price{Output: math.MaxInt64}, nil }
	lim, costs := newSpender(t, llm.Options{Prices: huge, FullEstimate: true})
	req := &llm.Request{Format: llm.Chat, Model: "m", MaxOutput: 1 << 40}
	if _, err := costs.Acquire(ctx, "key", "m", req); err == nil {
		t.Error("it is admitted")
	}
	lease, err := costs.Acquire(ctx, "key", "m", &llm.Request{Format: llm.Embeddings, Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = lease.Write([]byte(`{"usage":{"prompt_tokens":1,"completion_tokens":1000000000000}}`))
	if err := lease.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if left, err := lim.Available(ctx, "key", "m"); err != nil || left.Get("spend") != spendLimit-1_000_000_000_000 {
		t.Errorf("left %v, %v", left, err)
	}
}

// Steps of a stream take money too. Their sum is rounded up once.
func TestStepsTakeMoney(t *testing.T) {
	cheap := func(string, time.Time) (llm.Price, error) { return llm.Price{Output: 100_000}, nil }
	lim, costs := newSpender(t, llm.Options{Prices: cheap, Step: 3})
	lease := acquire(t, costs, `{"model":"m","stream":true,"max_tokens":1}`)
	lease.Answer("text/event-stream", "")
	for range 33 {
		if _, err := lease.Write([]byte(
			`data: {"choices":[{"delta":{"content":"123456789012"}}]}` + "\n\n",
		)); err != nil {
			t.Fatal(err)
		}
	}
	wantSpent(t, lim, 10) // 1 and 33 times 3 tokens at a tenth of a millionth
}

// A stream is cut where the money ends.
func TestMoneyCutsStreams(t *testing.T) {
	lim, costs := newSpender(t, llm.Options{Step: 10_000})
	lease := acquire(t, costs, `{"model":"m","stream":true,"max_tokens":10}`)
	lease.Answer("text/event-stream", "")
	event := `data: {"choices":[{"delta":{"content":"` + strings.Repeat("x", 40_000) + `"}}]}` + "\n\n"
	sent := 0
	for ; sent < 100; sent++ {
		if _, err := lease.Write([]byte(event)); err != nil {
			if _, refused := errors.AsType[*limiter.ExceededError](err); !refused {
				t.Error(err)
			}
			break
		}
	}
	if sent != 6 { // of 150,000 millionths each
		t.Errorf("cut after %d events", sent)
	}
	if err := lease.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	wantSpent(t, lim, 5+22*4+15*70_000)
}

// A budget of a project refuses its keys, by cascade.
func TestBudgetOfAProject(t *testing.T) {
	lim, costs := newSpender(t, llm.Options{})
	if err := lim.SetLimits(ctx, "project", "m", limiter.PerDay("spend", 20_000)); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b"} {
		if _, err := lim.CreateEntity(ctx, limiter.Entity{ID: key, Parent: "project", Cascade: true}); err != nil {
			t.Fatal(err)
		}
	}
	call := func(key string) error {
		lease, err := costs.Acquire(ctx, key, "m", &llm.Request{Format: llm.Chat, Model: "m", MaxOutput: 300})
		if err != nil {
			return err
		}
		_, _ = lease.Write([]byte(`{"usage":{"prompt_tokens":0,"completion_tokens":600}}`))
		return lease.Commit(ctx)
	}
	if err := errors.Join(call("a"), call("b")); err != nil {
		t.Fatal(err)
	}
	refused, ok := errors.AsType[*limiter.ExceededError](call("a"))
	if !ok || refused.Decision.Primary().Entity != "project" || refused.Decision.Primary().Limit.Name != "spend" {
		t.Errorf("the third call: %v", refused)
	}
	d, err := lim.Explain(ctx, limiter.Request{Entity: "a", Resource: "m"})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range d.Statuses {
		if want := map[string]int64{"a": spendLimit - 9005, "project": 20_000 - 2*9005}[s.Entity]; s.Available != want {
			t.Errorf("%s has %d left, want %d", s.Entity, s.Available, want)
		}
	}
}

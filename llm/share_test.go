package llm_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/llm"
	"github.com/zeroae/zae-limiter-go/memory"
)

// verdicts makes the same calls under limits, one a minute, and returns for each
// whether the limits refused it, or would have.
func verdicts(t *testing.T, opts llm.Options, limits ...limiter.Limit) (all []bool) {
	t.Helper()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	lim, err := limiter.New(memory.New(nil), &limiter.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	if err := lim.SetResourceDefaults(ctx, "m", limits...); err != nil {
		t.Fatal(err)
	}
	costs := newCosts(t, lim, &opts)
	for i := range 60 {
		now = now.Add(time.Minute)
		lease, err := costs.Acquire(ctx, "key", "m", &llm.Request{
			Format: llm.Chat, Model: "m", Prompt: 5, MaxOutput: 4096, Choices: 1,
		})
		if _, refused := errors.AsType[*limiter.ExceededError](err); refused {
			all = append(all, true)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		spared := false
		for _, s := range lease.Decision().Statuses {
			spared = spared || s.WouldRefuse
		}
		all = append(all, spared)
		text := `{"usage":{"prompt_tokens":100,"completion_tokens":200}}`
		if i%5 == 4 {
			text = "{" // cut: the estimate stays
		}
		_, _ = lease.Write([]byte(text))
		if err := lease.Commit(ctx); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// A shadow limit would refuse the calls that it refuses when it is enforced, however
// large the maximum of the requests is.
func TestShadowLimitsTakeWhatEnforcedOnesDo(t *testing.T) {
	refusals, passes := 0, 0
	for _, limit := range []limiter.Limit{
		limiter.PerMinute("tpm", 1000), limiter.PerMinute("tpm", 250), limiter.PerHour("tpm", 6000),
		limiter.Quota("tpm", 5000, limiter.EveryHour),
		limiter.Quota("spend", 2000, limiter.EveryMonth), limiter.Quota("spend", 20_000, limiter.EveryMonth),
		limiter.Quota("spend", 500_000, limiter.EveryMonth),
	} {
		for name, others := range map[string][]limiter.Limit{
			"alone":                 nil,
			"beside a small limit":  {limiter.PerMinute("otpm", 2000)},
			"beside a larger limit": {limiter.PerMinute("otpm", 100_000)},
		} {
			opts := llm.Options{
				Prices: prices(t).Price, Limits: llm.Limits{Requests: "rpm", Total: "tpm", Output: "otpm"},
			}
			others = append(others, limiter.PerMinute("rpm", 1000))
			refused := verdicts(t, opts, append(slices.Clone(others), limit)...)
			would := verdicts(t, opts, append(slices.Clone(others), limit.Shadow())...)
			if diff := cmp.Diff(refused, would); diff != "" {
				t.Errorf("%s %s (-refused +would refuse):\n%s", limit, name, diff)
			}
			refusals += strings.Count(fmt.Sprint(refused), "true")
			passes += strings.Count(fmt.Sprint(refused), "false")
		}
	}
	if refusals < 100 || passes < 100 {
		t.Errorf("%d refusals and %d calls that passed compare too little", refusals, passes)
	}
}

// Shadow limits change no amount but their own.
func TestShadowLimitsChangeTheirAmountAlone(t *testing.T) {
	lim := newLimiter(t, memory.New(nil), limiter.PerMinute("tpm", 8000),
		limiter.PerMinute("otpm", 400).Shadow(), limiter.PerMinute("itpm", 1).Shadow(),
		limiter.Quota("spend", 30_020, limiter.EveryMonth).Shadow())
	costs := newCosts(t, lim, &llm.Options{
		Prices: prices(t).Price, Limits: llm.Limits{Total: "tpm", Input: "itpm", Output: "otpm"},
	})
	lease, err := costs.Acquire(ctx, "key", "m", &llm.Request{Format: llm.Chat, Model: "m", Prompt: 5, MaxOutput: 4096})
	if err != nil {
		t.Fatal(err)
	}
	want := limiter.Tokens("itpm", 5).And("otpm", 100).And("spend", 5+5*4+4096*15).And("tpm", 2005)
	if got := lease.Consumed(); !got.Equal(want) {
		t.Errorf("took %v, want %v", got, want)
	}
	if got := lease.Estimate(); got != (llm.Usage{Input: 5, Output: 2000, Cost: 5 + 15 + 30_000}) {
		t.Errorf("estimate %+v", got)
	}
}

// One amount is charged to both a key and its project. Where one of them enforces
// the limit, it decides about the amount.
func TestEnforcedLimitOfTheParentDecides(t *testing.T) {
	lim := newLimiter(t, memory.New(nil), limiter.PerMinute("tpm", 400).Shadow())
	if err := lim.SetLimits(ctx, "project", "m", limiter.PerMinute("tpm", 4000)); err != nil {
		t.Fatal(err)
	}
	if _, err := lim.CreateEntity(ctx, limiter.Entity{ID: "key", Parent: "project", Cascade: true}); err != nil {
		t.Fatal(err)
	}
	lease := acquire(t, newCosts(t, lim, nil), `{"model":"m","max_tokens":4096}`)
	if got := lease.Consumed().Get("tpm"); got != 1000 {
		t.Errorf("took %d, want a quarter of the project's limit", got)
	}
}

// The steps of a stream begin for a shadow limit where they would begin if it were
// enforced. Together with the estimate, they cover the text.
func TestStepsOfShadowLimits(t *testing.T) {
	lim := newLimiter(t, memory.New(nil), limiter.PerMinute("tpm", 1000), limiter.PerMinute("otpm", 80).Shadow())
	costs := newCosts(t, lim, &llm.Options{Step: 10, Limits: llm.Limits{Total: "tpm", Output: "otpm"}})
	lease := acquire(t, costs, `{"model":"m","stream":true,"max_tokens":30}`)
	lease.Answer("text/event-stream", "")
	for i, want := range []limiter.Amounts{ // after 12 tokens each
		limiter.Tokens("otpm", 20).And("tpm", 30), limiter.Tokens("otpm", 30).And("tpm", 30),
		limiter.Tokens("otpm", 40).And("tpm", 40),
	} {
		if _, err := lease.Write([]byte(
			`data: {"choices":[{"delta":{"content":"` + strings.Repeat("x", 48) + `"}}]}` + "\n\n",
		)); err != nil {
			t.Fatal(err)
		}
		if got := lease.Consumed(); !got.Equal(want) {
			t.Errorf("event %d: the lease holds %v, want %v", i+1, got, want)
		}
	}
	if err := lease.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	wantLeft(t, lim, limiter.Tokens("otpm", 80-36).And("tpm", 1000-36))
}

// A limit that is set on a bucket in use is charged from the next call on, and
// models without a price are refused from then on.
func TestNewLimitsAreCharged(t *testing.T) {
	lim := newLimiter(t, memory.New(nil), limiter.PerMinute("rpm", 100))
	costs := newCosts(t, lim, &llm.Options{Prices: prices(t).Price})
	call := func() {
		t.Helper()
		lease := acquire(t, costs, `{"model":"m","max_tokens":100}`)
		_, _ = lease.Write([]byte(`{"usage":{"prompt_tokens":30,"completion_tokens":12}}`))
		if err := lease.Commit(ctx); err != nil {
			t.Fatal(err)
		}
	}
	call()
	unpriced := &llm.Request{Format: llm.Chat, Model: "new-model"}
	for range 2 {
		if _, err := costs.Acquire(ctx, "key", "m", unpriced); err != nil {
			t.Fatal(err)
		}
	}
	if err := lim.SetResourceDefaults(
		ctx, "m", limiter.PerMinute("rpm", 100), limiter.Quota("spend", spendLimit, limiter.EveryMonth),
	); err != nil {
		t.Fatal(err)
	}
	if _, err := costs.Acquire(ctx, "key", "m", unpriced); !errors.Is(err, llm.ErrNoPrice) {
		t.Errorf("without a price: %v", err)
	}
	call()
	wantLeft(t, lim, limiter.Tokens("rpm", 96).And("spend", spendLimit-5-90-180))
}

// A new limit that refuses does so at the first call, which costs nothing.
func TestNewLimitRefuses(t *testing.T) {
	lim := newLimiter(t, memory.New(nil), limiter.PerMinute("rpm", 100))
	costs := newCosts(t, lim, &llm.Options{FullEstimate: true})
	if err := acquire(t, costs, `{"model":"m"}`).Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := lim.SetResourceDefaults(
		ctx, "m", limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 10),
	); err != nil {
		t.Fatal(err)
	}
	_, err := costs.Acquire(ctx, "key", "m", &llm.Request{Format: llm.Chat, Model: "m", MaxOutput: 11})
	if !errors.Is(err, limiter.ErrNeverFits) {
		t.Errorf("above the new limit: %v", err)
	}
	wantLeft(t, lim, limiter.Tokens("rpm", 99).And("tpm", 10))
}

// A disabled key learns that it is disabled, and nothing about prices.
func TestDisabledComesBeforeThePrice(t *testing.T) {
	lim, costs := newSpender(t, llm.Options{})
	acquire(t, costs, `{"model":"m"}`) // the limits are known now
	if err := lim.Disable(ctx, limiter.Scope{Entity: "key"}, "leaked"); err != nil {
		t.Fatal(err)
	}
	_, err := costs.Acquire(ctx, "key", "m", &llm.Request{Format: llm.Chat, Model: "new-model"})
	if _, disabled := errors.AsType[*limiter.DisabledError](err); !disabled {
		t.Errorf("a disabled key and a model without a price: %v", err)
	}
}

package proxy

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/llm"
)

const (
	keyBudget     = 1_000_000 // of Alice, in millionths of a dollar
	projectBudget = 2_500_000
)

// newSpendRig starts a proxy with prices: the keys of Alice and Bob have a budget for
// all models, below one of their project. The model free has no limit of cost.
func newSpendRig(t *testing.T, answer http.HandlerFunc) *rig {
	t.Helper()
	prices, err := llm.ParsePrices("/etc/prices.yaml", []byte(`models: {"m*": {input: 1000000, output: 10000000, cache_read: 100000, cache_write: 2000000, request: 50}}`))
	if err != nil {
		t.Fatal(err)
	}
	mapping, err := ParseMapping([]byte("keys:\n- {sha256: " + HashKey(aliceKey) + ", entity: alice, parent: project}\n" +
		"- {sha256: " + HashKey("sk-bob") + ", entity: bob, parent: project}\nmodels: {\"*\": all, m: all, free: other}"))
	if err != nil {
		t.Fatal(err)
	}
	current := func() *Mapping { return mapping }
	r := newRig(t, answer, func(o *Options) {
		o.Prices, o.Mapping, o.Identify = prices.Price, current, ByMapping(current)
	})
	ctx := context.Background()
	if err := mapping.EnsureEntities(ctx, r.lim); err != nil {
		t.Fatal(err)
	}
	if err := r.lim.SetResourceDefaults(ctx, "all", limiter.Quota("spend", keyBudget, limiter.EveryMonth)); err != nil {
		t.Fatal(err)
	}
	if err := r.lim.SetLimits(ctx, "project", "all", limiter.Quota("spend", projectBudget, limiter.EveryMonth)); err != nil {
		t.Fatal(err)
	}
	return r
}

// spent returns what an entity has spent.
func (r *rig) spent(entity string, budget int64) int64 {
	r.t.Helper()
	d, err := r.lim.Explain(context.Background(), limiter.Request{Entity: entity, Resource: "all"})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, s := range d.Statuses {
		if s.Entity == entity {
			return budget - s.Available
		}
	}
	r.t.Fatalf("%s has no budget: %+v", entity, d)
	return 0
}

func (r *rig) wantSpent(entity string, budget, want int64) {
	r.t.Helper()
	r.proxy.calls.Wait()
	if got := r.spent(entity, budget); got != want {
		r.t.Errorf("%s has spent %d, want %d", entity, got, want)
	}
}

// The cost of a call is reserved before it and corrected after it, for the key and
// for the project.
func TestCostOfACall(t *testing.T) {
	var r *rig
	var held [2]int64
	r = newSpendRig(t, func(w http.ResponseWriter, req *http.Request) {
		held = [2]int64{r.spent("alice", keyBudget), r.spent("project", projectBudget)} //nolint:contextcheck // the test looks, not the request
		answerJSON(`{"usage":{"prompt_tokens":30,"completion_tokens":12,"prompt_tokens_details":{"cached_tokens":10,"cache_write_tokens":5}}}`)(w, req)
	})
	resp, _ := r.post(chatPath, `{"model":"m-2026","max_tokens":1000}`)
	r.wantStatus(resp, http.StatusOK)
	if want := int64(50 + 10_000); held != [2]int64{want, want} {
		t.Errorf("reserved %d, want %d", held, want)
	}
	const cost = 50 + 15 + 1 + 10 + 120
	r.wantSpent("alice", keyBudget, cost)
	r.wantSpent("project", projectBudget, cost)
	if log := r.log.String(); !strings.Contains(log, `"cost_microdollars":196`) || !strings.Contains(log, `"cache_write_tokens":5`) {
		t.Errorf("log %s", log)
	}
	if policy := resp.Header.Get("RateLimit-Policy"); !strings.Contains(policy, `"spend"`) {
		t.Errorf("policy %s", policy)
	}
}

// A key is refused at its budget, and every key at the budget of the project.
func TestBudgets(t *testing.T) {
	r := newSpendRig(t, answerJSON(`{"usage":{"prompt_tokens":0,"completion_tokens":90000}}`)) // 900,050
	if err := r.lim.SetLimits(context.Background(), "bob", "all", limiter.Quota("spend", 100*keyBudget, limiter.EveryMonth)); err != nil {
		t.Fatal(err)
	}
	call := func(key, model string) reply {
		resp, _ := r.post(chatPath, `{"model":"`+model+`","max_tokens":20000}`, "Authorization", "Bearer "+key)
		r.proxy.calls.Wait()
		return resp
	}
	r.wantStatus(call(aliceKey, "m"), http.StatusOK)
	r.wantStatus(call(aliceKey, "m-2"), http.StatusTooManyRequests) // another model, the same budget
	r.wantStatus(call("sk-bob", "m"), http.StatusOK)
	r.wantSpent("project", projectBudget, 2*900_050)
	r.wantStatus(call("sk-bob", "m"), http.StatusOK)
	refused := call("sk-bob", "m")
	r.wantStatus(refused, http.StatusTooManyRequests)
	if refused.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	r.wantSpent("project", projectBudget, 3*900_050) // in debt
	if r.calls() != 3 {
		t.Errorf("%d calls reached the upstream, want 3", r.calls())
	}
}

// Calls that the API refuses or fails cost no money.
func TestFailedCallsCostNoMoney(t *testing.T) {
	for _, status := range []int{400, 401, 429, 500} {
		r := newSpendRig(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		resp, _ := r.post(chatPath, `{"model":"m"}`)
		r.wantStatus(resp, status)
		r.wantSpent("alice", keyBudget, 0)
	}
}

// A model without a price is refused where cost is limited. The answer names no file.
func TestModelWithoutPrice(t *testing.T) {
	r := newSpendRig(t, answerJSON(plainChat))
	resp, body := r.post(chatPath, `{"model":"new"}`)
	r.wantStatus(resp, http.StatusBadRequest)
	if !strings.Contains(body, "the model has no price here") || strings.Contains(body, "prices.yaml") {
		t.Errorf("answer %s", body)
	}
	if log := r.log.String(); !strings.Contains(log, "no price") || !strings.Contains(log, `"outcome":"invalid"`) {
		t.Errorf("log %s", log)
	}
	r.wantSpent("alice", keyBudget, 0)
	resp, _ = r.post(chatPath, `{"model":"free"}`)
	r.wantStatus(resp, http.StatusOK)
}

// A stream is charged by its report, at the price of its beginning.
func TestCostOfAStream(t *testing.T) {
	r := newSpendRig(t, answerStream(delta, lastUsage, done))
	resp, _ := r.post(chatPath, chatCall)
	r.wantStatus(resp, http.StatusOK)
	r.wantSpent("alice", keyBudget, 50+30+120)
}

// Prices may change while the proxy runs.
func TestPricesChange(t *testing.T) {
	price := llm.Price{Request: 7}
	r := newRig(t, answerJSON(plainChat), func(o *Options) {
		o.Prices = func(_ string, at time.Time) (llm.Price, error) {
			if !at.Equal(noon) {
				t.Errorf("the price is asked for %s, not by the clock of the proxy", at)
			}
			return price, nil
		}
		o.Limits = llm.Limits{Cost: "tpm"}
	})
	for i, n := range []int64{7, 100, 0} {
		price.Request = n
		r.post(chatPath, plainCall)
		r.wantUsed("m", 0, []int64{7, 107, 107}[i])
	}
}

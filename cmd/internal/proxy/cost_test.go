package proxy

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
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
	prices, err := llm.ParsePrices("/etc/prices.yaml",
		[]byte(
			`models: {"m*": {input: 1000000, output: 10000000, cache_read: 100000, cache_write: 2000000, request: 50}}`,
		))
	if err != nil {
		t.Fatal(err)
	}
	mapping, err := ParseMapping([]byte("keys:\n- {sha256: " + HashKey(aliceKey) +
		", entity: alice, parent: project}\n" +
		"- {sha256: " + HashKey("sk-bob") + ", entity: bob, parent: project}\nmodels: {\"*\": all, m: all, " +
		"free: other}"))
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
	if err := r.lim.SetLimits(
		ctx, "project", "all", limiter.Quota("spend", projectBudget, limiter.EveryMonth),
	); err != nil {
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
		//nolint:contextcheck // the test looks, not the request
		held = [2]int64{r.spent("alice", keyBudget), r.spent("project", projectBudget)}
		answerJSON(
			`{"usage":{"prompt_tokens":30,"completion_tokens":12,"prompt_tokens_details":{"cached_tokens":10,"cache_write_tokens":5}}}`,
		)(w, req)
	})
	resp, _ := r.post(chatPath, `{"model":"m-2026","max_tokens":1000}`)
	r.wantStatus(resp, http.StatusOK)
	if want := int64(50 + 18*2 + 10_000); held != [2]int64{want, want} {
		t.Errorf("reserved %d, want %d", held, want)
	}
	const cost = 50 + 15 + 1 + 10 + 120
	r.wantSpent("alice", keyBudget, cost)
	r.wantSpent("project", projectBudget, cost)
	if log := r.log.String(); !strings.Contains(log, `"cost_microdollars":196`) ||
		!strings.Contains(log, `"cache_write_tokens":5`) {
		t.Errorf("log %s", log)
	}
	if policy := resp.Header.Get("RateLimit-Policy"); !strings.Contains(policy, `"spend";q=`) ||
		!strings.Contains(policy, `;qu="usd-millionths"`) {
		t.Errorf("policy %s", policy)
	}
}

// A key is refused at its budget, and every key at the budget of the project.
func TestBudgets(t *testing.T) {
	r := newSpendRig(t, answerJSON(`{"usage":{"prompt_tokens":0,"completion_tokens":90000}}`)) // 900,050
	if err := r.lim.SetLimits(
		context.Background(), "bob", "all", limiter.Quota("spend", 100*keyBudget, limiter.EveryMonth),
	); err != nil {
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
	if refused.Header.Get("Retry-After") == "" || refused.Header.Get("X-Should-Retry") != "false" {
		t.Errorf("a budget that is full next month: %v", refused.Header)
	}
	if log := r.log.String(); strings.Count(log, `"refused_by":"project"`) != 1 ||
		strings.Count(log, `"outcome":"refused"`) != 2 {
		t.Errorf("the log names the project for one of two refusals: %s", log)
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

// A model without a price is a fault of the proxy where cost is limited. The answer
// names no file, and the operator learns what to add.
func TestModelWithoutPrice(t *testing.T) {
	r := newSpendRig(t, answerJSON(plainChat))
	resp, body := r.post(chatPath, `{"model":"new"}`)
	r.wantStatus(resp, http.StatusInternalServerError)
	if !strings.Contains(body, "this proxy is not set up for the model") || strings.Contains(body, "price") {
		t.Errorf("answer %s", body)
	}
	r.proxy.calls.Wait()
	if log := r.log.String(); !strings.Contains(log, "no price") || !strings.Contains(log, `"outcome":"unset"`) {
		t.Errorf("log %s", log)
	}
	r.wantReport(`invalid model "new": has no price in /etc/prices.yaml; add the model, or a default named "*"`)
	r.wantSpent("alice", keyBudget, 0)
	resp, _ = r.post(chatPath, `{"model":"free"}`)
	r.wantStatus(resp, http.StatusOK)
	r.proxy.calls.Wait()
	if log := r.log.String(); !strings.Contains(log, `"outcome":"served"`) ||
		strings.Contains(log, "cost_microdollars") {
		t.Errorf("the log has a cost that is not known: %s", log)
	}
}

// A disabled key learns nothing about prices.
func TestDisabledKeyWithoutPrice(t *testing.T) {
	r := newSpendRig(t, answerJSON(plainChat))
	r.post(chatPath, `{"model":"m"}`)
	if err := r.lim.Disable(context.Background(), limiter.Scope{Entity: "alice"}, "leaked"); err != nil {
		t.Fatal(err)
	}
	resp, _ := r.post(chatPath, `{"model":"new"}`)
	r.wantStatus(resp, http.StatusForbidden)
}

// Texts about the limit of cost name dollars, and numbers for programs millionths.
func TestRefusalsNameDollars(t *testing.T) {
	r := newSpendRig(t, answerJSON(`{"usage":{"prompt_tokens":0,"completion_tokens":98000}}`)) // 980,050
	problem := func(call func() (reply, string)) httplimit.Problem {
		t.Helper()
		resp, body := call()
		r.proxy.calls.Wait()
		var p httplimit.Problem
		if err := json.Unmarshal([]byte(body), &p); err != nil && resp.StatusCode != http.StatusOK {
			t.Fatalf("%v: %s", err, body)
		}
		return p
	}
	chat := func(body string) func() (reply, string) {
		return func() (reply, string) { return r.post(chatPath, body) }
	}
	const month = "; retry after 30d12h" // from noon of January 1
	problem(chat(`{"model":"m"}`))
	p := problem(chat(`{"model":"m","max_tokens":2000}`))
	if want := "spend: the request needs $0.020082, and $0.01995 of $1.00 are available this month; a " +
		"max_tokens of 1986 would fit" + month; p.Detail != want {
		t.Errorf("detail %q, want %q", p.Detail, want)
	}
	if len(p.Limits) != 1 || p.Limits[0].Requested != 20_082 || p.Limits[0].Available != 19_950 {
		t.Errorf("limits %+v", p.Limits)
	}
	problem(chat(`{"model":"m","max_tokens":1}`)) // into debt
	for body, want := range map[string]string{
		`{"model":"m","max_tokens":1}`: "spend: the request needs $0.000088, and the budget of $1.00 is in " +
			"debt by $0.9601",
		`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("her ", 1_000_001) +
			`"}]}`: "spend: the request needs $4.00267, above the budget of $1.00",
	} {
		if p := problem(chat(body)); !strings.HasPrefix(p.Detail, want) {
			t.Errorf("detail %q, want %q", p.Detail, want)
		}
	}
	if log := r.log.String(); !strings.Contains(log, `"problem":"spend: the request needs $0.020082,`) {
		t.Errorf("log %s", log)
	}
}

// A call that is not about a model costs nothing, and a budget in debt refuses it.
func TestOtherCallsOfABudget(t *testing.T) {
	prices := func(string, time.Time) (llm.Price, error) { return llm.Price{Output: 1_000_000}, nil }
	r := newRig(t, answerJSON(`{"usage":{"prompt_tokens":0,"completion_tokens":1500}}`), func(o *Options) {
		o.Prices, o.OtherResource = prices, "all"
		o.Mapping = func() *Mapping { return &Mapping{Models: map[string]string{"*": "all"}} }
	})
	if err := r.lim.SetResourceDefaults(
		context.Background(), "all", limiter.Quota("spend", 1000, limiter.EveryDay),
	); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		resp, body := r.post("/v1/files", "")
		r.wantStatus(resp, want)
		if want == http.StatusTooManyRequests && !strings.Contains(
			body, "spend: the budget of $0.001 is in debt by $0.0005; retry",
		) {
			t.Errorf("answer %s", body)
		}
		r.post(chatPath, plainCall)
		r.proxy.calls.Wait()
	}
}

// Streams that are cut name dollars too.
func TestCutStreamsNameDollars(t *testing.T) {
	event := `data: {"choices":[{"delta":{"content":"` + strings.Repeat("x", 400) + `"}}]}` + "\n\n" // 100 tokens
	r := newRig(t, answerStream(slices.Repeat([]string{event}, 30)...), func(o *Options) {
		o.Step = 10
		o.Prices = func(string, time.Time) (llm.Price, error) { return llm.Price{Output: 1_000_000}, nil }
	})
	if err := r.lim.SetResourceDefaults(
		context.Background(), "m", limiter.Quota("spend", 1000, limiter.EveryDay),
	); err != nil {
		t.Fatal(err)
	}
	_, body := r.post(chatPath, `{"model":"m","stream":true,"max_tokens":100}`)
	if !strings.Contains(
		body,
		"the answer was cut: spend: the request needs $0.0001, and $0.00 of $0.001 are available today; retry",
	) {
		t.Errorf("the stream ends with %q", body[max(0, len(body)-300):])
	}
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

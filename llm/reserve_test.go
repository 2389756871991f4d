package llm_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/llm"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

// tokenPrice costs a millionth for each token of an answer, and nothing else.
func tokenPrice(p llm.Price) llm.PriceFunc {
	p.Output = 1_000_000
	return func(string, time.Time) (llm.Price, error) { return p, nil }
}

func chat(t *testing.T, fields string) *llm.Request {
	t.Helper()
	return parse(t, llm.Chat, fields)
}

func parse(t *testing.T, f llm.Format, fields string) *llm.Request {
	t.Helper()
	req, err := llm.ParseRequest(f, []byte(`{"model":"m"`+fields+`}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// A request without a maximum gets the smallest of what the model can write, what
// the options allow and what a quarter of the money left buys, but 256 tokens at
// least.
func TestChosenMaximum(t *testing.T) {
	for name, tc := range map[string]struct {
		budget int64
		price  llm.Price
		opts   llm.Options
		fields string
		want   int64
	}{
		"default":        {1_000_000, llm.Price{}, llm.Options{}, "", 8192},
		"option":         {1_000_000, llm.Price{}, llm.Options{MaxOutput: 1000}, "", 1000},
		"small option":   {1_000_000, llm.Price{}, llm.Options{MaxOutput: 10}, "", 10},
		"model":          {1_000_000, llm.Price{MaxOutput: 4096}, llm.Options{}, "", 4096},
		"small model":    {1_000_000, llm.Price{MaxOutput: 100}, llm.Options{}, "", 100},
		"money":          {8000, llm.Price{}, llm.Options{}, "", 2000},
		"little money":   {900, llm.Price{}, llm.Options{}, "", 256},
		"several":        {80_000, llm.Price{}, llm.Options{}, `,"n":10`, 2000},
		"best of":        {80_000, llm.Price{}, llm.Options{}, `,"n":2,"best_of":1e1`, 2000},
		"after a prompt": {8000, llm.Price{Request: 4000}, llm.Options{}, "", 1000},
		"context":        {1_000_000, llm.Price{Context: 4096, Input: 1}, llm.Options{}, "", 4096 - 7},
		"lifted":         {8000, llm.Price{}, llm.Options{}, `,"max_tokens":-1`, 2000},
		"none":           {8000, llm.Price{}, llm.Options{}, `,"max_tokens":null`, 2000},
	} {
		t.Run(name, func(t *testing.T) {
			tc.opts.Prices = tokenPrice(tc.price)
			lim := newLimiter(t, memory.New(nil), limiter.Quota("spend", tc.budget, limiter.EveryMonth))
			lease, err := newCosts(t, lim, &tc.opts).Acquire(ctx, "key", "m", chat(t, tc.fields))
			if err != nil {
				t.Fatal(err)
			}
			if got := lease.MaxOutput(); got != tc.want {
				t.Errorf("maximum %d, want %d", got, tc.want)
			}
			req := chat(t, tc.fields)
			if got, want := lease.Estimate().Cost, tc.want*req.Choices+tc.price.Request+
				min(tc.price.Input, 1); got != want {
				t.Errorf("reserved %d, want %d", got, want)
			}
		})
	}
}

// Calls beside each other get less and less, not a refusal, while there is money
// for 256 tokens. The others may retry soon. What was not used comes back.
func TestParallelCallsShareTheMoney(t *testing.T) {
	const budget, calls = 100_000, 100
	lim := newLimiter(t, memory.New(nil), limiter.Quota("spend", budget, limiter.EveryMonth))
	costs := newCosts(t, lim, &llm.Options{Prices: tokenPrice(llm.Price{})})
	var mu sync.Mutex
	var leases []*llm.Lease
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			lease, err := costs.Acquire(ctx, "key", "m", chat(t, ""))
			if refused, ok := errors.AsType[*llm.SpendError](err); ok && refused.RetryAfter > 0 {
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			leases = append(leases, lease)
		})
	}
	all.Wait()
	var reserved, least, most int64
	for _, lease := range leases {
		reserved += lease.MaxOutput()
		least, most = min(cmp.Or(least, lease.MaxOutput()), lease.MaxOutput()), max(most, lease.MaxOutput())
	}
	if reserved > budget || reserved <= budget-256 || len(leases) < 20 || least != 256 || most != 8192 {
		t.Errorf("%d calls reserved %d of %d, from %d to %d each", len(leases), reserved, budget, least, most)
	}
	for _, lease := range leases {
		_, _ = lease.Write([]byte(`{"usage":{"prompt_tokens":1,"completion_tokens":10}}`))
		if err := lease.Commit(ctx); err != nil {
			t.Fatal(err)
		}
	}
	wantLeft(t, lim, limiter.Tokens("spend", budget-int64(len(leases))*10))
}

// The keys of a project hold no more than its budget together, whatever their own
// budgets are.
func TestParallelKeysOfAProject(t *testing.T) {
	const budget, keys, calls = 50_000, 5, 20
	lim := newLimiter(t, memory.New(nil), limiter.Quota("spend", 40_000, limiter.EveryMonth))
	if err := lim.SetLimits(ctx, "project", "m", limiter.Quota("spend", budget, limiter.EveryMonth)); err != nil {
		t.Fatal(err)
	}
	costs := newCosts(t, lim, &llm.Options{Prices: tokenPrice(llm.Price{})})
	var reserved, admitted atomic.Int64
	var all sync.WaitGroup
	for i := range keys {
		key := fmt.Sprintf("key-%d", i)
		if _, err := lim.CreateEntity(ctx, limiter.Entity{ID: key, Parent: "project", Cascade: true}); err != nil {
			t.Fatal(err)
		}
		for range calls {
			all.Go(func() {
				lease, err := costs.Acquire(ctx, key, "m", chat(t, ""))
				if refused, ok := errors.AsType[*llm.SpendError](err); ok && refused.RetryAfter > 0 {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				reserved.Add(lease.Estimate().Cost)
				admitted.Add(1)
			})
		}
	}
	all.Wait()
	if got := reserved.Load(); got > budget || got < budget-256 || admitted.Load() < 15 {
		t.Errorf("%d calls reserved %d of %d", admitted.Load(), got, budget)
	}
}

// A refusal that open calls would cover says so, and one for spent money does not.
func TestRefusalWhileMoneyIsHeld(t *testing.T) {
	lim := newLimiter(t, memory.New(nil), limiter.Quota("spend", 1000, limiter.EveryMonth))
	if err := lim.SetLimits(ctx, "project", "m", limiter.Quota("spend", 1500, limiter.EveryMonth)); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"key", "other"} {
		if _, err := lim.CreateEntity(ctx, limiter.Entity{ID: key, Parent: "project", Cascade: true}); err != nil {
			t.Fatal(err)
		}
	}
	costs := newCosts(t, lim, &llm.Options{Prices: tokenPrice(llm.Price{})})
	refused := func(entity, most string) *llm.SpendError {
		t.Helper()
		_, err := costs.Acquire(ctx, entity, "m", chat(t, `,"max_tokens":`+most))
		refusal, ok := errors.AsType[*llm.SpendError](err)
		if _, exceeded := errors.AsType[*limiter.ExceededError](err); !ok || !exceeded {
			t.Fatalf("%s: %v", most, err)
		}
		return refusal
	}
	first := acquire(t, costs, `{"model":"m","max_tokens":900}`)
	if e := refused("key", "200"); e.RetryAfter < time.Second || e.RetryAfter > 5*time.Second || e.MaxOutput != 100 ||
		e.Field != "max_tokens" {
		t.Errorf("held by the same key: %+v", e)
	}
	if e := refused("other", "700"); e.RetryAfter < time.Second || e.RetryAfter > 5*time.Second || e.MaxOutput != 600 {
		t.Errorf("held by another key of the project: %+v", e)
	}
	if e := refused("key", "1001"); e.RetryAfter != 0 || !errors.Is(e, limiter.ErrNeverFits) || e.MaxOutput != 100 {
		t.Errorf("above the budget: %+v", e)
	}
	_, _ = first.Write([]byte(`{"usage":{"prompt_tokens":1,"completion_tokens":900}}`))
	if err := first.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if e := refused("key", "200"); e.RetryAfter != 0 || !strings.Contains(e.Error(), "; a max_tokens of 100 fits") {
		t.Errorf("spent: %v", e)
	}
}

// Where requests are sent as they are, the longest answer of the model is reserved.
func TestKeptRequests(t *testing.T) {
	for name, tc := range map[string]struct {
		price  llm.Price
		fields string
		want   int64 // 0 if the call is refused
	}{
		"model":      {llm.Price{MaxOutput: 3000, Context: 9000}, "", 3000},
		"several":    {llm.Price{MaxOutput: 3000}, `,"n":3`, 9000},
		"context":    {llm.Price{Context: 9000}, "", 9000},
		"not known":  {llm.Price{}, "", 0},
		"the client": {llm.Price{MaxOutput: 3000}, `,"max_tokens":5000`, 5000},
		"ignored":    {llm.Price{MaxOutput: 3000}, `,"max_new_tokens":5`, 3000},
		"obeyed":     {llm.Price{MaxOutput: 3000}, `,"max_new_tokens":5000`, 5000},
	} {
		lim := newLimiter(t, memory.New(nil), limiter.Quota("spend", 10_000, limiter.EveryMonth))
		costs := newCosts(t, lim, &llm.Options{Prices: tokenPrice(tc.price), KeepRequests: true})
		lease, err := costs.Acquire(ctx, "key", "m", chat(t, tc.fields))
		if tc.want == 0 {
			if !errors.Is(err, llm.ErrUnbounded) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || lease.Estimate().Cost != tc.want || lease.MaxOutput() != 0 {
			t.Errorf("%s: %v; want %d", name, err, tc.want)
		}
	}
}

// Input that the request does not contain is reserved at the context of the model.
func TestReferencesReserveTheContext(t *testing.T) {
	price := llm.Price{Input: 1_000_000, CacheWrite: 1_250_000}
	for _, tc := range []struct {
		format llm.Format
		fields string
	}{
		{llm.Responses, `,"previous_response_id":"resp_1","max_output_tokens":10`},
		{
			llm.Chat,
			`,"max_tokens":10,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/x.png"}}]}]`,
		},
	} {
		lim := newLimiter(t, memory.New(nil), limiter.Quota("spend", 1_000_000, limiter.EveryMonth))
		_, err := newCosts(t, lim, &llm.Options{Prices: tokenPrice(price)}).Acquire(ctx, "key", "m",
			parse(t, tc.format, tc.fields))
		if _, invalid := errors.AsType[*limiter.InvalidError](err); !invalid || !errors.Is(err, llm.ErrUnbounded) {
			t.Errorf("%s: %v", tc.fields, err)
		}
		known := price
		known.Context = 100_000
		lease, err := newCosts(t, lim, &llm.Options{Prices: tokenPrice(known)}).Acquire(ctx, "key", "m",
			parse(t, tc.format, tc.fields))
		if err != nil || lease.Estimate().Cost != 125_010 {
			t.Errorf("%s: %+v, %v", tc.fields, lease, err)
		}
	}
	free := llm.Price{}
	lim := newLimiter(t, memory.New(nil), limiter.Quota("spend", 1_000_000, limiter.EveryMonth))
	if _, err := newCosts(t, lim, &llm.Options{Prices: tokenPrice(free)}).Acquire(
		ctx, "key", "m", parse(t, llm.Responses, `,"conversation":"c"`),
	); err != nil {
		t.Errorf("a prompt that costs nothing: %v", err)
	}
}

// A shadow limit of cost refuses no call whose cost has no bound.
func TestShadowLimitsNeedNoBound(t *testing.T) {
	lim := newLimiter(t, memory.New(nil), limiter.PerMinute("rpm", 10),
		limiter.Quota("spend", 10, limiter.EveryMonth).Shadow())
	costs := newCosts(t, lim, &llm.Options{Prices: tokenPrice(llm.Price{Input: 1}), KeepRequests: true})
	lease, err := costs.Acquire(ctx, "key", "m", parse(t, llm.Responses, `,"previous_response_id":"x"`))
	if err != nil || lease.MaxOutput() != 0 {
		t.Error(err)
	}
}

// A disabled key learns nothing about prices.
func TestDisabledBeforeUnbounded(t *testing.T) {
	lim := newLimiter(t, memory.New(nil), limiter.Quota("spend", 10_000, limiter.EveryMonth))
	costs := newCosts(t, lim, &llm.Options{Prices: tokenPrice(llm.Price{Input: 1})})
	acquire(t, costs, `{"model":"m","max_tokens":1}`)
	if err := lim.Disable(ctx, limiter.Scope{Entity: "key"}, "leaked"); err != nil {
		t.Fatal(err)
	}
	_, err := costs.Acquire(ctx, "key", "m", parse(t, llm.Responses, `,"previous_response_id":"x"`))
	if _, ok := errors.AsType[*limiter.DisabledError](err); !ok {
		t.Error(err)
	}
}

// A response in the background is charged what it reserved, whatever its first
// answer says. A stream that ends with its usage is charged that.
func TestBackgroundIsChargedItsReservation(t *testing.T) {
	const queued = `{"status":"queued","usage":{"input_tokens":0,"output_tokens":0}}`
	const completed = `data: {"type":"response.completed","response":{"usage":{"input_tokens":3,"output_tokens":4}}}` +
		"\n\n"
	const early = `data: {"type":"response.created","response":{"usage":{"input_tokens":0,"output_tokens":0}}}` + "\n\n"
	for _, tc := range []struct {
		kind, answer string
		want         int64
	}{
		{"application/json", queued, 1000},
		{"text/event-stream", completed, 4},
		{"text/event-stream", "data: {}\n\n", 1000},
		{"text/event-stream", early, 1000},
	} {
		lim := newLimiter(t, memory.New(nil), limiter.Quota("spend", 10_000, limiter.EveryMonth))
		costs := newCosts(t, lim, &llm.Options{Prices: tokenPrice(llm.Price{})})
		lease, err := costs.Acquire(ctx, "key", "m",
			parse(t, llm.Responses, `,"background":true,"max_output_tokens":1000`))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = lease.Answer(tc.kind, "").Write([]byte(tc.answer))
		if err := lease.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		wantLeft(t, lim, limiter.Tokens("spend", 10_000-tc.want))
	}
}

// counting counts the calls of a store.
type counting struct {
	limiter.Repository
	mu     sync.Mutex
	counts map[string]int
}

func newCounting(repo limiter.Repository) *counting {
	c := &counting{counts: map[string]int{}}
	c.Repository = repotest.NewFaulty(repo, func(method string) repotest.Fault {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.counts[method]++
		return repotest.None
	})
	return c
}

// A call with money needs no request beside its charge and its correction.
func TestReservationsNeedNoReads(t *testing.T) {
	repo := newCounting(memory.New(nil))
	lim := newLimiter(t, repo, limiter.Quota("spend", 1_000_000, limiter.EveryMonth))
	costs := newCosts(t, lim, &llm.Options{Prices: tokenPrice(llm.Price{})})
	call := func() {
		lease := acquire(t, costs, `{"model":"m"}`)
		_, _ = lease.Write([]byte(`{"usage":{"prompt_tokens":1,"completion_tokens":10}}`))
		if err := lease.Commit(ctx); err != nil {
			t.Fatal(err)
		}
	}
	call()
	repo.mu.Lock()
	clear(repo.counts)
	repo.mu.Unlock()
	for range 10 {
		call()
	}
	repo.mu.Lock()
	defer repo.mu.Unlock()
	sum := 0
	for _, n := range repo.counts {
		sum += n
	}
	if repo.counts["Consume"] != 10 || sum != 20 {
		t.Errorf("10 calls needed %v", repo.counts)
	}
}

// Money that another process gave back, or a new window, is seen.
func TestMoneyThatComesBackIsSeen(t *testing.T) {
	now := time.Date(2026, 1, 31, 23, 59, 0, 0, time.UTC)
	lim, err := limiter.New(memory.New(nil), &limiter.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	if err := lim.SetResourceDefaults(
		context.Background(), "m", limiter.Quota("spend", 100_000, limiter.EveryMonth),
	); err != nil {
		t.Fatal(err)
	}
	costs := newCosts(t, lim, &llm.Options{Prices: tokenPrice(llm.Price{})})
	spend := acquire(t, costs, `{"model":"m","max_tokens":99000}`)
	_, _ = spend.Write([]byte(`{"usage":{"prompt_tokens":1,"completion_tokens":99000}}`))
	if err := spend.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if got := acquire(t, costs, `{"model":"m"}`).MaxOutput(); got != 256 {
		t.Errorf("%d tokens for the last money", got)
	}
	now = now.Add(time.Minute)
	costs.ForgetPurses()
	if got := acquire(t, costs, `{"model":"m"}`).MaxOutput(); got != 8192 {
		t.Errorf("%d tokens in a new month", got)
	}
}

// Every write of a maximum leaves one maximum in the body.
func TestMaxOutputEdits(t *testing.T) {
	for _, tc := range []struct {
		format            llm.Format
		field, body, want string
	}{
		{llm.Chat, "", `{"model":"m"}`, `{"max_completion_tokens":7,"model":"m"}`},
		{llm.Chat, "max_tokens", ` { "model":"m"}`, ` {"max_tokens":7, "model":"m"}`},
		{llm.Chat, "max_tokens", `{"max_tokens":null,"model":"m"}`, `{"max_tokens":7,"model":"m"}`},
		{
			llm.Chat, "max_tokens", `{"max_completion_tokens":null,"model":"m"}`,
			`{"max_tokens":7,"max_completion_tokens":null,"model":"m"}`,
		},
		{
			llm.Chat, "max_completion_tokens", `{"max_tokens":-1,"model":"m","n_predict":-1}`,
			`{"max_tokens":7,"model":"m","n_predict":7}`,
		},
		{
			llm.Chat, "max_tokens", `{"max_completion_tokens":-1,"model":"m"}`,
			`{"max_tokens":7,"max_completion_tokens":null,"model":"m"}`,
		},
		{llm.Chat, "", `{"n_predict":-1,"model":"m"}`, `{"max_completion_tokens":7,"n_predict":7,"model":"m"}`},
		{llm.Completions, "", `{"max_new_tokens":9,"model":"m"}`, `{"max_tokens":7,"max_new_tokens":7,"model":"m"}`},
		{llm.Chat, "max_tokens", `{"m\u0061x_tokens":0,"model":"m"}`, `{"m\u0061x_tokens":7,"model":"m"}`},
		{llm.Completions, "", `{"model":"m"}`, `{"max_tokens":7,"model":"m"}`},
		{llm.Responses, "", `{"model":"m"}`, `{"max_output_tokens":7,"model":"m"}`},
		{llm.Messages, "", `{"model":"m"}`, `{"max_tokens":7,"model":"m"}`},
	} {
		req, err := llm.ParseRequest(tc.format, []byte(tc.body), nil)
		if err != nil {
			t.Fatal(err)
		}
		got := string(slices.Concat(llm.ApplyEdits([]byte(tc.body), req.MaxOutputEdits(7, tc.field)...)...))
		if again, err := llm.ParseRequest(tc.format, []byte(got), nil); got != tc.want || err != nil ||
			again.MaxOutput != 7 {
			t.Errorf("%s became %s, %v; want %s", tc.body, got, err, tc.want)
		}
	}
}

// The largest maximum counts, and one that lifts another is an error.
func TestSeveralMaxima(t *testing.T) {
	for fields, want := range map[string]int64{
		`,"max_completion_tokens":5,"max_tokens":100`:  100,
		`,"max_completion_tokens":100,"max_tokens":5`:  100,
		`,"max_tokens":5,"n_predict":1e3`:              1000,
		`,"max_tokens":-1`:                             0,
		`,"max_tokens":0,"max_completion_tokens":null`: 0,
		`,"max_tokens":5,"n":null`:                     5,
		`,"max_tokens":5,"n":-3`:                       5,
		`,"max_tokens":5,"n":1e2`:                      500,
		`,"max_tokens":5,"n":2,"best_of":8`:            40,
	} {
		if got := chat(t, fields).MaxOutput; got != want {
			t.Errorf("%s: maximum %d, want %d", fields, got, want)
		}
	}
	for _, fields := range []string{
		`,"max_completion_tokens":5,"max_tokens":-1`, `,"max_tokens":5,"num_predict":0`, `,"n":"8"`,
		`,"best_of":1.5`,
	} {
		if _, err := llm.ParseRequest(llm.Chat, []byte(`{"model":"m"`+fields+`}`), nil); err == nil {
			t.Errorf("%s is accepted", fields)
		}
	}
}

// What a prediction has may be billed as an answer, beside the answer.
func TestPredictionsReserveTheirTokensAsAnswers(t *testing.T) {
	const text = `{"type":"content","content":"a prediction of some words"}`
	const tokens = (len(text) + 1) / 2
	for name, tc := range map[string]struct {
		price  llm.Price
		fields string
		want   int64 // for the prediction, beside 10 tokens of each answer and the other text
	}{
		"dear answers":  {llm.Price{Input: 1_000_000, Output: 5_000_000}, "", 5 * int64(tokens)},
		"several":       {llm.Price{Input: 1_000_000, Output: 5_000_000}, `,"n":3`, 3 * 5 * int64(tokens)},
		"dear prompts":  {llm.Price{Input: 5_000_000, Output: 1_000_000}, "", 5 * int64(tokens)},
		"dear caches":   {llm.Price{Input: 1, CacheWrite: 5_000_000, Output: 1_000_000}, "", 5 * int64(tokens)},
		"small context": {llm.Price{Input: 1_000_000, Output: 5_000_000, Context: 20}, "", 5 * 20},
	} {
		reserved := func(prediction string) int64 {
			lim := newLimiter(t, memory.New(nil), limiter.Quota("spend", 10_000_000, limiter.EveryMonth))
			prices := func(string, time.Time) (llm.Price, error) { return tc.price, nil }
			lease, err := newCosts(t, lim, &llm.Options{Prices: prices}).Acquire(ctx, "key", "m",
				chat(t, `,"max_tokens":10`+tc.fields+`,"prediction":`+prediction))
			if err != nil {
				t.Fatal(err)
			}
			return lease.Estimate().Cost
		}
		if got := reserved(text) - reserved("null"); got < tc.want-20 || got > tc.want+20 {
			t.Errorf("%s: %d for the prediction, want %d", name, got, tc.want)
		}
	}
	req := chat(t, `,"prediction":"`+strings.Repeat("q~Z`x^J|", 1000)+`"`)
	lim := newLimiter(t, memory.New(nil), limiter.Quota("spend", 100_000, limiter.EveryMonth))
	costs := newCosts(t, lim, &llm.Options{Prices: tokenPrice(llm.Price{})})
	lease, err := costs.Acquire(ctx, "key", "m", req)
	if err != nil || lease.MaxOutput() != 8192 || lease.Estimate().Cost < 8192+8000 {
		t.Errorf("dense text: %+v, %v", lease, err)
	}
	large := chat(t, `,"max_tokens":90000,"prediction":"`+strings.Repeat("x ", 1000)+`"`)
	_, err = costs.Acquire(ctx, "key", "m", large)
	if spend, ok := errors.AsType[*llm.SpendError](err); !ok || spend.MaxOutput > 100_000-16_192-1000 {
		t.Errorf("the maximum that fits beside a prediction: %v", err)
	}
}

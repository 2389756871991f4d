package docs_test

import (
	"context"
	"fmt"
	"slices"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/llm"
)

// A key and its project have budgets of money.
func Example_money() {
	ctx := context.Background()
	lim, _ := inMemory()
	file := []byte("models: {example-large: {input: $3, output: $15}}")
	body := []byte(`{"model":"example-large","messages":[{"role":"user","content":"Say hello."}]}`)
	check(money(ctx, lim, file, body, func(_ context.Context, body []byte) ([]byte, error) {
		fmt.Println(string(body))
		return []byte(`{"usage":{"prompt_tokens":12,"completion_tokens":5}}`), nil
	}))
	// Output:
	// {"max_completion_tokens":8192,"model":"example-large","messages":[{"role":"user","content":"Say hello."}]}
	// reserved $0.122997, cost $0.000111
	// spend=49999889 <nil>
}

func money(
	ctx context.Context, lim *limiter.RateLimiter, file, body []byte,
	send func(context.Context, []byte) ([]byte, error),
) error {
	//docs:money
	const dollar = 1_000_000
	err := lim.SetResourceDefaults(ctx, "models", limiter.Quota("spend", 50*dollar, limiter.EveryMonth))
	if err != nil {
		return err
	}
	err = lim.SetLimits(ctx, "project-1", "models", limiter.Quota("spend", 500*dollar, limiter.EveryMonth))
	if err != nil {
		return err
	}
	_, err = lim.CreateEntity(ctx, limiter.Entity{ID: "key-abc", Parent: "project-1", Cascade: true})
	if err != nil {
		return err
	}

	prices, err := llm.ParsePrices("prices.yaml", file)
	if err != nil {
		return err
	}
	calls, err := llm.New(lim, &llm.Options{Limits: llm.Limits{Cost: "spend"}, Prices: prices.Price})
	if err != nil {
		return err
	}

	req, err := llm.ParseRequest(llm.Chat, body, nil)
	if err != nil {
		return err
	}
	lease, err := calls.Acquire(ctx, "key-abc", "models", req)
	if err != nil {
		return err
	}
	defer lease.Rollback(ctx)
	if most := lease.MaxOutput(); most > 0 { // the request sets no maximum
		body = slices.Concat(llm.ApplyEdits(body, req.MaxOutputEdits(most, "")...)...)
	}
	answer, err := send(ctx, body)
	if err != nil {
		return err
	}
	_, err = lease.Answer("application/json", "").WriteContext(ctx, answer)
	if err != nil {
		return err
	}
	err = lease.Commit(ctx)
	if err != nil {
		return err
	}
	used, _ := lease.Usage()
	fmt.Printf("reserved %s, cost %s\n", llm.Dollars(lease.Estimate().Cost), llm.Dollars(used.Cost))
	//docs:end
	left, err := lim.Available(ctx, "key-abc", "models")
	fmt.Println(left, err)
	return nil
}

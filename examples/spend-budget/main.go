// Command spend-budget gives every key a budget of dollars under the budget of its
// project, and charges calls of language models by a price file.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/llm"
	"github.com/zeroae/zae-limiter-go/memory"
)

//go:embed prices.yaml
var priceFile []byte

// models is the resource of every call: one budget for all models.
const models = "models"

func main() {
	model := httptest.NewServer(http.HandlerFunc(answer))
	err := run(context.Background(), model.URL)
	model.Close()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url string) error {
	// A clock that only this program moves. Leave Now out to use the real time.
	now := time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	limits, err := limiter.New(memory.New(nil), &limiter.Options{Now: clock})
	if err != nil {
		return err
	}

	if err := setUp(ctx, limits); err != nil {
		return err
	}

	prices, err := llm.ParsePrices("prices.yaml", priceFile)
	if err != nil {
		return err
	}

	// No limit counts requests or tokens, so calls are charged with money
	// alone.
	calls, err := llm.New(limits, &llm.Options{Limits: llm.Limits{Cost: "spend"}, Prices: prices.Price, Now: clock})
	if err != nil {
		return err
	}

	g := &gateway{limits, calls, url}

	fmt.Println("Each key has $50 a month, and the project of all keys has $500.")
	err = g.ask(ctx, "alice", "example-large", "question", "report", "again", "report", "report", "question")
	if err != nil {
		return err
	}

	fmt.Println("\nOther models cost less, and are paid from the same budget:")
	if err := g.ask(ctx, "bob", "example-small-2026", "question", "report"); err != nil {
		return err
	}

	fmt.Println("\nThe keys of a team spend the rest of the project:")
	if err := g.spendAll(ctx); err != nil {
		return err
	}

	fmt.Println("\nA model without a price is refused, because its calls would be free:")
	if err := g.ask(ctx, "bob", "brand-new", "question"); err != nil {
		return err
	}

	now = time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	fmt.Println("\nOn February 1 the budgets are full again, and a price has changed:")
	return errors.Join(g.ask(ctx, "alice", "example-large", "report"),
		g.ask(ctx, "bob", "example-small-2026", "report"))
}

// setUp stores the budgets, in millionths of a dollar, and the keys.
func setUp(ctx context.Context, limits *limiter.RateLimiter) error {
	const dollar = 1_000_000
	err := errors.Join(
		limits.SetResourceDefaults(ctx, models, limiter.Quota("spend", 50*dollar, limiter.EveryMonth)),
		limits.SetLimits(ctx, "project", models, limiter.Quota("spend", 500*dollar, limiter.EveryMonth)),
	)

	for _, key := range append([]string{"alice", "bob"}, team()...) {
		_, failed := limits.CreateEntity(ctx, limiter.Entity{ID: key, Parent: "project", Cascade: true})
		err = errors.Join(err, failed)
	}
	return err
}

// team returns the keys of a team.
func team() []string {
	var keys []string
	for i := range 11 {
		keys = append(keys, fmt.Sprintf("team-%d", i+1))
	}
	return keys
}

// gateway passes requests on to a model.
type gateway struct {
	limits *limiter.RateLimiter
	calls  *llm.Limiter
	url    string
}

// ask sends prompts one after the other, until one is refused, and prints what
// became of them.
func (g *gateway) ask(ctx context.Context, key, model string, prompts ...string) error {
	for _, prompt := range prompts {
		result, err := g.call(ctx, key, model, prompt)
		if err != nil {
			return err
		}
		fmt.Printf("  %s, %s: %s\n", key, prompt, result)
	}
	return nil
}

// spendAll lets each key of the team ask for three reports, and prints what became
// of the last.
func (g *gateway) spendAll(ctx context.Context) error {
	for _, key := range team() {
		var result string
		var err error
		for range 3 {
			if result, err = g.call(ctx, key, "example-large", "report"); err != nil {
				return err
			}
		}
		fmt.Printf("  %s, third report: %s\n", key, result)
	}
	return nil
}

// call sends one prompt, and returns what it cost or why it was refused.
func (g *gateway) call(ctx context.Context, key, model, prompt string) (result string, err error) {
	body := fmt.Appendf(nil, bodies[prompt], model)

	req, err := llm.ParseRequest(llm.Chat, body, nil)
	if err != nil {
		return "", err
	}

	lease, err := g.calls.Acquire(ctx, key, models, req)
	if exceeded, ok := errors.AsType[*limiter.ExceededError](err); ok {
		worst := exceeded.Decision.Primary()
		return fmt.Sprintf("refused, %s has %s left; retry in %.0f days", worst.Entity,
			llm.Dollars(worst.Available), worst.RetryAfter.Hours()/24), nil
	}
	// A call that cannot be priced must not run.
	if errors.Is(err, llm.ErrNoPrice) {
		return err.Error(), nil
	}

	if err != nil {
		return "", err
	}

	// After Commit this does nothing.
	defer func() { _ = lease.Rollback(ctx) }()
	// The request sets no maximum, so the budget holds only with this one.
	if most := lease.MaxOutput(); most > 0 {
		body = slices.Concat(llm.ApplyEdits(body, req.MaxOutputEdits(most, "")...)...)
	}

	if err := forward(ctx, g.url, body, lease); err != nil {
		return "", err
	}

	if err := lease.Commit(ctx); err != nil {
		return "", err
	}

	used, _ := lease.Usage()
	left, err := g.limits.Available(ctx, key, models)
	return fmt.Sprintf("reserved %s, cost %s; %s left", llm.Dollars(lease.Estimate().Cost), llm.Dollars(used.Cost),
		llm.Dollars(left.Get("spend"))), err
}

// forward sends a request, and lets the lease read the answer.
func forward(ctx context.Context, url string, body []byte, lease *llm.Lease) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}

	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}

	defer func() { _ = resp.Body.Close() }()

	lease.Answer(resp.Header.Get("Content-Type"), resp.Header.Get("Content-Encoding"))
	_, err = io.Copy(lease, resp.Body)
	return err
}

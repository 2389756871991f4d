package webdemo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/llm"
)

// Namespace is the namespace of the demo, apart from other data of the store.
const Namespace = "zae-limiter-web-demo"

// The models of the gateway, which are the resources of its limits.
const (
	modelLarge = "gpt-4"
	modelSmall = "gpt-3.5-turbo"
)

// models returns the models, the default one first.
func models() []string { return []string{modelLarge, modelSmall} }

// tenant is an entity of the demo with its limits per minute; 0 requests stand for
// the defaults of the models.
type tenant struct {
	entity           limiter.Entity
	requests, tokens int64
}

// The limits per minute of an entity without limits of its own. Its 20 calls have
// 100 tokens each, so calls of more meet the limit of tokens first. That is so for
// every tenant but the project.
const (
	defaultRequests = 20
	defaultTokens   = 2_000
)

// The limits of the project for each model: tokens per minute, and millionths of a
// dollar per hour. The budget is above the cost of the tokens, so that the traffic
// never stops for it.
const (
	projectTokens = 10_000
	projectBudget = 50_000_000
)

// priceOf returns the price of a model. It is an llm.PriceFunc.
func priceOf(model string, _ time.Time) (llm.Price, error) {
	if model == modelLarge {
		return llm.Price{Input: 30_000_000, Output: 60_000_000}, nil
	}
	return llm.Price{Input: 500_000, Output: 1_500_000}, nil
}

// tenants returns the project and its keys.
func tenants() []tenant {
	const project = "proj-demo"
	key := func(id, name string, requests, tokens int64) tenant {
		return tenant{limiter.Entity{ID: id, Name: name, Parent: project, Cascade: true}, requests, tokens}
	}

	return []tenant{
		{
			limiter.Entity{ID: project, Name: "Demo Project", Metadata: map[string]string{"tier": "enterprise"}},
			50, projectTokens,
		},
		key("key-alice", "Alice", 30, 3_000),
		key("key-bob", "Bob", 10, 1_000),
		key("key-charlie", "Charlie", 0, 0),
	}
}

// limits returns the limits of a tenant, or the defaults if it has none. A project
// has a budget, too, which its keys spend.
func (t tenant) limits() []limiter.Limit {
	switch {
	case t.requests == 0:
		return perMinute(defaultRequests, defaultTokens)
	case t.entity.Parent == "":
		return append(perMinute(t.requests, t.tokens), limiter.Quota(llm.Spend, projectBudget, limiter.EveryHour))
	}
	return perMinute(t.requests, t.tokens)
}

func perMinute(requests, tokens int64) []limiter.Limit {
	return []limiter.Limit{limiter.PerMinute(limiter.RPM, requests), limiter.PerMinute(limiter.TPM, tokens)}
}

// Seed stores the entities and limits of the demo. It leaves what it finds, so
// that it can be repeated and changes made in the demo stay.
func Seed(ctx context.Context, lim *limiter.RateLimiter) error {
	for _, model := range models() {
		stored, err := lim.ResourceDefaults(ctx, model)
		if err == nil && len(stored) == 0 {
			err = lim.SetResourceDefaults(ctx, model, perMinute(defaultRequests, defaultTokens)...)
		}
		if err != nil {
			return err
		}
	}

	for _, t := range tenants() {
		if err := t.seed(ctx, lim); err != nil {
			return fmt.Errorf("seed %s: %w", t.entity.ID, err)
		}
	}
	return nil
}

// seed stores a tenant. The record comes last, so that a second call finishes an
// interrupted one. A tenant with a record keeps its limits as they are, so that
// deleted ones do not come back.
func (t tenant) seed(ctx context.Context, lim *limiter.RateLimiter) error {
	if _, err := lim.Entity(ctx, t.entity.ID); !errors.Is(err, limiter.ErrNotFound) {
		return err
	}

	if t.requests > 0 {
		if err := lim.SetLimits(ctx, t.entity.ID, modelLarge, t.limits()...); err != nil {
			return err
		}
	}

	// A project pays for every model.
	if t.entity.Parent == "" {
		if err := lim.SetLimits(ctx, t.entity.ID, "", t.limits()...); err != nil {
			return err
		}
	}

	_, err := lim.CreateEntity(ctx, t.entity)
	// Another process may seed the same store.
	if errors.Is(err, limiter.ErrExists) {
		return nil
	}
	return err
}

// Info describes the gateway to the dashboard. Addresses are relative to the
// dashboard.
type Info struct {
	Chat    string   `json:"chat"`    // takes chat completions
	Traffic string   `json:"traffic"` // pauses the background traffic
	Keys    []Key    `json:"keys"`    // to try a request with
	Models  []string `json:"models"`  // to try a request for
}

// Key is an API key of the demo.
type Key struct {
	Key   string `json:"key"`
	Label string `json:"label"` // the name and the limits
}

// NewInfo returns the description of the gateway for a dashboard at /dashboard/.
func NewInfo() *Info {
	info := &Info{Chat: "../v1/chat/completions", Traffic: "../api/traffic", Models: models()}
	for _, t := range tenants() {
		if t.entity.Parent == "" {
			continue
		}

		limits := t.limits()
		label := fmt.Sprintf("%s (%s rpm, %s tpm)", t.entity.Name, grouped(limits[0].Capacity),
			grouped(limits[1].Capacity))
		info.Keys = append(info.Keys, Key{t.entity.ID, label})
	}
	return info
}

// grouped formats a number below a million with a comma before the thousands.
func grouped(n int64) string {
	if n < 1000 {
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

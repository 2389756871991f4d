package loadtest

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// model is a language model and its limits a minute.
type model struct {
	name     string
	rpm, tpm int64
}

// models returns the models of the scenarios with a gateway.
func models() []model {
	return []model{
		{"openai/gpt-4o", 500, 800_000},
		{"openai/gpt-4o-mini", 2000, 4_000_000},
		{"openai/o1", 100, 200_000},
		{"openai/o3-mini", 200, 400_000},
		{"anthropic/claude-sonnet", 1000, 400_000},
		{"anthropic/claude-haiku", 2000, 4_000_000},
		{"google/gemini-pro", 360, 1_000_000},
		{"google/gemini-flash", 1500, 4_000_000},
	}
}

// What a chat takes: an estimate first, then a correction to what it used.
const (
	estimatedTokens         = 800
	leastTokens, mostTokens = 200, 2000
)

// llmGateway returns the scenario "llm_gateway": chats with random models.
func llmGateway() Scenario {
	return Scenario{
		Name:        "llm_gateway",
		Description: "API keys chat with eight models: each call takes an estimate and corrects it.",
		Setup:       setUpModels,
		Classes:     []Class{gatewayUser()},
	}
}

// llmProduction returns the scenario "llm_production": users who seldom call,
// and shapes of a day and a morning.
func llmProduction() Scenario {
	return Scenario{
		Name:        "llm_production",
		Description: "API keys chat, list models and query what is left, in the shape of a day or a morning.",
		Setup:       setUpModels,
		Classes: []Class{gatewayUser(), {
			Name: "LLMGatewayUserReal", Wait: Wait{20 * time.Second, 45 * time.Second}, Start: startKey,
			Tasks: []Task{
				{Name: "chat", Weight: 15, Run: chat},
				{Name: "list_models", Weight: 2, Run: listModels},
				{Name: "available", Weight: 1, Run: queryModel},
			},
		}},
		Shapes: []Shape{
			{Name: "ProductionDailyLoad", Stages: []Stage{
				{21600 * time.Second, 15, 1},
				{7200 * time.Second, 100, 1},
				{3600 * time.Second, 150, 2},
				{28800 * time.Second, 150, 1},
				{7200 * time.Second, 120, 0.5},
				{14400 * time.Second, 30, 0.5},
				{3600 * time.Second, 15, 0.5},
			}},
			{Name: "MorningSpike", Stages: []Stage{
				{600 * time.Second, 50, 2},
				{600 * time.Second, 150, 3},
				{1800 * time.Second, 150, 1},
				{600 * time.Second, 100, 1},
			}},
		},
	}
}

func gatewayUser() Class {
	return Class{
		Name: "LLMGatewayUser", Wait: Wait{500 * time.Millisecond, 2 * time.Second}, Start: startKey,
		Tasks: []Task{{Name: "chat", Run: chat}},
	}
}

// setUpModels stores the limits of the models.
func setUpModels(ctx context.Context, test *Test) error {
	for _, m := range models() {
		if err := test.SetResourceDefaults(
			ctx, m.name, limiter.PerMinute(limiter.RPM, m.rpm), limiter.PerMinute(limiter.TPM, m.tpm),
		); err != nil {
			return err
		}
	}
	return nil
}

// startKey names the API key of a user and keeps the names of the models.
func startKey(_ context.Context, u *User) error {
	u.Entity = u.ID("apikey")
	u.Data = models()
	return nil
}

// randomModel returns the name of a model.
func randomModel(u *User) string {
	all, _ := u.Data.([]model)
	return all[u.Rand.IntN(len(all))].name
}

// chat takes a request and the estimated tokens, and corrects the estimate.
func chat(ctx context.Context, u *User) error {
	req := limiter.Request{
		Entity: u.Entity, Resource: randomModel(u),
		Consume: limiter.Tokens(limiter.RPM, 1).And(limiter.TPM, estimatedTokens),
	}

	return u.Do(ctx, req, func(l *Lease) error {
		return l.Used(limiter.TPM, leastTokens+u.Rand.Int64N(mostTokens-leastTokens+1))
	})
}

// listModels takes a request and no tokens.
func listModels(ctx context.Context, u *User) error {
	return u.Do(ctx,
		limiter.Request{Entity: u.Entity, Resource: randomModel(u), Consume: limiter.Tokens(limiter.RPM, 1)},
		finish)
}

// queryModel asks what is left of a model.
func queryModel(ctx context.Context, u *User) error {
	_, err := u.Available(ctx, u.Entity, randomModel(u))
	return err
}

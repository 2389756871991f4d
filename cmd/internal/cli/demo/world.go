package demo

import (
	"context"
	"errors"

	"github.com/zeroae/zae-limiter-go"
)

// The limits of every model, per minute, beside a quota of money.
const (
	rpm = "rpm" // requests
	tpm = "tpm" // tokens
)

// The models. The large one uses more tokens per call.
const (
	large = "large"
	small = "small"
)

// key is an API key of a project, with a share of the traffic.
type key struct {
	id, project string
	share       int
	waits       bool // waits for tokens instead of being refused
}

// keys returns the keys, by project.
func keys() []key {
	return []key{
		{id: "web", project: "shop", share: 5},
		{id: "search", project: "shop", share: 4},
		{id: "bot", project: "shop", share: 3},
		{id: "notes", project: "lab", share: 3},
		{id: "batch", project: "lab", share: 4, waits: true},
	}
}

// buckets returns all buckets in the order of display: each project before its
// keys, each with both models.
func buckets() []limiter.Scope {
	var all []limiter.Scope
	add := func(entity string) {
		all = append(all, limiter.Scope{Entity: entity, Resource: large},
			limiter.Scope{Entity: entity, Resource: small})
	}

	project := ""
	for _, k := range keys() {
		if k.project != project {
			project = k.project
			add(project)
		}
		add(k.id)
	}
	return all
}

// busyScale multiplies limits and calls for escrow: a pot of a small limit holds
// nothing.
const busyScale = 20

// limits returns limits at three levels: the defaults of each model, those of the
// projects, and those of one key.
func limits(scale int64) []limiter.Config {
	level := func(entity, model string, requests, requestBurst, tokens, tokenBurst, cents int64) limiter.Config {
		return limiter.Config{
			Scope: limiter.Scope{Entity: entity, Resource: model},
			Limits: []limiter.Limit{
				limiter.PerMinute(rpm, scale*requests).WithBurst(scale * requestBurst),
				limiter.PerMinute(tpm, scale*tokens).WithBurst(scale * tokenBurst),
				monthly(scale * cents),
			},
		}
	}

	return []limiter.Config{
		level("", large, 48, 8, 30_000, 6_000, 12),
		level("", small, 36, 6, 15_000, 3_000, 2),
		level("shop", large, 120, 15, 66_000, 9_000, 25),
		level("shop", small, 90, 12, 36_000, 6_000, 5),
		level("lab", "", 72, 12, 48_000, 9_000, 30),
		level("bot", "", 30, 5, 15_000, 3_000, 3),
	}
}

// setUp stores the keys and the limits. It can be repeated: quotas of money are
// full again.
func setUp(ctx context.Context, lim *limiter.RateLimiter, scale int64) error {
	for _, k := range keys() {
		// An earlier run may have left the keys in the store.
		_, err := lim.CreateEntity(ctx, limiter.Entity{ID: k.id, Parent: k.project, Cascade: true})
		if err != nil && !errors.Is(err, limiter.ErrExists) {
			return err
		}
	}

	for _, c := range limits(scale) {
		var err error
		if c.Scope.Entity == "" {
			err = lim.SetResourceDefaults(ctx, c.Scope.Resource, c.Limits...)
		} else {
			err = lim.SetLimits(ctx, c.Scope.Entity, c.Scope.Resource, c.Limits...)
		}
		if err != nil {
			return err
		}
	}

	// An earlier run of the month may have spent the quotas.
	for _, at := range buckets() {
		if err := lim.Reset(ctx, at.Entity, at.Resource, spend); err != nil {
			return err
		}
	}
	return nil
}

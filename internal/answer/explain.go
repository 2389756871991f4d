package answer

import (
	"context"

	"github.com/zeroae/zae-limiter-go"
)

// Explanation is an explanation as JSON.
type Explanation struct {
	Decision
	Levels []Level `json:"levels" doc:"what is stored at each level, most specific first, for the entity and then for its parent; see below"`
}

// Level is a level as JSON.
type Level struct {
	Level    string  `json:"level" doc:"entity, entity_default, resource or system"`
	Entity   *string `json:"entity_id" doc:"entity of the level"`
	Resource *string `json:"resource" doc:"resource of the level"`
	Limits   []Limit `json:"limits" doc:"stored limits, each with name, capacity, refill_amount and refill_period_seconds"`
	InForce  bool    `json:"in_force" doc:"whether these limits apply"`
}

// StoredLevel holds the limits stored at one level, and whether they apply to the
// payer.
type StoredLevel struct {
	Payer   string
	Config  limiter.Config
	InForce bool
}

// NewExplanation returns an explanation as JSON.
func NewExplanation(req limiter.Request, d limiter.Decision, levels []StoredLevel) Explanation {
	objects := make([]Level, len(levels))
	for i, l := range levels {
		s := l.Config.Scope
		objects[i] = Level{s.Level(), OrNull(s.Entity), OrNull(s.Resource), NewLimits(l.Config.Limits), l.InForce}
	}
	return Explanation{NewDecision(req, d), objects}
}

// Explain returns the decision about a request with the tokens that are available
// now, and the levels of every payer. An admitted Decision holds what would be
// left after the charge, so Explain asks again without amounts.
func Explain(ctx context.Context, lim *limiter.RateLimiter, repo limiter.Repository, req limiter.Request) (limiter.Decision, []StoredLevel, error) {
	d, err := explain(ctx, lim, req)
	if err != nil {
		return d, nil, err
	}
	levels, err := readLevels(ctx, repo, d)
	return d, levels, err
}

func explain(ctx context.Context, lim *limiter.RateLimiter, req limiter.Request) (limiter.Decision, error) {
	d, err := lim.Explain(ctx, req)
	if err != nil || !d.Admitted() {
		return d, err
	}
	query := req
	query.Consume = limiter.Amounts{}
	current, err := lim.Explain(ctx, query)
	if err != nil || len(current.Statuses) != len(d.Statuses) { // the limits changed meanwhile
		return d, err
	}
	for i := range current.Statuses {
		current.Statuses[i].Requested = d.Statuses[i].Requested
	}
	return current, nil
}

// readLevels reads the four levels of the entity and of a parent that pays.
func readLevels(ctx context.Context, repo limiter.Repository, d limiter.Decision) ([]StoredLevel, error) {
	var levels []StoredLevel
	payer := ""
	for _, s := range d.Statuses {
		if s.Entity == payer {
			continue
		}
		payer = s.Entity
		for _, scope := range limiter.Precedence(s.Entity, s.Resource) {
			cfg, err := repo.Config(ctx, scope)
			if err != nil {
				return nil, err
			}
			cfg.Scope = scope
			levels = append(levels, StoredLevel{payer, cfg, len(cfg.Limits) > 0 && s.Source == scope.Level()})
		}
	}
	return levels, nil
}

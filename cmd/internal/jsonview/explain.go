package jsonview

import (
	"cmp"
	"context"
	"errors"

	"github.com/zeroae/zae-limiter-go"
)

// Explanation is an explanation as JSON.
type Explanation struct {
	Decision
	Levels []Level `json:"levels" doc:"levels of the entity, then of its ancestors, most specific first; see below"`
}

// Level is a level as JSON.
type Level struct {
	Level    string  `json:"level" doc:"entity, entity_default, resource or system"`
	Entity   *string `json:"entity_id" doc:"entity of the level"`
	Resource *string `json:"resource" doc:"resource of the level"`
	Limits   []Limit `json:"limits"`
	InForce  bool    `json:"in_force" doc:"whether these limits apply"`
	Disabled *Switch `json:"disabled,omitempty" doc:"reason and since; absent unless the level refuses the request"`
}

// FieldDocs returns the texts that are too long for tags.
func (Level) FieldDocs() map[string]string { return map[string]string{"limits": "stored " + limitsDoc} }

// StoredLevel holds the limits stored at one level, and whether they apply to the
// payer.
type StoredLevel struct {
	Payer   string
	Config  limiter.Config
	InForce bool
	// Off is the switch if the level is off and refuses the request.
	Off *limiter.Switch
}

// NewExplanation returns an explanation as JSON.
func NewExplanation(req limiter.Request, d limiter.Decision, levels []StoredLevel) Explanation {
	return Explanation{NewDecision(req, d), newLevels(levels)}
}

// NewDisabledExplanation returns the explanation of a request that a switch
// refuses as JSON.
func NewDisabledExplanation(req limiter.Request, off *limiter.DisabledError, levels []StoredLevel) Explanation {
	return Explanation{NewDisabled(req, off), newLevels(levels)}
}

func newLevels(levels []StoredLevel) []Level {
	objects := make([]Level, len(levels))
	for i, l := range levels {
		s := l.Config.Scope
		objects[i] = Level{
			s.Level(), OrNull(s.Entity), OrNull(s.Resource), NewLimits(l.Config.Limits), l.InForce,
			SwitchOrNull(l.Off),
		}
	}
	return objects
}

// Explain returns the decision about a request with the tokens that are available
// before the charge, and the levels of every payer. An admitted Decision of the
// limiter holds what would be left after the charge, so Explain asks again without
// amounts. With a *limiter.DisabledError, Explain also returns the levels, and the
// Decision is empty.
func Explain(
	ctx context.Context, lim *limiter.RateLimiter, repo limiter.Repository, req limiter.Request,
) (limiter.Decision, []StoredLevel, error) {
	d, err := explain(ctx, lim, req)
	if off, disabled := errors.AsType[*limiter.DisabledError](err); disabled {
		levels, failed := readDisabledLevels(ctx, repo, off)
		return d, levels, cmp.Or(failed, err)
	}
	if err != nil {
		return d, nil, err
	}
	levels, err := readLevels(ctx, repo, d)
	return d, levels, err
}

// readDisabledLevels reads the levels of the entity, and of an ancestor if a switch of
// the ancestor refuses.
func readDisabledLevels(
	ctx context.Context, repo limiter.Repository, off *limiter.DisabledError,
) ([]StoredLevel, error) {
	payers := []limiter.Status{{Entity: off.Entity, Resource: off.Resource}}

	// A switch of an ancestor is on a level that the entity itself does not
	// have.
	if other := off.Scope.Entity; other != "" && other != off.Entity {
		payers = append(payers, limiter.Status{Entity: other, Resource: off.Resource})
	}

	levels, err := readLevels(ctx, repo, limiter.Decision{Statuses: payers})
	for i := range levels {
		if levels[i].Config.Scope == off.Scope {
			levels[i].Off = SwitchOf(off)
		}
	}

	return levels, err
}

func explain(ctx context.Context, lim *limiter.RateLimiter, req limiter.Request) (limiter.Decision, error) {
	d, err := lim.Explain(ctx, req)
	if err != nil || !d.Admitted() {
		return d, err
	}

	query := req
	query.Consume = limiter.Amounts{}
	current, err := lim.Explain(ctx, query)
	// Other limits may be in force since the first call, so that the statuses do not
	// belong together.
	if err != nil || len(current.Statuses) != len(d.Statuses) {
		return d, err
	}

	for i := range current.Statuses {
		current.Statuses[i].Requested, current.Statuses[i].WouldRefuse =
			d.Statuses[i].Requested, d.Statuses[i].WouldRefuse
	}

	return current, nil
}

// readLevels reads the four levels of the entity and of its parent, if that pays, and
// for each further ancestor that pays the two of its own.
func readLevels(ctx context.Context, repo limiter.Repository, d limiter.Decision) ([]StoredLevel, error) {
	var levels []StoredLevel
	payer, payers := "", 0
	for _, s := range d.Statuses {
		// Statuses of one payer follow each other, so that a new entity is the
		// next payer.
		if s.Entity == payer {
			continue
		}

		payer, payers = s.Entity, payers+1
		for _, scope := range limiter.Precedence(s.Entity, s.Resource) {
			// Wider levels do not reach beyond the parent.
			if payers > 2 && scope.Entity == "" {
				break
			}
			cfg, err := repo.Config(ctx, scope)
			if err != nil {
				return nil, err
			}
			cfg.Scope = scope
			levels = append(levels, StoredLevel{payer, cfg, len(cfg.Limits) > 0 && s.Source == scope.Level(), nil})
		}
	}

	return levels, nil
}

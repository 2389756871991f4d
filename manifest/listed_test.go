package manifest_test

import (
	"context"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/manifest"
	"github.com/zeroae/zae-limiter-go/memory"
)

// bare is a store in which some scopes were written past its lists.
type bare struct {
	*memory.Repository
	scopes map[limiter.Scope]bool
}

func (b *bare) ConfigListed(ctx context.Context, s limiter.Scope) (limiter.Config, bool, error) {
	cfg, err := b.Config(ctx, s)
	return cfg, !b.scopes[s], err
}

func (b *bare) ReplaceConfig(ctx context.Context, cfg limiter.Config, ev limiter.AuditEvent) error {
	delete(b.scopes, cfg.Scope)
	return b.Repository.ReplaceConfig(ctx, cfg, ev)
}

// TestUnlistedLimitsAreWrittenAgain once, also when they are as declared.
func TestUnlistedLimitsAreWrittenAgain(t *testing.T) {
	kept, gone := limiter.Scope{Resource: "kept"}, limiter.Scope{Entity: "gone", Resource: "gpt-4"}
	repo := &bare{memory.New(nil), map[limiter.Scope]bool{kept: true, gone: true, {Resource: "never-was"}: true}}
	for i, s := range []limiter.Scope{kept, gone} {
		store(t, repo, limiter.Config{Scope: s, Limits: []limiter.Limit{limiter.PerMinute("rpm", 1)}}, []string{"1", "2"}[i])
	}
	m := parse(t, "resources: {kept: {limits: {rpm: {capacity: 1}}}, never-was: {}}")
	check(t, repo.SetManaged(bg, epoch, "", m.Hash(), "", []limiter.Scope{kept, gone}))
	plan, err := manifest.NewPlan(bg, repo, m, nil)
	check(t, err)
	equal(t, "plan", list(plan.Changes), "update resource kept\ndelete entity gone/gpt-4")
	equal(t, "what differs", plan.Changes[0].Fields(), []manifest.Field{{Name: "state", Before: "unlisted", After: "listed"}})
	equal(t, "what goes", plan.Changes[1].Fields()[0], manifest.Field{Name: "state", Before: "unlisted"})
	_, err = plan.Apply(bg)
	check(t, err)
	again, err := manifest.NewPlan(bg, repo, m, nil)
	check(t, err)
	equal(t, "done", again.Done(), true)
}

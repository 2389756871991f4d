package manifest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/manifest"
	"github.com/zeroae/zae-limiter-go/memory"
)

// boundedStore is a store that lists ten scopes at most.
type boundedStore struct {
	*memory.Repository
	stuck string // an entity that cannot be deleted
}

func (n *boundedStore) CheckManaged(scopes []limiter.Scope) error {
	if len(scopes) > 10 {
		return &limiter.InvalidError{Field: "manifest", Reason: "must be shorter"}
	}
	return nil
}

func (n *boundedStore) SetManaged(
	ctx context.Context, now time.Time, previous, hash, owner string, scopes []limiter.Scope,
) error {
	if err := n.CheckManaged(scopes); err != nil {
		return err
	}
	return n.Repository.SetManaged(ctx, now, previous, hash, owner, scopes)
}

func (n *boundedStore) DeleteConfig(ctx context.Context, s limiter.Scope, ev limiter.AuditEvent) error {
	if s.Entity == n.stuck {
		return errors.New("no connection")
	}
	return n.Repository.DeleteConfig(ctx, s, ev)
}

// TestOldAndNewListNeedNotFitTogether checks that deletes come first then.
func TestOldAndNewListNeedNotFitTogether(t *testing.T) {
	repo := &boundedStore{Repository: memory.New(nil)}
	old, next := entityManifest("a", 8, 1), entityManifest("b", 9, 1)
	next.Levels = append(next.Levels, old.Levels[0])
	_, _, err := manifest.Apply(bg, repo, old, nil)
	check(t, err)
	plan, err := manifest.NewPlan(bg, repo, next, nil)
	check(t, err)
	equal(t, "deletes first", plan.DeletesFirst, true)
	equal(t, "first", plan.Changes[0].Action, manifest.Delete)
	report, err := plan.Apply(bg)
	check(t, err)
	equal(t, "deleted", report.Count(manifest.Delete), 7)
	equal(t, "created", report.Count(manifest.Create), 9)
	checkInForce(t, repo, next)
}

func TestWhatCannotBeDeletedLeavesNoRoom(t *testing.T) {
	repo := &boundedStore{Repository: memory.New(nil), stuck: "a3"}
	old, next := entityManifest("a", 8, 1), entityManifest("b", 10, 1)
	_, _, err := manifest.Apply(bg, repo, old, nil)
	check(t, err)
	_, report, err := manifest.Apply(bg, repo, next, nil)
	check(t, err)
	equal(t, "deleted", report.Count(manifest.Delete), 7)
	left, why := report.Left()
	equal(t, "left", left, 10)
	if _, ok := errors.AsType[*limiter.InvalidError](why); !ok {
		t.Errorf("because of %v", why)
	}
	scopes, _ := managed(t, repo)
	equal(t, "managed", scopes, map[limiter.Scope]bool{{Entity: "a3", Resource: "gpt-4"}: true})
	repo.stuck = ""
	_, _, err = manifest.Apply(bg, repo, next, nil)
	check(t, err)
	checkInForce(t, repo, next)
}

func TestPlanRejectsTooManyLevels(t *testing.T) {
	repo := &boundedStore{Repository: memory.New(nil)}
	_, err := manifest.NewPlan(bg, repo, entityManifest("a", 11, 1), nil)
	if err == nil || !strings.Contains(err.Error(), "must be shorter") {
		t.Errorf("error %v", err)
	}
}

// unlistedStore is a store whose lists miss some scopes.
type unlistedStore struct {
	*memory.Repository
	scopes map[limiter.Scope]bool
}

func (b *unlistedStore) ConfigListed(ctx context.Context, s limiter.Scope) (limiter.Config, bool, error) {
	cfg, err := b.Config(ctx, s)
	return cfg, !b.scopes[s], err
}

func (b *unlistedStore) ReplaceConfig(ctx context.Context, cfg limiter.Config, ev limiter.AuditEvent) error {
	delete(b.scopes, cfg.Scope)
	return b.Repository.ReplaceConfig(ctx, cfg, ev)
}

// TestUnlistedLimitsAreWrittenAgain checks that they are written once, even if
// they are as declared.
func TestUnlistedLimitsAreWrittenAgain(t *testing.T) {
	kept, gone := limiter.Scope{Resource: "kept"}, limiter.Scope{Entity: "gone", Resource: "gpt-4"}
	repo := &unlistedStore{memory.New(nil), map[limiter.Scope]bool{
		kept: true, gone: true, {Resource: "never-was"}: true,
	}}
	for i, s := range []limiter.Scope{kept, gone} {
		storeConfig(t, repo, limiter.Config{Scope: s, Limits: []limiter.Limit{limiter.PerMinute("rpm", 1)}},
			[]string{"1", "2"}[i])
	}
	m := parse(t, "resources: {kept: {limits: {rpm: {capacity: 1}}}, never-was: {}}")
	check(t, repo.SetManaged(bg, epoch, "", m.Hash(), "", []limiter.Scope{kept, gone}))
	plan, err := manifest.NewPlan(bg, repo, m, nil)
	check(t, err)
	equal(t, "plan", formatChanges(plan.Changes), "update resource kept\ndelete entity gone/gpt-4")
	equal(t, "what differs", plan.Changes[0].Fields(), []manifest.Field{{
		Name: "state", Before: "unlisted", After: "listed",
	}})
	equal(t, "what goes", plan.Changes[1].Fields()[0], manifest.Field{Name: "state", Before: "unlisted"})
	_, err = plan.Apply(bg)
	check(t, err)
	again, err := manifest.NewPlan(bg, repo, m, nil)
	check(t, err)
	equal(t, "done", again.Done(), true)
}

// TestSystemIsNeverWithoutItsLimits checks that a failed write of the system
// leaves it unchanged.
func TestSystemIsNeverWithoutItsLimits(t *testing.T) {
	repo := &failingStore{Repository: memory.New(nil)}
	rpm := limiter.PerMinute("rpm", 1)
	storeConfig(t, repo, limiter.Config{OnUnavailable: limiter.Block, Limits: []limiter.Limit{rpm}}, "1")
	_, report, err := manifest.Apply(bg, repo, parse(t, "system: {limits: {rpm: {capacity: 1}}}"), nil)
	check(t, err)
	equal(t, "failed", len(report.Failed()), 1)
	equal(t, "deletions", repo.deletions, 0)
	got, err := repo.Config(bg, limiter.Scope{})
	check(t, err)
	equal(t, "stored", got, limiter.Config{OnUnavailable: limiter.Block, Limits: []limiter.Limit{rpm}})
}

// failingStore counts deletes and fails every ReplaceConfig.
type failingStore struct {
	*memory.Repository
	deletions int
}

func (w *failingStore) DeleteConfig(ctx context.Context, s limiter.Scope, ev limiter.AuditEvent) error {
	w.deletions++
	return w.Repository.DeleteConfig(ctx, s, ev)
}

func (w *failingStore) ReplaceConfig(context.Context, limiter.Config, limiter.AuditEvent) error {
	return errors.New("no connection")
}

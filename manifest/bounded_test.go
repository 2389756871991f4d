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

// narrow is a store that lists ten scopes at most.
type narrow struct {
	*memory.Repository
	stuck string // an entity that cannot be deleted
}

func (n *narrow) CheckManaged(scopes []limiter.Scope) error {
	if len(scopes) > 10 {
		return &limiter.InvalidError{Field: "manifest", Reason: "must be shorter"}
	}
	return nil
}

func (n *narrow) SetManaged(ctx context.Context, now time.Time, previous, hash, owner string, scopes []limiter.Scope) error {
	if err := n.CheckManaged(scopes); err != nil {
		return err
	}
	return n.Repository.SetManaged(ctx, now, previous, hash, owner, scopes)
}

func (n *narrow) DeleteConfig(ctx context.Context, s limiter.Scope, ev limiter.AuditEvent) error {
	if s.Entity == n.stuck {
		return errors.New("no connection")
	}
	return n.Repository.DeleteConfig(ctx, s, ev)
}

// TestOldAndNewListNeedNotFitTogether: what goes is deleted first.
func TestOldAndNewListNeedNotFitTogether(t *testing.T) {
	repo := &narrow{Repository: memory.New(nil)}
	old, next := crowd("a", 8, 1), crowd("b", 9, 1)
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
	inForce(t, repo, next)
}

func TestWhatCannotBeDeletedLeavesNoRoom(t *testing.T) {
	repo := &narrow{Repository: memory.New(nil), stuck: "a3"}
	old, next := crowd("a", 8, 1), crowd("b", 10, 1)
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
	inForce(t, repo, next)
}

func TestPlanTellsThatAManifestIsTooLong(t *testing.T) {
	repo := &narrow{Repository: memory.New(nil)}
	_, err := manifest.NewPlan(bg, repo, crowd("a", 11, 1), nil)
	if err == nil || !strings.Contains(err.Error(), "must be shorter") {
		t.Errorf("error %v", err)
	}
}

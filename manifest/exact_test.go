package manifest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/manifest"
	"github.com/zeroae/zae-limiter-go/memory"
)

// TestSystemIsReplacedInOneWrite, whatever of it goes, and whatever others did
// since the plan was made.
func TestSystemIsReplacedInOneWrite(t *testing.T) {
	rpm, tpm := []limiter.Limit{limiter.PerMinute("rpm", 1)}, []limiter.Limit{limiter.PerMinute("tpm", 2)}
	for name, open := range map[string]func(t *testing.T) limiter.Repository{
		"memory": func(*testing.T) limiter.Repository { return memory.New(nil) },
		"sqlite": func(t *testing.T) limiter.Repository { t.Helper(); return onFile(t) },
		"dynamo": func(t *testing.T) limiter.Repository { t.Helper(); repo, _, _ := onTable(t); return repo },
	} {
		t.Run(name, func(t *testing.T) {
			repo := open(t)
			for i, after := range []limiter.Config{{Limits: rpm}, {OnUnavailable: limiter.Allow}, {OnUnavailable: limiter.Block, Limits: tpm}, {}} {
				name := fmt.Sprint("n", i)
				_, err := repo.RegisterNamespace(bg, epoch, name)
				check(t, err)
				view, err := repo.Namespace(bg, name)
				check(t, err)
				store(t, view, limiter.Config{OnUnavailable: limiter.Block, Limits: rpm}, "01JP0000000000000000000001")
				m := &manifest.Manifest{Namespace: name, Levels: []limiter.Config{after}}
				plan, err := manifest.NewPlan(bg, repo, m, nil)
				check(t, err)
				store(t, view, limiter.Config{OnUnavailable: limiter.Allow, Limits: tpm}, "01JP0000000000000000000002")
				report, err := plan.Apply(bg)
				check(t, err)
				equal(t, "failed", len(report.Failed()), 0)
				got, err := view.Config(bg, limiter.Scope{})
				check(t, err)
				equal(t, "stored", got, after)
				equal(t, "mode", view.OnUnavailable(), after.OnUnavailable)
				var actions []string
				for ev, err := range view.AuditEvents(bg, "$SYSTEM", "") {
					check(t, err)
					actions = append(actions, ev.Action)
					if limits, said := ev.Details["limits"].([]any); ev.Action == "limits_set" && (!said || len(limits) != len(after.Limits)) {
						t.Errorf("details %v", ev.Details)
					}
				}
				want := "limits_set"
				if len(after.Limits) == 0 && after.OnUnavailable == "" {
					want = "limits_deleted"
				}
				equal(t, "audit events", actions, []string{want})
			}
		})
	}
}

// A write of the system that fails leaves it as it was.
func TestSystemIsNeverWithoutItsLimits(t *testing.T) {
	repo := &watched{Repository: memory.New(nil)}
	rpm := limiter.PerMinute("rpm", 1)
	store(t, repo, limiter.Config{OnUnavailable: limiter.Block, Limits: []limiter.Limit{rpm}}, "1")
	_, report, err := manifest.Apply(bg, repo, parse(t, "system: {limits: {rpm: {capacity: 1}}}"), nil)
	check(t, err)
	equal(t, "failed", len(report.Failed()), 1)
	equal(t, "deletions", repo.deletions, 0)
	got, err := repo.Config(bg, limiter.Scope{})
	check(t, err)
	equal(t, "stored", got, limiter.Config{OnUnavailable: limiter.Block, Limits: []limiter.Limit{rpm}})
}

// watched counts deletions, and sets nothing.
type watched struct {
	*memory.Repository
	deletions int
}

func (w *watched) DeleteConfig(ctx context.Context, s limiter.Scope, ev limiter.AuditEvent) error {
	w.deletions++
	return w.Repository.DeleteConfig(ctx, s, ev)
}

func (w *watched) ReplaceConfig(context.Context, limiter.Config, limiter.AuditEvent) error {
	return errors.New("no connection")
}

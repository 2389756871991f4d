package manifest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/manifest"
	"github.com/zeroae/zae-limiter-go/memory"
)

var epoch = time.Date(2026, time.March, 14, 15, 9, 26, 0, time.UTC)

// TestPlanIsInOrderAndNamesFields checks a whole plan.
func TestPlanIsInOrderAndNamesFields(t *testing.T) {
	repo := memory.New(nil)
	for i, cfg := range []limiter.Config{
		{OnUnavailable: limiter.Allow, Limits: []limiter.Limit{limiter.PerMinute("rpm", 1)}},
		{Scope: limiter.Scope{Resource: "b"}, Limits: []limiter.Limit{limiter.PerMinute("rpm", 1)}},
		{Scope: limiter.Scope{Resource: "gone"}, Limits: []limiter.Limit{limiter.PerMinute("rpm", 1)}},
		{Scope: limiter.Scope{Resource: "unmanaged"}, Limits: []limiter.Limit{limiter.PerMinute("rpm", 1)}},
		{Scope: limiter.Scope{Entity: "e"}, Limits: []limiter.Limit{limiter.PerMinute("rpm", 1)}},
		{Scope: limiter.Scope{Entity: "e", Resource: "gone"}, Limits: []limiter.Limit{limiter.PerHour("rpm", 1)}},
		{Scope: limiter.Scope{Entity: "e", Resource: "same"}, Limits: []limiter.Limit{limiter.PerHour("rpm", 1)}},
	} {
		storeConfig(t, repo, cfg, fmt.Sprint(i))
	}
	check(t, repo.SetManaged(bg, epoch, "", "before", "", []limiter.Scope{
		{Resource: "gone"}, {Entity: "e", Resource: "gone"}, {Entity: "e", Resource: "long-gone"}, {Resource: "b"},
	}))
	plan, err := manifest.NewPlan(bg, repo, parse(t, `
system:
  on_unavailable: block
  limits: {rpm: {capacity: 1}, tpm: {capacity: 5, burst: 9, refill_period: 3600}}
resources:
  b: {limits: {rpm: {capacity: 2, refill_amount: 1}}}
  a: {limits: {rpm: {capacity: 1}}}
entities:
  e: {resources: {_default_: {}, Z: {limits: {rpm: {capacity: 1}}}, same: {limits: {rpm: {capacity: 1, refill_period: 3600}}}}}
  d: {resources: {z: {limits: {rpm: {capacity: 1}}}}}
`), nil)
	check(t, err)
	var got strings.Builder
	for _, c := range plan.Changes {
		fmt.Fprintf(&got, "%s\n", formatChanges([]manifest.Change{c}))
		for _, f := range c.Fields() {
			fmt.Fprintf(&got, "  %s %q -> %q\n", f.Name, f.Before, f.After)
		}
	}
	equal(t, "plan", got.String(), `update system
  on_unavailable "allow" -> "block"
  tpm.capacity "" -> "9"
  tpm.refill_amount "" -> "5"
  tpm.refill_period "" -> "3600"
create resource a
  rpm.capacity "" -> "1"
  rpm.refill_amount "" -> "1"
  rpm.refill_period "" -> "60"
update resource b
  rpm.capacity "1" -> "2"
delete resource gone
  rpm.capacity "1" -> ""
  rpm.refill_amount "1" -> ""
  rpm.refill_period "60" -> ""
create entity d/z
  rpm.capacity "" -> "1"
  rpm.refill_amount "" -> "1"
  rpm.refill_period "" -> "60"
create entity e/Z
  rpm.capacity "" -> "1"
  rpm.refill_amount "" -> "1"
  rpm.refill_period "" -> "60"
delete entity e/_default_
  rpm.capacity "1" -> ""
  rpm.refill_amount "1" -> ""
  rpm.refill_period "60" -> ""
delete entity e/gone
  rpm.capacity "1" -> ""
  rpm.refill_amount "1" -> ""
  rpm.refill_period "3600" -> ""
`)
	equal(t, "same", plan.Same, 1)
	equal(t, "adopted", plan.Adopted, []limiter.Scope{{Entity: "e", Resource: "same"}})
	equal(t, "released", plan.Released, []limiter.Scope{{Entity: "e", Resource: "long-gone"}})
}

// TestChangesAreAuditedAndRuleLiveBuckets checks that an apply has the effects
// of single calls of the limiter.
func TestChangesAreAuditedAndRuleLiveBuckets(t *testing.T) {
	repo := memory.New(nil)
	at := epoch
	now := func() time.Time { return at }
	lim, err := limiter.New(repo, &limiter.Options{Now: now})
	check(t, err)
	check(t, lim.SetLimits(bg, "e", "r", limiter.PerDay("rpm", 10)))
	_, err = lim.Acquire(bg, limiter.Request{Entity: "e", Resource: "r", Consume: limiter.Tokens("rpm", 4)})
	check(t, err)
	at = at.Add(time.Minute)
	m := parse(t, "entities: {e: {resources: {r: {limits: {rpm: {capacity: 5, refill_period: 86400}}}}}}")
	_, report, err := manifest.Apply(bg, repo, m, &manifest.Options{Now: now, Principal: "ada"})
	check(t, err)
	equal(t, "updated", report.Count(manifest.Update), 1)
	left, err := lim.Available(bg, "e", "r")
	check(t, err)
	equal(t, "what is left, clamped", left.Get("rpm"), int64(5))
	for ev, err := range lim.AuditEvents(bg, "e", "") {
		check(t, err)
		equal(t, "who and when", fmt.Sprint(ev.Action, ev.Principal, ev.At), fmt.Sprint("limits_set", "ada", at))
		break
	}
	var listed []string
	for id, err := range lim.EntitiesWithLimits(bg, "r") {
		check(t, err)
		listed = append(listed, id)
	}
	equal(t, "listed", listed, []string{"e"})
}

// noListStore is a store whose lists miss some limits, as after a write of
// Python's provisioner.
type noListStore struct{ *memory.Repository }

func (noListStore) ResourcesWithDefaults(context.Context) ([]string, error) { return nil, nil }

func TestExportFindsWhatIsManagedButNotListed(t *testing.T) {
	repo := memory.New(nil)
	m := parse(t, "resources: {gpt-4: {limits: {rpm: {capacity: 1}}}}")
	_, _, err := manifest.Apply(bg, repo, m, nil)
	check(t, err)
	got, err := manifest.Export(bg, noListStore{repo}, "")
	check(t, err)
	equal(t, "exported", got, m)
}

func TestNamespaceMustBeThere(t *testing.T) {
	repo := memory.New(nil)
	m := &manifest.Manifest{Namespace: "tenant-a"}
	if _, err := manifest.NewPlan(bg, repo, m, nil); !errors.Is(err, limiter.ErrNotFound) {
		t.Errorf("plan: %v", err)
	}
	if _, _, err := manifest.Apply(bg, repo, m, nil); !errors.Is(err, limiter.ErrNotFound) {
		t.Errorf("apply: %v", err)
	}
	if _, err := manifest.Export(bg, repo, "tenant-a"); !errors.Is(err, limiter.ErrNotFound) {
		t.Errorf("export: %v", err)
	}
}

// plainRepository hides the optional interfaces of a store.
type plainRepository struct{ limiter.Repository }

func TestStoreWithoutMemoryOfManifestsIsRefused(t *testing.T) {
	_, err := manifest.NewPlan(bg, plainRepository{memory.New(nil)}, &manifest.Manifest{}, nil)
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}

func TestInvalidManifestIsRefusedBeforeAnything(t *testing.T) {
	m := &manifest.Manifest{Levels: []limiter.Config{{Limits: []limiter.Limit{{Name: "rpm"}}}}}
	_, _, err := manifest.Apply(bg, memory.New(nil), m, nil)
	if _, ok := errors.AsType[*limiter.InvalidError](err); !ok {
		t.Error(err)
	}
}

// TestInterruptedApplyIsCompletedByAnother cancels an apply. The remaining
// changes fail, and another apply completes them.
func TestInterruptedApplyIsCompletedByAnother(t *testing.T) {
	repo := memory.New(nil)
	m := &manifest.Manifest{}
	for i := range 40 {
		s := limiter.Scope{Entity: fmt.Sprint("key-", i), Resource: "gpt-4"}
		m.Levels = append(m.Levels, limiter.Config{Scope: s, Limits: []limiter.Limit{limiter.PerMinute("rpm", 1)}})
	}
	ctx, cancel := context.WithCancel(bg)
	stops := &hookedStore{Repository: repo, before: func(n int64) {
		if n == 10 {
			cancel()
		}
	}}
	_, report, err := manifest.Apply(ctx, stops, m, nil)
	check(t, err)
	failed := report.Failed()
	// Three of the nine writes before may still have been under way.
	if len(failed) < 20 || len(failed) > 34 {
		t.Errorf("%d of 40 failed", len(failed))
	}
	for _, f := range failed {
		if !errors.Is(f.Err, context.Canceled) {
			t.Errorf("%v: %v", f.Scope, f.Err)
		}
	}
	scopes, hash := managed(t, repo)
	equal(t, "managed", len(scopes), 40-len(failed))
	if !strings.HasPrefix(hash, "partial:") {
		t.Errorf("hash %s", hash)
	}
	_, report, err = manifest.Apply(bg, repo, m, nil)
	check(t, err)
	equal(t, "created by the second", report.Count(manifest.Create), len(failed))
	equal(t, "left by the first", report.Same, 40-len(failed))
}

package manifest_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/manifest"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

const (
	otherStack       = "arn:aws:cloudformation:us-east-1:123456789012:stack/others/2"
	tenantProperties = tableProperty + `, "Namespace": "tenant-a", `
)

// as sets the stack and the resource of the next requests.
func (l *lambda) as(stack, name string) *lambda {
	l.stack, l.name = stack, name
	return l
}

// mustSucceed sends a request that must not fail.
func (l *lambda) mustSucceed(kind, physical, properties string) {
	l.Helper()
	if a := l.ask(kind, physical, properties); a.Status != "SUCCESS" {
		l.Fatalf("%s of %s in %s: %+v", kind, l.name, l.stack, a)
	}
}

func TestRenamedResourceKeepsItsLimits(t *testing.T) {
	l := newLambda(t)
	l.as(stackID, "Old").mustSucceed("Create", "", tenantProperties+limitProperties)
	l.as(stackID, "New").mustSucceed("Create", "", tenantProperties+limitProperties)
	l.as(stackID, "Old").mustSucceed("Delete", l.physicalID(), tableProperty)
	equal(t, "stored", l.limitedResources(), []string{"claude", "gpt-4"})
	l.as(stackID, "New").mustSucceed("Delete", l.physicalID(), tableProperty)
	equal(t, "stored in the end", len(l.limitedResources()), 0)
}

// TestRolledBackRenameKeepsTheLimits covers an update that is rolled back:
// CloudFormation deletes the new resource and keeps the old one.
func TestRolledBackRenameKeepsTheLimits(t *testing.T) {
	l := newLambda(t)
	l.as(stackID, "Old").mustSucceed("Create", "", tenantProperties+limitProperties)
	l.as(stackID, "New").mustSucceed("Create", "", tenantProperties+limitProperties)
	l.as(stackID, "New").mustSucceed("Delete", l.physicalID(), tableProperty)
	equal(t, "stored", l.limitedResources(), []string{"claude", "gpt-4"})
	l.as(stackID, "Old").mustSucceed("Delete", l.physicalID(), tableProperty)
	equal(t, "stored in the end", len(l.limitedResources()), 0)
}

func TestOtherStackIsRefusedAndDeletesNothing(t *testing.T) {
	l := newLambda(t)
	l.as(stackID, "Limits").mustSucceed("Create", "", tenantProperties+limitProperties)
	const other = `"Resources": {"o1": {"Limits": {"rpm": {"Capacity": "1"}}}}`
	for kind, physical := range map[string]string{"Create": "", "Update": "my-app/former/limits-provisioner"} {
		a := l.as(otherStack, "Limits").ask(kind, physical, tenantProperties+other)
		if a.Status != "FAILED" || !strings.Contains(a.Reason, stackID) ||
			!strings.Contains(a.Reason, "`zae-limiter limits apply`") {
			t.Errorf("%s: %+v", kind, a)
		}
		l.mustSucceed("Delete", a.PhysicalResourceID, tableProperty)
	}
	l.mustSucceed("Delete", l.physicalID(), tableProperty)
	equal(t, "stored", l.limitedResources(), []string{"claude", "gpt-4"})

	m := parse(t,
		"namespace: tenant-a\nresources: {gpt-4: {limits: {rpm: {capacity: 100}}}, claude: {limits: {rpm: "+
			"{capacity: 5}}}}")
	plan, err := manifest.NewPlan(bg, l.repo, m, nil)
	check(t, err)
	equal(t, "changes", len(plan.Changes), 0)
	equal(t, "done", plan.Done(), false)
	equal(t, "takes it from", plan.TakesFrom(), stackID)
	_, err = plan.Apply(bg)
	check(t, err)
	l.as(otherStack, "Limits").mustSucceed("Create", "", tenantProperties+other)
	equal(t, "stored by the other one", l.limitedResources(), []string{"o1"})
	l.as(stackID, "Limits").mustSucceed("Delete", l.physicalID(), tableProperty)
	equal(t, "stored after the first one has gone", l.limitedResources(), []string{"o1"})
	l.as(otherStack, "Limits").mustSucceed("Delete", l.physicalID(), tableProperty)
	equal(t, "stored in the end", len(l.limitedResources()), 0)
}

// TestTakenByHandIsNotDeleted checks that limits taken from a stack by a
// manual apply stay when the stack is deleted, and that a stack may take them
// again.
func TestTakenByHandIsNotDeleted(t *testing.T) {
	l := newLambda(t)
	l.as(stackID, "Limits").mustSucceed("Create", "", tenantProperties+limitProperties)
	_, _, err := manifest.Apply(bg, l.repo,
		parse(t, "namespace: tenant-a\nresources: {gpt-4: {limits: {rpm: {capacity: 1}}}}"), nil)
	check(t, err)
	l.as(stackID, "Limits").mustSucceed("Delete", l.physicalID(), tableProperty)
	equal(t, "stored after the stack has gone", l.limitedResources(), []string{"gpt-4"})
	l.as(otherStack, "Limits").mustSucceed("Create", "", tenantProperties+limitProperties)
	l.as(otherStack, "Limits").mustSucceed("Delete", l.physicalID(), tableProperty)
	equal(t, "stored in the end", len(l.limitedResources()), 0)
}

// TestFailedCreateTakesNothingOfOthersWithIt covers CloudFormation's delete of
// a resource that it could not create.
func TestFailedCreateTakesNothingOfOthersWithIt(t *testing.T) {
	for name, before := range map[string]func(l *lambda){
		"by hand": func(l *lambda) {
			_, _, err := manifest.Apply(bg, l.repo,
				parse(t, "namespace: tenant-a\nresources: {gpt-4: {limits: {rpm: {capacity: 1}}}}"), nil)
			check(t, err)
		},
		"under another name": func(l *lambda) {
			l.as(stackID, "Old").mustSucceed("Create", "",
				tenantProperties+`"Resources": {"gpt-4": {"Limits": {"rpm": {"Capacity": "1"}}}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLambda(t)
			before(l)
			open := l.Open
			l.Open = func(ctx context.Context, table string) (limiter.Repository, error) {
				repo, err := open(ctx, table)
				check(t, err)
				return repotest.NewFaulty(repo, func(method string) repotest.Fault {
					if method == "ReplaceConfig" {
						return repotest.Before
					}
					return repotest.None
				}), nil
			}
			a := l.as(stackID, "Limits").ask("Create", "", tenantProperties+limitProperties)
			equal(t, "answer", a.Status, "FAILED")
			l.Open = open
			l.mustSucceed("Delete", a.PhysicalResourceID, tableProperty)
			equal(t, "stored", l.limitedResources(), []string{"gpt-4"})
		})
	}
}

func TestCreateThatWasTakenOverTakesNothingWithIt(t *testing.T) {
	l := newLambda(t)
	tenant, err := l.repo.Namespace(bg, "tenant-a")
	check(t, err)
	view, open := tenant.(*memory.Repository), l.Open
	stalled := &hookedStore{Repository: view, before: func(n int64) {
		if n > 1 {
			return
		}
		_, hash, _, err := view.Managed(bg)
		check(t, err)
		check(t, view.SetManaged(bg, epoch, hash, "taken over", "", nil))
		_, _, err = manifest.Apply(bg, view, parse(t, "resources: {by-hand: {limits: {rpm: {capacity: 1}}}}"), nil)
		check(t, err)
	}}
	l.Open = func(context.Context, string) (limiter.Repository, error) { return sameView{stalled}, nil }
	a := l.ask("Create", "", tenantProperties+limitProperties)
	if a.Status != "FAILED" || strings.Count(a.Reason, "took over") != 1 {
		t.Errorf("%+v", a)
	}
	l.Open = open
	l.mustSucceed("Delete", a.PhysicalResourceID, tableProperty)
	if !slices.Contains(l.limitedResources(), "by-hand") {
		t.Errorf("stored %v", l.limitedResources())
	}
}

// raceWith runs rival between the reads and the first write of the next
// request. Calling stop restores the store.
func (l *lambda) raceWith(rival func()) (stop func()) {
	l.Helper()
	tenant, err := l.repo.Namespace(bg, "tenant-a")
	check(l.T, err)
	open, once := l.Open, sync.Once{}
	stop = func() { l.Open = open }
	store := &hookedStore{Repository: tenant.(*memory.Repository), renewal: func() error {
		once.Do(func() {
			stack, name := l.stack, l.name
			stop()
			rival()
			l.as(stack, name)
		})
		return nil
	}}
	l.Open = func(context.Context, string) (limiter.Repository, error) { return sameView{store}, nil }
	return stop
}

// TestResourcesThatGoTogether covers concurrent deletes of one stack's
// resources.
func TestResourcesThatGoTogether(t *testing.T) {
	l := newLambda(t)
	l.as(stackID, "A").mustSucceed("Create", "", tenantProperties+limitProperties)
	l.as(stackID, "B").mustSucceed("Create", "", tenantProperties+limitProperties)
	stop := l.raceWith(func() { l.as(stackID, "B").mustSucceed("Delete", l.physicalID(), tableProperty) })
	defer stop()
	l.as(stackID, "A").mustSucceed("Delete", l.physicalID(), tableProperty)
	equal(t, "stored in the end", len(l.limitedResources()), 0)
}

// TestTakenByHandMeanwhile checks that a change of the owner alone makes a
// plan stale.
func TestTakenByHandMeanwhile(t *testing.T) {
	l := newLambda(t)
	l.as(stackID, "A").mustSucceed("Create", "", tenantProperties+limitProperties)
	same, err := manifest.Export(bg, l.repo, "tenant-a")
	check(t, err)
	stop := l.raceWith(func() {
		_, _, err := manifest.Apply(bg, l.repo, same, nil)
		check(t, err)
	})
	defer stop()
	l.as(stackID, "A").mustSucceed("Delete", l.physicalID(), tableProperty)
	equal(t, "stored", l.limitedResources(), []string{"claude", "gpt-4"})
}

// TestUnownedLimitsStay covers limits without an owner, such as those of
// Python or of a manual apply. A rolled-back create deletes none of them.
func TestUnownedLimitsStay(t *testing.T) {
	l := newLambda(t)
	_, _, err := manifest.Apply(bg, l.repo,
		parse(t, "namespace: tenant-a\nresources: {gpt-4: {limits: {rpm: {capacity: 1}}}}"), nil)
	check(t, err)
	l.as(stackID, "New").mustSucceed("Create", "", tenantProperties+limitProperties)
	l.as(stackID, "New").mustSucceed("Delete", l.physicalID(), tableProperty)
	equal(t, "stored after a rollback", l.limitedResources(), []string{"claude", "gpt-4"})
	l.as(stackID, "New").mustSucceed("Create", "", tenantProperties+limitProperties)
	l.as(stackID, "Old").mustSucceed("Delete", l.physicalID(), tableProperty)
	equal(t, "stored after a rename", l.limitedResources(), []string{"claude", "gpt-4"})
	l.as(stackID, "New").mustSucceed("Delete", l.physicalID(), tableProperty)
	equal(t, "stored in the end", len(l.limitedResources()), 0)
}

// TestResourceFromBeforeOwnersOwnsWhatItUpdates covers a resource that was
// created before owners were stored.
func TestResourceFromBeforeOwnersOwnsWhatItUpdates(t *testing.T) {
	l := newLambda(t)
	_, _, err := manifest.Apply(bg, l.repo,
		parse(t, "namespace: tenant-a\nresources: {gpt-4: {limits: {rpm: {capacity: 1}}}}"), nil)
	check(t, err)
	l.as(stackID, "Limits").mustSucceed("Update", l.physicalID(), tenantProperties+limitProperties)
	l.as(stackID, "Limits").mustSucceed("Delete", l.physicalID(), tableProperty)
	equal(t, "stored in the end", len(l.limitedResources()), 0)
}

// TestOwnerWhileAtWork checks the stored owner during an apply: a killed
// create owns its own limits, and limits of others keep their owner until the
// end.
func TestOwnerWhileAtWork(t *testing.T) {
	l := newLambda(t)
	tenant, err := l.repo.Namespace(bg, "tenant-a")
	check(t, err)
	view, open := tenant.(*memory.Repository), l.Open
	owners := func() (seen []string) {
		store := &hookedStore{Repository: view, before: func(int64) {
			_, _, owner, err := view.Managed(bg)
			check(t, err)
			seen = append(seen, owner)
		}}
		l.Open = func(context.Context, string) (limiter.Repository, error) { return sameView{store}, nil }
		l.mustSucceed("Create", "",
			tenantProperties+`"Resources": {"gpt-4": {"Limits": {"rpm": {"Capacity": "`+string(rune('1'+len(l.name)))+
				`"}}}}`)
		l.Open = open
		return seen
	}
	equal(t, "at first", l.as(stackID, "A").name, "A")
	equal(t, "owner of unowned limits", owners(), []string{stackID + " A"})
	l.as(stackID, "Second")
	equal(t, "owner before the second is done", owners(), []string{stackID + " A"})
}

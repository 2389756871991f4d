package manifest_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/manifest"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

const (
	otherStack = "arn:aws:cloudformation:us-east-1:123456789012:stack/others/2"
	ofTenant   = ofTable + `, "Namespace": "tenant-a", `
)

// as is the same provisioner, asked by another resource.
func (l *lambda) as(stack, name string) *lambda {
	l.stack, l.name = stack, name
	return l
}

// succeeds asks for something that must not fail.
func (l *lambda) succeeds(kind, physical, properties string) {
	l.Helper()
	if a := l.ask(kind, physical, properties); a.Status != "SUCCESS" {
		l.Fatalf("%s of %s in %s: %+v", kind, l.name, l.stack, a)
	}
}

func TestRenamedResourceKeepsItsLimits(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) limiter.Repository{
		"memory": func(*testing.T) limiter.Repository { return memory.New(nil) },
		"sqlite": func(t *testing.T) limiter.Repository { t.Helper(); return onFile(t) },
		"dynamo": func(t *testing.T) limiter.Repository { t.Helper(); repo, _, _ := onTable(t); return repo },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLambdaOn(t, open(t))
			l.as(stackID, "Old").succeeds("Create", "", ofTenant+declares)
			l.as(stackID, "New").succeeds("Create", "", ofTenant+declares)
			l.as(stackID, "Old").succeeds("Delete", l.physical(), ofTable)
			equal(t, "stored", l.limited(), []string{"claude", "gpt-4"})
			l.as(stackID, "New").succeeds("Delete", l.physical(), ofTable)
			equal(t, "stored in the end", len(l.limited()), 0)
		})
	}
}

// A stack whose update is rolled back deletes the new resource, and the old one
// is still in its template.
func TestRolledBackRenameKeepsTheLimits(t *testing.T) {
	l := newLambda(t)
	l.as(stackID, "Old").succeeds("Create", "", ofTenant+declares)
	l.as(stackID, "New").succeeds("Create", "", ofTenant+declares)
	l.as(stackID, "New").succeeds("Delete", l.physical(), ofTable)
	equal(t, "stored", l.limited(), []string{"claude", "gpt-4"})
	l.as(stackID, "Old").succeeds("Delete", l.physical(), ofTable)
	equal(t, "stored in the end", len(l.limited()), 0)
}

func TestOtherStackIsRefusedAndDeletesNothing(t *testing.T) {
	l := newLambda(t)
	l.as(stackID, "Limits").succeeds("Create", "", ofTenant+declares)
	const other = `"Resources": {"o1": {"Limits": {"rpm": {"Capacity": "1"}}}}`
	for kind, physical := range map[string]string{"Create": "", "Update": "my-app/former/limits-provisioner"} {
		a := l.as(otherStack, "Limits").ask(kind, physical, ofTenant+other)
		if a.Status != "FAILED" || !strings.Contains(a.Reason, stackID) || !strings.Contains(a.Reason, "`zae-limiter limits apply`") {
			t.Errorf("%s: %+v", kind, a)
		}
		l.succeeds("Delete", a.PhysicalResourceID, ofTable)
	}
	l.succeeds("Delete", l.physical(), ofTable)
	equal(t, "stored", l.limited(), []string{"claude", "gpt-4"})

	m := parse(t, "namespace: tenant-a\nresources: {gpt-4: {limits: {rpm: {capacity: 100}}}, claude: {limits: {rpm: {capacity: 5}}}}")
	plan, err := manifest.NewPlan(bg, l.repo, m, nil)
	check(t, err)
	equal(t, "changes", len(plan.Changes), 0)
	equal(t, "done", plan.Done(), false)
	equal(t, "takes it from", plan.TakesFrom(), stackID)
	_, err = plan.Apply(bg)
	check(t, err)
	l.as(otherStack, "Limits").succeeds("Create", "", ofTenant+other)
	equal(t, "stored by the other one", l.limited(), []string{"o1"})
	l.as(stackID, "Limits").succeeds("Delete", l.physical(), ofTable)
	equal(t, "stored after the first one has gone", l.limited(), []string{"o1"})
	l.as(otherStack, "Limits").succeeds("Delete", l.physical(), ofTable)
	equal(t, "stored in the end", len(l.limited()), 0)
}

// TestTakenByHandIsNotDeleted: whoever takes limits from a stack keeps them when
// it goes, and may give them back.
func TestTakenByHandIsNotDeleted(t *testing.T) {
	l := newLambda(t)
	l.as(stackID, "Limits").succeeds("Create", "", ofTenant+declares)
	_, _, err := manifest.Apply(bg, l.repo, parse(t, "namespace: tenant-a\nresources: {gpt-4: {limits: {rpm: {capacity: 1}}}}"), nil)
	check(t, err)
	l.as(stackID, "Limits").succeeds("Delete", l.physical(), ofTable)
	equal(t, "stored after the stack has gone", l.limited(), []string{"gpt-4"})
	l.as(otherStack, "Limits").succeeds("Create", "", ofTenant+declares)
	l.as(otherStack, "Limits").succeeds("Delete", l.physical(), ofTable)
	equal(t, "stored in the end", len(l.limited()), 0)
}

// TestFailedCreateTakesNothingOfOthersWithIt: CloudFormation deletes what it
// could not create.
func TestFailedCreateTakesNothingOfOthersWithIt(t *testing.T) {
	for name, before := range map[string]func(l *lambda){
		"by hand": func(l *lambda) {
			_, _, err := manifest.Apply(bg, l.repo, parse(t, "namespace: tenant-a\nresources: {gpt-4: {limits: {rpm: {capacity: 1}}}}"), nil)
			check(t, err)
		},
		"under another name": func(l *lambda) {
			l.as(stackID, "Old").succeeds("Create", "", ofTenant+`"Resources": {"gpt-4": {"Limits": {"rpm": {"Capacity": "1"}}}}`)
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
			a := l.as(stackID, "Limits").ask("Create", "", ofTenant+declares)
			equal(t, "answer", a.Status, "FAILED")
			l.Open = open
			l.succeeds("Delete", a.PhysicalResourceID, ofTable)
			equal(t, "stored", l.limited(), []string{"gpt-4"})
		})
	}
}

func TestCreateThatWasTakenOverTakesNothingWithIt(t *testing.T) {
	l := newLambda(t)
	tenant, err := l.repo.Namespace(bg, "tenant-a")
	check(t, err)
	view, open := tenant.(*memory.Repository), l.Open
	stalled := &hooked{Repository: view, before: func(n int64) {
		if n > 1 {
			return
		}
		_, hash, _, err := view.Managed(bg)
		check(t, err)
		check(t, view.SetManaged(bg, epoch, hash, "taken over", "", nil))
		_, _, err = manifest.Apply(bg, view, parse(t, "resources: {by-hand: {limits: {rpm: {capacity: 1}}}}"), nil)
		check(t, err)
	}}
	l.Open = func(context.Context, string) (limiter.Repository, error) { return slow{stalled}, nil }
	a := l.ask("Create", "", ofTenant+declares)
	if a.Status != "FAILED" || strings.Count(a.Reason, "took over") != 1 {
		t.Errorf("%+v", a)
	}
	l.Open = open
	l.succeeds("Delete", a.PhysicalResourceID, ofTable)
	if !slices.Contains(l.limited(), "by-hand") {
		t.Errorf("stored %v", l.limited())
	}
}

package manifest_test

import (
	"context"
	"sync"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/manifest"
	"github.com/zeroae/zae-limiter-go/memory"
)

// overtaken has rival do something between what the next request reads and its
// first write, until the returned function is called.
func (l *lambda) overtaken(rival func()) (stop func()) {
	l.Helper()
	tenant, err := l.repo.Namespace(bg, "tenant-a")
	check(l.T, err)
	open, once := l.Open, sync.Once{}
	stop = func() { l.Open = open }
	store := &hooked{Repository: tenant.(*memory.Repository), renewal: func() error {
		once.Do(func() {
			stack, name := l.stack, l.name
			stop()
			rival()
			l.as(stack, name)
		})
		return nil
	}}
	l.Open = func(context.Context, string) (limiter.Repository, error) { return slow{store}, nil }
	return stop
}

// TestResourcesThatGoTogether: CloudFormation deletes the resources of a stack
// side by side.
func TestResourcesThatGoTogether(t *testing.T) {
	l := newLambda(t)
	l.as(stackID, "A").succeeds("Create", "", ofTenant+declares)
	l.as(stackID, "B").succeeds("Create", "", ofTenant+declares)
	stop := l.overtaken(func() { l.as(stackID, "B").succeeds("Delete", l.physical(), ofTable) })
	defer stop()
	l.as(stackID, "A").succeeds("Delete", l.physical(), ofTable)
	equal(t, "stored in the end", len(l.limited()), 0)
}

// TestTakenByHandMeanwhile: the same content with another owner is no longer the
// same.
func TestTakenByHandMeanwhile(t *testing.T) {
	l := newLambda(t)
	l.as(stackID, "A").succeeds("Create", "", ofTenant+declares)
	same, err := manifest.Export(bg, l.repo, "tenant-a")
	check(t, err)
	stop := l.overtaken(func() {
		_, _, err := manifest.Apply(bg, l.repo, same, nil)
		check(t, err)
	})
	defer stop()
	l.as(stackID, "A").succeeds("Delete", l.physical(), ofTable)
	equal(t, "stored", l.limited(), []string{"claude", "gpt-4"})
}

// TestWhatNobodyOwnedStays: a record of Python's has no owner, and neither has
// one of a person. A create that is rolled back takes nothing of it away.
func TestWhatNobodyOwnedStays(t *testing.T) {
	l := newLambda(t)
	_, _, err := manifest.Apply(bg, l.repo, parse(t, "namespace: tenant-a\nresources: {gpt-4: {limits: {rpm: {capacity: 1}}}}"), nil)
	check(t, err)
	l.as(stackID, "New").succeeds("Create", "", ofTenant+declares)
	l.as(stackID, "New").succeeds("Delete", l.physical(), ofTable)
	equal(t, "stored after a rollback", l.limited(), []string{"claude", "gpt-4"})
	l.as(stackID, "New").succeeds("Create", "", ofTenant+declares)
	l.as(stackID, "Old").succeeds("Delete", l.physical(), ofTable)
	equal(t, "stored after a rename", l.limited(), []string{"claude", "gpt-4"})
	l.as(stackID, "New").succeeds("Delete", l.physical(), ofTable)
	equal(t, "stored in the end", len(l.limited()), 0)
}

// TestResourceFromBeforeOwnersOwnsWhatItUpdates: it made all that is there.
func TestResourceFromBeforeOwnersOwnsWhatItUpdates(t *testing.T) {
	l := newLambda(t)
	_, _, err := manifest.Apply(bg, l.repo, parse(t, "namespace: tenant-a\nresources: {gpt-4: {limits: {rpm: {capacity: 1}}}}"), nil)
	check(t, err)
	l.as(stackID, "Limits").succeeds("Update", l.physical(), ofTenant+declares)
	l.as(stackID, "Limits").succeeds("Delete", l.physical(), ofTable)
	equal(t, "stored in the end", len(l.limited()), 0)
}

// TestOwnerWhileAtWork: a create that is killed has left something of its own,
// but what belonged to others stays theirs until all is done.
func TestOwnerWhileAtWork(t *testing.T) {
	l := newLambda(t)
	tenant, err := l.repo.Namespace(bg, "tenant-a")
	check(t, err)
	view, open := tenant.(*memory.Repository), l.Open
	owners := func() (seen []string) {
		store := &hooked{Repository: view, before: func(int64) {
			_, _, owner, err := view.Managed(bg)
			check(t, err)
			seen = append(seen, owner)
		}}
		l.Open = func(context.Context, string) (limiter.Repository, error) { return slow{store}, nil }
		l.succeeds("Create", "", ofTenant+`"Resources": {"gpt-4": {"Limits": {"rpm": {"Capacity": "`+string(rune('1'+len(l.name)))+`"}}}}`)
		l.Open = open
		return seen
	}
	equal(t, "at first", l.as(stackID, "A").name, "A")
	equal(t, "owner of what was nobody's", owners(), []string{stackID + " A"})
	l.as(stackID, "Second")
	equal(t, "owner before the second is done", owners(), []string{stackID + " A"})
}

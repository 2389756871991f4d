package infra_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/infra"
)

func remove(t *testing.T, name string, opts infra.DeleteOptions) infra.Removal {
	t.Helper()
	r, err := infra.Delete(t.Context(), name, &opts)
	must(t, err)
	return r
}

func TestDeleteRemovesEverything(t *testing.T) {
	t.Parallel()
	c, name := fresh(t, true)
	var told []string
	opts := infra.DeleteOptions{Options: c.options()}
	opts.Options.Event = func(e infra.Event) { told = append(told, e.Resource+" "+e.Status) }
	r := remove(t, name, opts)
	if diff := cmp.Diff(infra.Removal{Name: name, Region: region, Existed: true, Items: r.Items, Artifacts: ownBucketOf(name), Complete: true}, r); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{name + " DELETE_IN_PROGRESS", name + " DELETE_COMPLETE"}, told); diff != "" {
		t.Error(diff)
	}
	if r.Items < 3 || len(c.buckets) > 0 || c.find(name) != nil {
		t.Error(r.Items, c.buckets)
	}
	if r := remove(t, name, opts); r.Existed || !r.Complete || r.Artifacts != "" {
		t.Errorf("%+v", r)
	}
}

// A stack that somebody makes as soon as ours is gone is not ours to delete, nor
// is the bucket that it uses.
func TestDeleteLeavesTheNextStack(t *testing.T) {
	t.Parallel()
	c, name := fresh(t, true)
	ours := c.find(name)
	var next *cloudStack
	c.plan = func(asked *cloudCall) *reply {
		if asked.op == "DescribeStacks" && ours.status == "DELETE_COMPLETE" && next == nil && asked.form.Get("StackName") == name {
			next = c.put(name, "CREATE_COMPLETE", managedTags(name))
		}
		return nil
	}
	r := remove(t, name, infra.DeleteOptions{Options: c.options()})
	if !r.Existed || !r.Complete || r.Artifacts != "" || next.status != "CREATE_COMPLETE" || c.buckets[ownBucketOf(name)] == nil {
		t.Errorf("%+v, %s", r, next.status)
	}
	if got := c.calls("DeleteStack"); len(got) != 1 {
		t.Error(got)
	}
}

// A bucket that nobody has finished making is removed with the stack.
func TestDeleteRemovesAHalfMadeBucket(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	c.buckets[ownBucketOf(name)] = &bucket{objects: map[string][]byte{}}
	if r := remove(t, name, infra.DeleteOptions{Options: c.options()}); r.Artifacts != ownBucketOf(name) || len(c.buckets) > 0 {
		t.Errorf("%+v, %v", r, c.buckets)
	}
}

// A stack that cannot be deployed needs another way to unprotect its table.
func TestDeleteOfABrokenStackSaysHowToUnprotect(t *testing.T) {
	t.Parallel()
	c, name := fresh(t, true)
	_, err := dynamodb.NewFromConfig(*config(c.engine)).UpdateTable(t.Context(), &dynamodb.UpdateTableInput{TableName: &name, DeletionProtectionEnabled: aws.Bool(true)})
	must(t, err)
	t.Cleanup(func() {
		_, _ = dynamodb.NewFromConfig(*config(c.engine)).UpdateTable(context.Background(), &dynamodb.UpdateTableInput{TableName: &name, DeletionProtectionEnabled: aws.Bool(false)})
	})
	_, err = infra.Delete(t.Context(), name, &infra.DeleteOptions{Options: c.options()})
	wants[*infra.RefusedError](t, err, "zae-limiter deploy --name "+name+" --no-deletion-protection")
	c.find(name).status = "ROLLBACK_FAILED"
	_, err = infra.Delete(t.Context(), name, &infra.DeleteOptions{Options: c.options()})
	wants[*infra.RefusedError](t, err, "aws dynamodb update-table --no-deletion-protection-enabled --table-name "+name)
}

func TestDeleteShowsWhatItIsAboutToDo(t *testing.T) {
	t.Parallel()
	c, name := fresh(t, true)
	c.buckets[name+"-archive"].objects["event"] = nil
	no := errors.New("no")
	var seen infra.Removal
	_, err := infra.Delete(t.Context(), name, &infra.DeleteOptions{Options: c.options(), Confirm: func(r infra.Removal) error { seen = r; return no }})
	if err != no { //nolint:errorlint // as it is, not wrapped
		t.Error(err)
	}
	want := infra.Removal{Name: name, Region: region, Existed: true, Items: seen.Items, Archive: name + "-archive", ArchiveKept: true}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
	if got := c.calls("DeleteStack", "DeleteObjects", "DeleteBucket"); len(got) > 0 {
		t.Error(got)
	}
}

// TestDeleteKeepsAnArchiveThatHoldsSomething is also true where the template
// would have it deleted, as Python's does.
func TestDeleteKeepsAnArchiveThatHoldsSomething(t *testing.T) {
	t.Parallel()
	for _, template := range []string{string(infra.Template()), "python"} {
		c, name := fresh(t, true)
		s, archive := c.find(name), c.buckets[name+"-archive"]
		s.template, archive.objects["event"] = template, nil
		r := remove(t, name, infra.DeleteOptions{Options: c.options()})
		if r.Archive != name+"-archive" || !r.ArchiveKept || !r.Complete {
			t.Errorf("%+v", r)
		}
		if len(archive.objects) != 1 || c.buckets[name+"-archive"] == nil || len(c.buckets) != 1 {
			t.Error(c.buckets)
		}
		if got := slices.Equal(s.retained, []string{archiveID}); got != (template == "python") {
			t.Error(s.retained)
		}
	}
}

func TestDeleteOfAnArchiveIsAsked(t *testing.T) {
	t.Parallel()
	c, name := fresh(t, true)
	c.buckets[name+"-archive"].objects["event"] = nil
	r := remove(t, name, infra.DeleteOptions{Options: c.options(), DeleteArchive: true})
	if r.Archive != name+"-archive" || r.ArchiveKept || len(c.buckets) > 0 || len(c.stacks[0].retained) > 0 {
		t.Errorf("%+v %v", r, c.buckets)
	}
}

func TestDeleteRespectsProtection(t *testing.T) {
	t.Parallel()
	c, name := fresh(t, true)
	opts := &infra.DeleteOptions{Options: c.options()}
	client := dynamodb.NewFromConfig(*config(c.engine))
	protect := func(on bool) {
		_, err := client.UpdateTable(context.Background(), &dynamodb.UpdateTableInput{TableName: &name, DeletionProtectionEnabled: aws.Bool(on)})
		must(t, err)
	}
	protect(true)
	_, err := infra.Delete(t.Context(), name, opts)
	wants[*infra.RefusedError](t, err, "table is protected", "--no-deletion-protection")
	protect(false)
	s := c.find(name)
	s.protected = true
	_, err = infra.Delete(t.Context(), name, opts)
	wants[*infra.RefusedError](t, err, "termination-protection")
	if got := c.calls("DeleteStack"); len(got) > 0 {
		t.Error(got)
	}
	s.protected = false
	remove(t, name, *opts)
}

func TestDeleteInEveryState(t *testing.T) {
	t.Parallel()
	for _, status := range []string{
		"CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "ROLLBACK_COMPLETE", "CREATE_FAILED", "ROLLBACK_FAILED",
		"DELETE_FAILED", "UPDATE_ROLLBACK_FAILED", "UPDATE_FAILED", "REVIEW_IN_PROGRESS", "UPDATE_IN_PROGRESS", "CREATE_IN_PROGRESS", "DELETE_IN_PROGRESS",
	} {
		c, name := newCloud(t), stackName()
		s := c.put(name, status, managedTags(name))
		c.happened(s, "", status, "")
		after := map[string]string{"UPDATE_IN_PROGRESS": "UPDATE_COMPLETE", "CREATE_IN_PROGRESS": "ROLLBACK_COMPLETE", "DELETE_IN_PROGRESS": "DELETE_COMPLETE"}[status]
		if after != "" {
			s.steps = []step{{status: status}, {status: after}}
		}
		if r := remove(t, name, infra.DeleteOptions{Options: c.options()}); !r.Existed || !r.Complete || s.status != "DELETE_COMPLETE" {
			t.Errorf("%s: %+v %s", status, r, s.status)
		}
	}
}

func TestDeleteThatFailsSaysWhy(t *testing.T) {
	t.Parallel()
	c, name := fresh(t, true)
	c.failing[tableID], c.find(name).template = "The table is in use", "python"
	c.buckets[name+"-archive"].objects["event"] = nil
	_, err := infra.Delete(t.Context(), name, &infra.DeleteOptions{Options: c.options()})
	wants[*infra.FailedError](t, err, "deleted", "DELETE_FAILED", "RateLimitsTable DELETE_FAILED: The table is in use")
	if got := c.calls("DeleteStack"); len(got) != 1 || c.buckets[ownBucketOf(name)] == nil {
		t.Error("it went on, though the stack is there:", got)
	}
	clear(c.failing)
	remove(t, name, infra.DeleteOptions{Options: c.options()})
}

func TestDeleteWithoutWaiting(t *testing.T) {
	t.Parallel()
	c, name := fresh(t, true)
	opts := infra.DeleteOptions{Options: c.options()}
	opts.Options.NoWait = true
	if r := remove(t, name, opts); r.Complete || c.buckets[ownBucketOf(name)] == nil {
		t.Errorf("%+v", r)
	}
	s := c.find(name)
	for s.status != "DELETE_IN_PROGRESS" {
		c.advance(s)
	}
	s.steps = append([]step{{status: "DELETE_IN_PROGRESS"}}, s.steps...)
	if r := remove(t, name, opts); r.Complete || !r.Existed {
		t.Errorf("%+v", r)
	}
	s.status, s.steps = "UPDATE_IN_PROGRESS", []step{{status: "UPDATE_IN_PROGRESS"}, {status: "UPDATE_COMPLETE"}}
	_, err := infra.Delete(t.Context(), name, &opts)
	wants[*infra.RefusedError](t, err, "UPDATE_IN_PROGRESS")
	opts.Options.NoWait = false
	if r := remove(t, name, opts); !r.Complete || r.Artifacts != ownBucketOf(name) {
		t.Errorf("%+v", r)
	}
}

func TestBucketsOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	for says, b := range map[string]*bucket{
		"another account": {foreign: true},
		"something else":  {tags: map[string]string{"ManagedBy": "zae-limiter", "zae-limiter:name": "another"}},
		"belongs to":      {objects: map[string][]byte{"not ours": nil}},
	} {
		c, name := newCloud(t), stackName()
		c.buckets[ownBucketOf(name)] = b
		opts := c.options()
		_, err := infra.Deploy(t.Context(), name, &opts)
		wants[*infra.RefusedError](t, err, ownBucketOf(name), says, "name another one")
		remove(t, name, infra.DeleteOptions{Options: opts})
		if c.buckets[ownBucketOf(name)] == nil {
			t.Error("it is gone")
		}
	}
}

func TestABucketOfTheUserIsUsedAndKept(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	opts := c.options()
	opts.Stack.ArtifactBucket = "theirs-" + name
	_, err := infra.Deploy(t.Context(), name, &opts)
	if err == nil || !strings.Contains(err.Error(), "must be there already") {
		t.Error(err)
	}
	c.buckets[opts.Stack.ArtifactBucket] = &bucket{objects: map[string][]byte{"theirs": nil}}
	d := deploy(t, name, opts)
	if d.Code.Bucket != opts.Stack.ArtifactBucket || !d.Code.Uploaded || c.buckets[ownBucketOf(name)] != nil {
		t.Errorf("%+v", d.Code)
	}
	upgrade := infra.UpgradeOptions{Options: c.options()}
	upgrade.Options.Version = "1.3.0"
	again, err := infra.Upgrade(t.Context(), name, &upgrade)
	must(t, err)
	if again.Code.Bucket != opts.Stack.ArtifactBucket || again.Code.Uploaded {
		t.Errorf("%+v", again.Code)
	}
	remove(t, name, infra.DeleteOptions{Options: opts})
	if len(c.buckets[opts.Stack.ArtifactBucket].objects) != 2 {
		t.Error("something in it is gone")
	}
}

func TestABucketOfTheUserIsInTheSameRegion(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	opts := c.options()
	opts.Stack.ArtifactBucket = "elsewhere"
	c.plan = func(asked *cloudCall) *reply {
		if asked.op == "HeadBucket" {
			return &reply{200, map[string]string{"X-Amz-Bucket-Region": "us-west-2"}, nil}
		}
		return nil
	}
	_, err := infra.Deploy(t.Context(), name, &opts)
	if err == nil || !strings.Contains(err.Error(), "us-west-2") {
		t.Error(err)
	}
}

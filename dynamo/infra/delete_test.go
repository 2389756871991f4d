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

	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
)

// remove deletes a stack, and fails the test if it cannot.
func remove(t *testing.T, name string, opts infra.DeleteOptions) infra.Removal {
	t.Helper()
	r, err := infra.Delete(t.Context(), name, &opts)
	must(t, err)
	return r
}

func TestDeleteRemovesEverything(t *testing.T) {
	t.Parallel()
	c, name := newStack(t, true)
	var events []string
	opts := infra.DeleteOptions{Options: c.options()}
	opts.Options.Event = func(e infra.Event) { events = append(events, e.Resource+" "+e.Status) }
	r := remove(t, name, opts)
	if diff := cmp.Diff(
		infra.Removal{
			Name: name, Region: fakeaws.Region, Existed: true, Items: r.Items,
			Artifacts: artifactBucketOf(name), Complete: true,
		},
		r,
	); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{name + " DELETE_IN_PROGRESS", name + " DELETE_COMPLETE"}, events); diff != "" {
		t.Error(diff)
	}
	if r.Items < 3 || len(c.Buckets) > 0 || c.Find(name) != nil {
		t.Error(r.Items, c.Buckets)
	}
	if r := remove(t, name, opts); r.Existed || !r.Complete || r.Artifacts != "" {
		t.Errorf("%+v", r)
	}
}

// Delete keeps a stack that another caller creates right after the deletion, and its
// bucket.
func TestDeleteLeavesTheNextStack(t *testing.T) {
	t.Parallel()
	c, name := newStack(t, true)
	ours := c.Find(name)
	var next *fakeaws.Stack
	c.Intercept = func(r *fakeaws.Request) *fakeaws.Reply {
		if r.Op == "DescribeStacks" && ours.Status == "DELETE_COMPLETE" && next == nil &&
			r.Form.Get("StackName") == name {
			next = c.AddStack(name, "CREATE_COMPLETE", managedTags(name))
		}
		return nil
	}
	r := remove(t, name, infra.DeleteOptions{Options: c.options()})
	if !r.Existed || !r.Complete || r.Artifacts != "" || next.Status != "CREATE_COMPLETE" ||
		c.Buckets[artifactBucketOf(name)] == nil {
		t.Errorf("%+v, %s", r, next.Status)
	}
	if got := c.TakeCalls("DeleteStack"); len(got) != 1 {
		t.Error(got)
	}
}

// Delete also deletes an incomplete bucket.
func TestDeleteRemovesAHalfMadeBucket(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	c.Buckets[artifactBucketOf(name)] = &fakeaws.Bucket{Objects: map[string][]byte{}}
	if r := remove(
		t, name, infra.DeleteOptions{Options: c.options()},
	); r.Artifacts != artifactBucketOf(name) || len(c.Buckets) > 0 {
		t.Errorf("%+v, %v", r, c.Buckets)
	}
}

// A broken stack cannot be deployed to disable the protection of its table.
func TestDeleteOfABrokenStackSaysHowToUnprotect(t *testing.T) {
	t.Parallel()
	c, name := newStack(t, true)
	_, err := dynamodb.NewFromConfig(*fakeaws.Config(c.Engine)).UpdateTable(t.Context(),
		&dynamodb.UpdateTableInput{TableName: &name, DeletionProtectionEnabled: aws.Bool(true)})
	must(t, err)
	t.Cleanup(func() {
		_, _ = dynamodb.NewFromConfig(*fakeaws.Config(c.Engine)).UpdateTable(context.Background(),
			&dynamodb.UpdateTableInput{TableName: &name, DeletionProtectionEnabled: aws.Bool(false)})
	})
	_, err = infra.Delete(t.Context(), name, &infra.DeleteOptions{Options: c.options()})
	checkError[*infra.RefusedError](t, err, "infra.Deploy without DeletionProtection("+name+" ")
	c.Find(name).Status = "ROLLBACK_FAILED"
	_, err = infra.Delete(t.Context(), name, &infra.DeleteOptions{Options: c.options()})
	checkError[*infra.RefusedError](t, err,
		"UpdateTable of DynamoDB("+name+" "+fakeaws.Region)
}

func TestDeleteShowsWhatItIsAboutToDo(t *testing.T) {
	t.Parallel()
	c, name := newStack(t, true)
	c.Buckets[name+"-archive"].Objects["event"] = nil
	no := errors.New("no")
	var seen infra.Removal
	_, err := infra.Delete(t.Context(), name, &infra.DeleteOptions{
		Options: c.options(),
		Confirm: func(r infra.Removal) error {
			seen = r
			return no
		},
	})
	if err != no { //nolint:errorlint // not wrapped
		t.Error(err)
	}
	want := infra.Removal{
		Name: name, Region: fakeaws.Region, Existed: true, Items: seen.Items, Archive: name + "-archive",
		ArchiveKept: true,
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
	if got := c.TakeCalls("DeleteStack", "DeleteObjects", "DeleteBucket"); len(got) > 0 {
		t.Error(got)
	}
}

// Delete keeps the archive even if the template deletes it, as that of the Python
// tool does.
func TestDeleteKeepsAnArchiveThatHoldsSomething(t *testing.T) {
	t.Parallel()
	for _, template := range []string{string(infra.Template()), "python"} {
		c, name := newStack(t, true)
		s, archive := c.Find(name), c.Buckets[name+"-archive"]
		s.Template, archive.Objects["event"] = template, nil
		r := remove(t, name, infra.DeleteOptions{Options: c.options()})
		if r.Archive != name+"-archive" || !r.ArchiveKept || !r.Complete {
			t.Errorf("%+v", r)
		}
		if len(archive.Objects) != 1 || c.Buckets[name+"-archive"] == nil || len(c.Buckets) != 1 {
			t.Error(c.Buckets)
		}
		if got := slices.Equal(s.Retained, []string{fakeaws.ArchiveID}); got != (template == "python") {
			t.Error(s.Retained)
		}
	}
}

func TestDeleteOfAnArchiveIsAsked(t *testing.T) {
	t.Parallel()
	c, name := newStack(t, true)
	c.Buckets[name+"-archive"].Objects["event"] = nil
	r := remove(t, name, infra.DeleteOptions{Options: c.options(), DeleteArchive: true})
	if r.Archive != name+"-archive" || r.ArchiveKept || len(c.Buckets) > 0 || len(c.Stacks[0].Retained) > 0 {
		t.Errorf("%+v %v", r, c.Buckets)
	}
}

func TestDeleteRespectsProtection(t *testing.T) {
	t.Parallel()
	c, name := newStack(t, true)
	opts := &infra.DeleteOptions{Options: c.options()}
	client := dynamodb.NewFromConfig(*fakeaws.Config(c.Engine))
	protect := func(on bool) {
		_, err := client.UpdateTable(context.Background(), &dynamodb.UpdateTableInput{
			TableName: &name, DeletionProtectionEnabled: aws.Bool(on),
		})
		must(t, err)
	}
	protect(true)
	_, err := infra.Delete(t.Context(), name, opts)
	checkError[*infra.RefusedError](t, err, "table is protected", "infra.Deploy without DeletionProtection("+name)
	protect(false)
	s := c.Find(name)
	s.Protected = true
	_, err = infra.Delete(t.Context(), name, opts)
	checkError[*infra.RefusedError](t, err, "UpdateTerminationProtection of CloudFormation("+name)
	if got := c.TakeCalls("DeleteStack"); len(got) > 0 {
		t.Error(got)
	}
	s.Protected = false
	remove(t, name, *opts)
}

func TestDeleteInEveryState(t *testing.T) {
	t.Parallel()
	for _, status := range []string{
		"CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "ROLLBACK_COMPLETE", "CREATE_FAILED",
		"ROLLBACK_FAILED",
		"DELETE_FAILED", "UPDATE_ROLLBACK_FAILED", "UPDATE_FAILED", "REVIEW_IN_PROGRESS", "UPDATE_IN_PROGRESS",
		"CREATE_IN_PROGRESS", "DELETE_IN_PROGRESS",
	} {
		c, name := newCloud(t), stackName()
		s := c.AddStack(name, status, managedTags(name))
		c.AddEvent(s, "", status, "")
		after := map[string]string{
			"UPDATE_IN_PROGRESS": "UPDATE_COMPLETE", "CREATE_IN_PROGRESS": "ROLLBACK_COMPLETE",
			"DELETE_IN_PROGRESS": "DELETE_COMPLETE",
		}[status]
		if after != "" {
			s.Steps = []fakeaws.Step{{Status: status}, {Status: after}}
		}
		if r := remove(
			t, name, infra.DeleteOptions{Options: c.options()},
		); !r.Existed || !r.Complete || s.Status != "DELETE_COMPLETE" {
			t.Errorf("%s: %+v %s", status, r, s.Status)
		}
	}
}

func TestDeleteThatFailsSaysWhy(t *testing.T) {
	t.Parallel()
	c, name := newStack(t, true)
	c.Failing[fakeaws.TableID], c.Find(name).Template = "The table is in use", "python"
	c.Buckets[name+"-archive"].Objects["event"] = nil
	_, err := infra.Delete(t.Context(), name, &infra.DeleteOptions{Options: c.options()})
	checkError[*infra.FailedError](t, err, "deleted", "DELETE_FAILED",
		"RateLimitsTable DELETE_FAILED: The table is in use")
	if got := c.TakeCalls("DeleteStack"); len(got) != 1 || c.Buckets[artifactBucketOf(name)] == nil {
		t.Error("it continued, though the stack exists:", got)
	}
	clear(c.Failing)
	remove(t, name, infra.DeleteOptions{Options: c.options()})
}

func TestDeleteWithoutWaiting(t *testing.T) {
	t.Parallel()
	c, name := newStack(t, true)
	opts := infra.DeleteOptions{Options: c.options()}
	opts.Options.NoWait = true
	if r := remove(t, name, opts); r.Complete || c.Buckets[artifactBucketOf(name)] == nil {
		t.Errorf("%+v", r)
	}
	s := c.Find(name)
	for s.Status != "DELETE_IN_PROGRESS" {
		c.Advance(s)
	}
	s.Steps = append([]fakeaws.Step{{Status: "DELETE_IN_PROGRESS"}}, s.Steps...)
	if r := remove(t, name, opts); r.Complete || !r.Existed {
		t.Errorf("%+v", r)
	}
	s.Status, s.Steps = "UPDATE_IN_PROGRESS", []fakeaws.Step{
		{Status: "UPDATE_IN_PROGRESS"}, {Status: "UPDATE_COMPLETE"},
	}
	_, err := infra.Delete(t.Context(), name, &opts)
	checkError[*infra.RefusedError](t, err, "UPDATE_IN_PROGRESS")
	opts.Options.NoWait = false
	if r := remove(t, name, opts); !r.Complete || r.Artifacts != artifactBucketOf(name) {
		t.Errorf("%+v", r)
	}
}

func TestBucketsOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	for says, b := range map[string]*fakeaws.Bucket{
		"another account": {Foreign: true},
		"another owner":   {Tags: map[string]string{"ManagedBy": "zae-limiter", "zae-limiter:name": "another"}},
		"belongs to":      {Objects: map[string][]byte{"not ours": nil}},
	} {
		c, name := newCloud(t), stackName()
		c.Buckets[artifactBucketOf(name)] = b
		opts := c.options()
		_, err := infra.Deploy(t.Context(), name, &opts)
		checkError[*infra.RefusedError](t, err, artifactBucketOf(name), says, "choose another one")
		remove(t, name, infra.DeleteOptions{Options: opts})
		if c.Buckets[artifactBucketOf(name)] == nil {
			t.Error("the bucket was deleted")
		}
	}
}

func TestABucketOfTheUserIsUsedAndKept(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	opts := c.options()
	opts.Stack.ArtifactBucket = "theirs-" + name
	_, err := infra.Deploy(t.Context(), name, &opts)
	if err == nil || !strings.Contains(err.Error(), "must exist") {
		t.Error(err)
	}
	c.Buckets[opts.Stack.ArtifactBucket] = &fakeaws.Bucket{Objects: map[string][]byte{"theirs": nil}}
	d := deploy(t, name, opts)
	if d.Code.Bucket != opts.Stack.ArtifactBucket || !d.Code.Uploaded || c.Buckets[artifactBucketOf(name)] != nil {
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
	if len(c.Buckets[opts.Stack.ArtifactBucket].Objects) != 2 {
		t.Error("an object was deleted")
	}
}

func TestABucketOfTheUserIsInTheSameRegion(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	opts := c.options()
	opts.Stack.ArtifactBucket = "elsewhere"
	c.Intercept = func(r *fakeaws.Request) *fakeaws.Reply {
		if r.Op == "HeadBucket" {
			return &fakeaws.Reply{Status: 200, Header: map[string]string{"X-Amz-Bucket-Region": "us-west-2"}}
		}
		return nil
	}
	_, err := infra.Deploy(t.Context(), name, &opts)
	if err == nil || !strings.Contains(err.Error(), "us-west-2") {
		t.Error(err)
	}
}

package infra_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
)

func TestListFindsOurStacks(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	limiterTags := func(name string) map[string]string {
		return map[string]string{"ManagedBy": "zae-limiter", "zae-limiter:name": name}
	}
	c.AddStack("zz", "CREATE_COMPLETE", managedTags("zz"))
	c.AddStack("other", "CREATE_COMPLETE", map[string]string{"ManagedBy": "terraform"})
	c.AddStack("ZAEL-old", "ROLLBACK_COMPLETE", nil)
	c.AddStack("gone", "DELETE_COMPLETE", managedTags("gone"))
	c.AddStack("zz-load", "CREATE_COMPLETE",
		merge(limiterTags("zz"), map[string]string{"zae-limiter:type": "load-test"}))
	s := c.AddStack("app", "UPDATE_IN_PROGRESS", limiterTags("app"))
	s.Updated = c.Now()
	opts := c.options()
	got, err := infra.List(t.Context(), &opts)
	must(t, err)
	want := []infra.StackSummary{
		{
			Stack: "app", Name: "app", Region: fakeaws.Region, Status: "UPDATE_IN_PROGRESS", Type: "limiter",
			Created: s.Created, Updated: s.Updated,
		},
		{
			Stack: "ZAEL-old", Name: "old", Region: fakeaws.Region, Status: "ROLLBACK_COMPLETE",
			Type: "limiter", Created: c.Stacks[2].Created,
		},
		{
			Stack: "zz", Name: "zz", Region: fakeaws.Region, Status: "CREATE_COMPLETE", Type: "limiter",
			Version: "1.2.3", LambdaVersion: "1.2.3", SchemaVersion: "0.8.0", Created: c.Stacks[0].Created,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for i, is := range [][3]bool{{false, true, false}, {false, false, true}, {true, false, false}} {
		if f := got[i]; [3]bool{f.Healthy(), f.InProgress(), f.Failed()} != is {
			t.Errorf("%+v", f)
		}
	}
}

func TestListReportsDeniedAccess(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.Deny("DescribeStacks")
	opts := c.options()
	_, err := infra.List(t.Context(), &opts)
	checkError[*limiter.UnavailableError](t, err, "list", "cloudformation:DescribeStacks")
}

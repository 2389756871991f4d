package infra_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/infra"
)

func TestListFindsOurStacks(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	limiterTags := func(name string) map[string]string {
		return map[string]string{"ManagedBy": "zae-limiter", "zae-limiter:name": name}
	}
	c.put("zz", "CREATE_COMPLETE", managedTags("zz"))
	c.put("other", "CREATE_COMPLETE", map[string]string{"ManagedBy": "terraform"})
	c.put("ZAEL-old", "ROLLBACK_COMPLETE", nil)
	c.put("gone", "DELETE_COMPLETE", managedTags("gone"))
	c.put("zz-load", "CREATE_COMPLETE", with(limiterTags("zz"), map[string]string{"zae-limiter:type": "load-test"}))
	s := c.put("app", "UPDATE_IN_PROGRESS", limiterTags("app"))
	s.updated = c.now()
	opts := c.options()
	got, err := infra.List(t.Context(), &opts)
	must(t, err)
	want := []infra.Found{
		{Stack: "app", Name: "app", Region: region, Status: "UPDATE_IN_PROGRESS", Type: "limiter", Created: s.created, Updated: s.updated},
		{Stack: "ZAEL-old", Name: "old", Region: region, Status: "ROLLBACK_COMPLETE", Type: "limiter", Created: c.stacks[2].created},
		{Stack: "zz", Name: "zz", Region: region, Status: "CREATE_COMPLETE", Type: "limiter", Version: "1.2.3", LambdaVersion: "1.2.3", SchemaVersion: "0.8.0", Created: c.stacks[0].created},
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

func TestListTellsWhenItMayNot(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.deny("DescribeStacks")
	opts := c.options()
	_, err := infra.List(t.Context(), &opts)
	wants[*limiter.UnavailableError](t, err, "list", "cloudformation:DescribeStacks")
}

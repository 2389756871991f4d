package infra_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
)

// lifeCycle has every call that changes something, and whether it needs a deployed
// stack.
var lifeCycle = map[string]struct {
	deployed bool
	run      func(context.Context, string, infra.Options) error
}{
	"create": {false, func(ctx context.Context, name string, opts infra.Options) error {
		_, err := infra.Deploy(ctx, name, &opts)
		return err
	}},
	"update": {true, func(ctx context.Context, name string, opts infra.Options) error {
		opts.Stack.LambdaMemory = 1024
		_, err := infra.Deploy(ctx, name, &opts)
		return err
	}},
	"upgrade": {true, func(ctx context.Context, name string, opts infra.Options) error {
		opts.Version = "1.3.0"
		_, err := infra.Upgrade(ctx, name, &infra.UpgradeOptions{Options: opts})
		return err
	}},
	"upgrade of the functions": {true, func(ctx context.Context, name string, opts infra.Options) error {
		opts.Version = "1.3.0"
		_, err := infra.Upgrade(ctx, name, &infra.UpgradeOptions{Options: opts, LambdaOnly: true})
		return err
	}},
	"tag": {true, func(ctx context.Context, name string, opts infra.Options) error {
		opts.Stack.Tags = map[string]string{"new": "tag"}
		_, err := infra.Tag(ctx, name, &opts)
		return err
	}},
	"open": {false, func(ctx context.Context, name string, opts infra.Options) error {
		repo, err := infra.Open(ctx, name, &opts)
		if err != nil {
			return err
		}
		return repo.Close()
	}},
	"delete": {true, func(ctx context.Context, name string, opts infra.Options) error {
		_, err := infra.Delete(ctx, name, &infra.DeleteOptions{Options: opts})
		return err
	}},
}

// outcome is the state after an operation.
type outcome struct {
	Status, Template string
	Parameters, Tags map[string]string
	Buckets          []string
	Objects          int
	Pending          int // change sets
	Connects         string
}

// outcome returns the state of a stack and its resources.
func (c *cloud) outcome(t *testing.T, name string) outcome {
	t.Helper()
	c.Lock()
	defer c.Unlock()
	var w outcome
	if s := c.Find(name); s != nil {
		w.Status, w.Template, w.Parameters, w.Tags, w.Pending = s.Status, s.Template, s.Parameters, s.Tags, len(s.ChangeSets)
	}
	for bucket, b := range c.Buckets {
		w.Buckets = append(w.Buckets, strings.ReplaceAll(bucket, name, "NAME"))
		w.Objects += len(b.Objects)
	}
	slices.Sort(w.Buckets)
	repo, err := connect(t.Context(), c, name)
	if err == nil {
		v, err := repo.Version(t.Context())
		must(t, err)
		w.Connects = v.UpdatedBy
		must(t, repo.Close())
	}
	return w
}

// withoutName replaces the name of the stack, to compare outcomes.
func (w outcome) withoutName(name string) outcome {
	for _, all := range []map[string]string{w.Parameters, w.Tags} {
		for key, value := range all {
			all[key] = strings.ReplaceAll(value, name, "NAME")
		}
	}
	return w
}

func TestOperationsMayBeRepeated(t *testing.T) {
	t.Parallel()
	for op, o := range lifeCycle {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			c, name := newStack(t, o.deployed)
			must(t, o.run(t.Context(), name, c.options()))
			once := c.outcome(t, name)
			must(t, o.run(t.Context(), name, c.options()))
			if diff := cmp.Diff(once, c.outcome(t, name)); diff != "" {
				t.Error(diff)
			}
			if once.Pending > 0 {
				t.Error("change sets are left")
			}
		})
	}
}

// TestOperationsSurviveAnInterruptionAnywhere cancels the context at each request in
// turn, and then repeats the operation.
func TestOperationsSurviveAnInterruptionAnywhere(t *testing.T) {
	t.Parallel()
	for op, o := range lifeCycle {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			c, name := newStack(t, o.deployed)
			must(t, o.run(t.Context(), name, c.options()))
			want := c.outcome(t, name).withoutName(name)
			for n := 0; ; n++ {
				if testing.Short() && n%5 != 0 {
					continue
				}
				c, name := newStack(t, o.deployed)
				left := n
				ctx, cancel := context.WithCancel(t.Context())
				c.Intercept = func(*fakeaws.Request) *fakeaws.Reply {
					if left == 0 {
						cancel()
					}
					left--
					return nil
				}
				err := o.run(ctx, name, c.options())
				cancel()
				if err == nil {
					if n < 3 {
						t.Errorf("it takes only %d requests", n)
					}
					break
				}
				if !errors.Is(err, context.Canceled) {
					t.Fatalf("request %d: %v", n, err)
				}
				must(t, o.run(t.Context(), name, c.options()))
				if diff := cmp.Diff(want, c.outcome(t, name).withoutName(name)); diff != "" {
					t.Fatalf("request %d: %s", n, diff)
				}
			}
		})
	}
}

func TestInterruptedWaitSaysHowToContinue(t *testing.T) {
	t.Parallel()
	for op, want := range map[string]string{"create": "created", "update": "updated", "delete": "deleted"} {
		o := lifeCycle[op]
		c, name := newStack(t, o.deployed)
		ctx, cancel := context.WithCancel(t.Context())
		opts := c.options()
		opts.Event = func(infra.Event) { cancel() }
		err := o.run(ctx, name, opts)
		checkError[*infra.InterruptedError](t, err, "still being "+want, "CloudFormation continues",
			"make the same call to wait for it, or infra.Inspect("+name+" ")
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

func TestThrottlingIsWaitedOut(t *testing.T) {
	t.Parallel()
	for op, o := range lifeCycle {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			c, name := newStack(t, o.deployed)
			tries := map[string]int{}
			c.Intercept = func(r *fakeaws.Request) *fakeaws.Reply {
				tries[r.Op]++
				// their responses have no error code
				if tries[r.Op] <= 3 && r.Op != "HeadBucket" && r.Op != "HeadObject" {
					return fakeaws.ErrorReply(r, 400, "Throttling", "Rate exceeded")
				}
				return nil
			}
			must(t, o.run(t.Context(), name, c.options()))
		})
	}
}

// TestAWaitOutlivesALongOutage fails more often than a single call is retried.
func TestAWaitOutlivesALongOutage(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	begun := 0
	c.Intercept = func(r *fakeaws.Request) *fakeaws.Reply {
		if r.Op == "CreateStack" {
			begun = 40
		}
		if begun > 0 && (r.Op == "DescribeStacks" || r.Op == "DescribeStackEvents") {
			begun--
			return fakeaws.ErrorReply(r, 503, "ServiceUnavailable", "try again")
		}
		return nil
	}
	deploy(t, name, c.options())
	for _, op := range []string{"DescribeStacks", "DescribeStackEvents"} {
		c, name := newCloud(t), stackName()
		made := false
		c.Intercept = func(r *fakeaws.Request) *fakeaws.Reply {
			made = made || r.Op == "CreateStack"
			if made && r.Op == op {
				return fakeaws.ErrorReply(r, 503, "ServiceUnavailable", "try again")
			}
			return nil
		}
		opts := c.options()
		_, err := infra.Deploy(t.Context(), name, &opts)
		checkError[*infra.InterruptedError](t, err, "is still being created", op)
	}
}

// TestDeniedCallsAreNamed denies each call of an operation.
func TestDeniedCallsAreNamed(t *testing.T) {
	t.Parallel()
	mayBeDenied := []string{ // the operation works without them
		"create HeadObject", "create DescribeTable", "open HeadObject", "open DescribeTable", "update HeadObject",
		"upgrade HeadObject", "upgrade of the functions HeadObject",
		"upgrade GetCallerIdentity", "upgrade of the functions GetCallerIdentity", // a parameter has the bucket
		"delete ListObjectsV2", // the archive is kept
		// assumes that there are namespaces
		"upgrade Query",
		// the template enables it
		"create DescribeTimeToLive", "update DescribeTimeToLive", "upgrade DescribeTimeToLive",
	}
	for op, o := range lifeCycle {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			c, name := newStack(t, o.deployed)
			must(t, o.run(t.Context(), name, c.options()))
			made := slices.Compact(slices.Sorted(slices.Values(c.Log())))
			for _, denied := range made {
				c, name := newStack(t, o.deployed)
				c.Deny(denied)
				err := o.run(t.Context(), name, c.options())
				if err == nil && slices.Contains(mayBeDenied, op+" "+denied) {
					continue
				}
				if err == nil {
					t.Errorf("%s is not needed", denied)
				} else if !strings.Contains(err.Error(), denied) && denied != "HeadBucket" {
					t.Errorf("%q does not contain %s", err, denied)
				}
			}
		})
	}
}

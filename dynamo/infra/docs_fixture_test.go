package infra_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
)

//docs:stack

// openStack returns a limiter on a stack of its own, which the end of the test
// deletes.
func openStack(t *testing.T, opts infra.Options) *limiter.RateLimiter {
	t.Helper()
	name := "test-" + strings.ToLower(rand.Text()[:12])
	t.Cleanup(func() { // before Open, which may fail halfway
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // the one of the test has ended
		defer cancel()
		if _, err := infra.Delete(ctx, name, &infra.DeleteOptions{Options: opts, DeleteArchive: true}); err != nil {
			t.Errorf("delete stack %s by hand: %v", name, err)
		}
	})
	repo, err := infra.Open(t.Context(), name, &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = repo.Close() })
	lim, err := limiter.New(repo, nil)
	if err != nil {
		t.Fatal(err)
	}
	return lim
}

//docs:end

//docs:namespace

// newNamespace returns a limiter on a namespace of its own, in the table of a
// limiter that all tests share.
func newNamespace(t *testing.T, shared *limiter.RateLimiter) *limiter.RateLimiter {
	t.Helper()
	created, err := shared.RegisterNamespaces(t.Context(), "test-"+strings.ToLower(rand.Text()[:12]))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background() // the one of the test has ended
		if err := errors.Join(
			shared.DeleteNamespace(ctx, created[0].Name), shared.PurgeNamespace(ctx, created[0].ID),
		); err != nil {
			t.Error(err)
		}
	})
	lim, err := shared.Namespace(t.Context(), created[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	return lim
}

//docs:end

// The fixtures of docs/guide/test-fixtures.md leave nothing behind.
func TestFixturesOfTheGuide(t *testing.T) {
	t.Parallel()
	opts := infra.Options{
		Dynamo: dynamo.Options{AWS: fakeaws.Config(moto(t)), Timeout: time.Minute, PurgeWait: -1}, Poll: 1,
	}
	opts.Stack = infra.Stack{NoAggregator: true, NoProvisioner: true, NoAlarms: true}
	charge := func(t *testing.T, lim *limiter.RateLimiter) {
		t.Helper()
		must(t, lim.SetResourceDefaults(t.Context(), "api", limiter.PerMinute("rpm", 2)))
		_, err := lim.Acquire(t.Context(), limiter.Request{
			Entity: "key", Resource: "api", Consume: limiter.Tokens("rpm", 1),
		})
		must(t, err)
	}
	before, err := infra.List(t.Context(), &opts)
	must(t, err)
	t.Run("stack", func(t *testing.T) { charge(t, openStack(t, opts)) })
	after, err := infra.List(t.Context(), &opts)
	must(t, err)
	for _, s := range after {
		if strings.HasPrefix(s.Name, "test-") && !strings.HasPrefix(s.Status, "DELETE") {
			t.Errorf("stack %s is left; before there were %v", s.Name, before)
		}
	}

	table := stackName()
	must(t, dynamo.CreateTable(t.Context(), table, &opts.Dynamo))
	repo, err := dynamo.Connect(t.Context(), table, &opts.Dynamo)
	must(t, err)
	shared, err := limiter.New(repo, nil)
	must(t, err)
	t.Run("namespace", func(t *testing.T) { charge(t, newNamespace(t, shared)) })
	for n, err := range shared.Namespaces(t.Context()) {
		must(t, err)
		if n.Name != "default" {
			t.Errorf("namespace %+v is left", n)
		}
	}
	must(t, repo.Close())
}

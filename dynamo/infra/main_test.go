package infra_test

import (
	"context"
	"crypto/rand"
	"debug/elf"
	"errors"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
	"github.com/zeroae/zae-limiter-go/internal/engine/dynamodb"
	localmoto "github.com/zeroae/zae-limiter-go/internal/engine/moto"
)

var sharedEngine, sharedMoto = dynamodb.Share(), localmoto.Share()

// scratch is a folder for programs that tests build.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "infra-test-"); err != nil {
		panic(err)
	}
	code := m.Run()
	fakeaws.Transport.CloseIdleConnections()
	_ = os.RemoveAll(scratch)
	os.Exit(sharedEngine.Stop(sharedMoto.Stop(code)))
}

// engine returns the URL of DynamoDB Local.
func engine(tb testing.TB) string {
	tb.Helper()
	return sharedEngine.URL(tb)
}

// moto returns the URL of moto's server.
func moto(tb testing.TB) string {
	tb.Helper()
	return sharedMoto.URL(tb)
}

// cloud is a fake AWS and the options to use it.
type cloud struct {
	*fakeaws.Cloud
	tb testing.TB
}

func newCloud(tb testing.TB) *cloud {
	tb.Helper()
	return &cloud{fakeaws.New(tb, engine(tb)), tb}
}

// newStack returns a cloud and the name of a stack in it, deployed or not.
func newStack(t *testing.T, deployed bool) (*cloud, string) {
	t.Helper()
	c, name := newCloud(t), stackName()
	if deployed {
		deploy(t, name, c.options())
	}
	c.TakeCalls()
	return c, name
}

// options returns options for the cloud that poll without a delay.
func (c *cloud) options() infra.Options {
	return infra.Options{
		Dynamo: dynamo.Options{AWS: fakeaws.Config(c.URL), Timeout: time.Minute}, Version: "1.2.3",
		Zip: functionZip(c.tb), Poll: 1,
	}
}

// functionZip returns the path of a package for ARM64.
func functionZip(tb testing.TB, more ...byte) string {
	tb.Helper()
	return fakeaws.FunctionZip(tb, elf.EM_AARCH64, more...)
}

// stackName returns a new name on every call, because all clouds share the engine
// for tables.
func stackName() string { return "app-" + strings.ToLower(rand.Text()[:12]) }

// artifactBucketOf returns the name of the bucket of a stack's code.
func artifactBucketOf(name string) string {
	return name + "-artifacts-" + fakeaws.AccountID + "-" + fakeaws.Region
}

func managedTags(name string) map[string]string {
	return map[string]string{
		"ManagedBy": "zae-limiter", "zae-limiter:name": name, "zae-limiter:type": "limiter",
		"zae-limiter:version": "1.2.3", "zae-limiter:schema-version": "0.8.0", "zae-limiter:lambda-version": "1.2.3",
	}
}

// merge returns both maps in one; values of more win.
func merge(all, more map[string]string) map[string]string {
	all = maps.Clone(all)
	maps.Copy(all, more)
	return all
}

// deploy deploys a stack, and fails the test if it cannot.
func deploy(t *testing.T, name string, opts infra.Options) infra.Deployment {
	t.Helper()
	d, err := infra.Deploy(t.Context(), name, &opts)
	must(t, err)
	return d
}

// connect connects to a stack's table without the cloud.
func connect(ctx context.Context, c *cloud, name string) (*dynamo.Repository, error) {
	return dynamo.Connect(ctx, name, &dynamo.Options{AWS: fakeaws.Config(c.Engine), Timeout: time.Minute})
}

// checkUsable checks that a table can be used, and what its version record says.
func checkUsable(t *testing.T, c *cloud, name, updatedBy string) {
	t.Helper()
	repo, err := connect(t.Context(), c, name)
	must(t, err)
	defer repo.Close()
	v, err := repo.Version(t.Context())
	must(t, err)
	if v.UpdatedBy != updatedBy || v.Lambda != "" || v.Schema != "0.8.0" || v.ClientMin != "0.0.0" {
		t.Errorf("%+v", v)
	}
	acquire(t, repo)
}

// acquire acquires and commits a token.
func acquire(t *testing.T, repo *dynamo.Repository) {
	t.Helper()
	lim, err := limiter.New(repo, nil)
	must(t, err)
	must(t, lim.SetSystemDefaults(t.Context(), limiter.PerMinute("rpm", 10)))
	lease, err := lim.Acquire(t.Context(), limiter.Request{
		Entity: "key", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1),
	})
	must(t, err)
	must(t, lease.Commit(t.Context()))
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// checkError checks the type of an error and that its text contains all parts.
func checkError[T error](t *testing.T, err error, parts ...string) {
	t.Helper()
	if _, ok := errors.AsType[T](err); !ok {
		t.Fatalf("%T: %v", err, err)
	}
	for _, part := range parts {
		if !strings.Contains(dynamotest.Said(err), part) {
			t.Errorf("%q does not contain %q", err, part)
		}
	}
}

package interop

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// A release after 0.10.0 opens our table without a word and admits the whole limit
// a second time. Its buckets are all that it leaves, and Connect finds them.
func TestNewerPythonIsNoticed(t *testing.T) {
	t.Parallel()
	interpreter := os.Getenv("ZAEL_TEST_PYTHON_NEWER")
	if interpreter == "" {
		t.Skip("ZAEL_TEST_PYTHON_NEWER is not set; `make interop` sets it and runs this test")
	}
	table := dynamotest.NewTable(t)
	opts := exactOptions
	opts.AWS = dynamotest.Config(dynamotest.Endpoint(t))
	repo := dynamotest.Connect(t, table, &opts)
	lim, err := limiter.New(repo, nil)
	must(t, err)
	must(t, lim.SetResourceDefaults(t.Context(), "gpt-4", limiter.PerDay("rpd", 10)))
	_, err = lim.Acquire(t.Context(), limiter.Request{
		Entity: "key", Resource: "gpt-4", Consume: limiter.Tokens("rpd", 6),
	})
	must(t, err)
	before, err := repo.Version(t.Context())
	must(t, err)
	must(t, repo.CheckBuckets(t.Context()))

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	newer := exec.CommandContext(ctx, interpreter, "testdata/newer.py", dynamotest.Endpoint(t), peerRegion, table,
		"key", "gpt-4", "rpd")
	newer.Env, newer.Stderr = peerEnv(), t.Output()
	out, err := newer.Output()
	must(t, err)
	if admitted := strings.TrimSpace(string(out)); admitted != "10" {
		t.Errorf(
			"Python admitted %s of 10 after Go admitted 6; if that is 4 now, the releases share buckets and "+
				"the refusal can go",
			admitted,
		)
	}

	after, err := repo.Version(t.Context())
	must(t, err)
	if before != after {
		t.Errorf("Python changed the version record from %+v to %+v", before, after)
	}
	for _, err := range []error{repo.CheckBuckets(t.Context()), connectTo(t, table, &opts)} {
		if _, ok := errors.AsType[*limiter.VersionError](err); !ok || !strings.Contains(err.Error(), "exactly 0.10.0") {
			t.Errorf("error %v", err)
		}
	}
}

// connectTo returns the error of Connect.
func connectTo(t *testing.T, table string, opts *dynamo.Options) error {
	t.Helper()
	repo, err := dynamo.Connect(t.Context(), table, opts)
	if err == nil {
		must(t, repo.Close())
	}
	return err
}

package stores_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/engine/dynamodb"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

var shared = dynamodb.Share()

func TestMain(m *testing.M) { os.Exit(shared.Stop(m.Run())) }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openSQLite(t *testing.T) *sqlite.Repository {
	t.Helper()
	repo, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "limits.db"), nil)
	check(t, err)
	t.Cleanup(func() { _ = repo.Close() })
	return repo
}

// openDynamo opens a new table of DynamoDB Local.
func openDynamo(t *testing.T, opts *dynamo.Options) *dynamo.Repository {
	t.Helper()
	return connect(t, createTable(t, opts), opts)
}

// createTable creates a new table of DynamoDB Local, and completes the options for it.
func createTable(t *testing.T, opts *dynamo.Options) string {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	opts.Endpoint, opts.Region, opts.Timeout, opts.PurgeWait = shared.URL(t), "us-east-1", time.Minute, -1

	table := fmt.Sprintf("stores-%d", rand.Uint64())
	check(t, dynamo.CreateTable(t.Context(), table, opts))
	return table
}

func connect(t *testing.T, table string, opts *dynamo.Options) *dynamo.Repository {
	t.Helper()
	repo, err := dynamo.Connect(t.Context(), table, opts)
	check(t, err)
	t.Cleanup(func() { _ = repo.Close() })
	return repo
}

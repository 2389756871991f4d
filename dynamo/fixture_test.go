package dynamo_test

import (
	"errors"
	"os"
	"testing"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

func TestMain(m *testing.M) { os.Exit(dynamotest.Main(m)) }

// storedTable is a table of its own with the helpers of this package.
type storedTable struct{ *dynamotest.StoredTable }

func newStoredTable(t *testing.T) *storedTable {
	t.Helper()
	return &storedTable{dynamotest.NewStoredTable(t)}
}

func isError[T error](err error) bool {
	_, is := errors.AsType[T](err)
	return is
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// exactly is how the store answers as the embedded ones do.
var exactly = dynamo.Options{Exact: true, NoRejectionMemory: true}

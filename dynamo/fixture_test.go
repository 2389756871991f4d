package dynamo_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

func TestMain(m *testing.M) { os.Exit(dynamotest.Main(m)) }

// storedTable is a StoredTable with the helpers of this package.
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

// exactOptions makes the store answer as the embedded ones do.
var exactOptions = dynamo.Options{Exact: true, NoRejectionMemory: true}

// start is the time at which tests with a time of their own begin.
var start = time.Date(2026, time.March, 14, 15, 9, 26, 0, time.UTC)

func at(d time.Duration) time.Time { return start.Add(d) }

// perMinute60 refills a thousandth of a token every millisecond.
var perMinute60 = limiter.PerMinute("rpm", 60)

const model = "gpt-4"

// chargeOf returns a charge of the limit rpm.
func chargeOf(entity string, n int64) limiter.Charge {
	return limiter.Charge{Entity: entity, Resource: model, Amounts: limiter.Tokens("rpm", n)}
}

// auditEvent returns an audit event for calls that need one.
func auditEvent(action string) limiter.AuditEvent {
	return limiter.AuditEvent{ID: "01JPCOUNT0000000000000000A", Action: action, Entity: "tester", At: start}
}

// setDefaults stores limits for the resource.
func setDefaults(tb testing.TB, repo limiter.Repository, limits ...limiter.Limit) {
	tb.Helper()
	cfg := limiter.Config{Scope: limiter.Scope{Resource: model}, Limits: limits}
	must(tb, repo.SetConfig(context.Background(), cfg, auditEvent("limits_set")))
}

// createChild stores an entity that cascades to a parent.
func createChild(tb testing.TB, repo limiter.Repository, child, parent string) {
	tb.Helper()
	e := limiter.Entity{ID: child, Name: child, Parent: parent, Cascade: true, CreatedAt: start}
	must(tb, repo.CreateEntity(context.Background(), e, auditEvent("entity_created")))
}

// balancesOf returns the balances of all payers.
func balancesOf(out limiter.Outcome) (all [][]int64) {
	for _, b := range out.Payers {
		all = append(all, b.Tokens)
	}
	return all
}

// consume makes a charge that must be admitted, or refused.
func consume(tb testing.TB, repo limiter.Repository, d time.Duration, c limiter.Charge, admitted bool) limiter.Outcome {
	tb.Helper()
	out, err := repo.Consume(context.Background(), at(d), c)
	must(tb, err)
	if out.Admitted != admitted {
		tb.Fatalf("Consume %s of %s at %v: admitted %v, want %v; balances %v", c.Amounts, c.Entity, d,
			out.Admitted, admitted, balancesOf(out))
	}
	return out
}

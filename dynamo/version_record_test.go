package dynamo_test

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

func TestVersionIsTheStoredRecord(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	full := attributes{
		"schema_version": "S:0.8.0", "client_min_version": "S:0.1.0", "lambda_version": "S:0.10.2",
		"updated_by": "S:cli:0.10.2", "updated_at": "S:2026-02-03T04:05:06Z",
	}
	part := attributes{"schema_version": "S:0.8.0", "lambda_version": "NULL", "updated_by": "NULL", "updated_at": "S:once"}
	r := dynamotest.Connect(t, table, nil)
	for _, c := range []struct {
		stored attributes
		want   dynamo.Version
	}{
		{full, dynamo.Version{
			Schema: "0.8.0", ClientMin: "0.1.0", Lambda: "0.10.2", UpdatedBy: "cli:0.10.2", UpdatedAt: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC),
		}},
		{part, dynamo.Version{Schema: "0.8.0"}},
		{nil, dynamo.Version{}},
	} {
		record := attributes{"PK": "S:_/SYSTEM#", "SK": "S:#VERSION"}
		maps.Copy(record, c.stored)
		storeItem(t, table, record)
		got, err := r.Version(t.Context())
		must(t, err)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Error(diff)
		}
	}
	deleteRecord(t, table, "#VERSION")
	_, err := r.Version(t.Context())
	if !errors.Is(err, limiter.ErrNotFound) {
		t.Fatal(err)
	}
	says(t, err, table)
}

func TestVersionOfANewTable(t *testing.T) {
	t.Parallel()
	r := dynamotest.Connect(t, dynamotest.NewTable(t), &ofTable) // every namespace has it
	got, err := r.Version(t.Context())
	must(t, err)
	if got.UpdatedAt.IsZero() {
		t.Error("nobody knows when it was written")
	}
	got.UpdatedAt = time.Time{}
	if diff := cmp.Diff(dynamo.Version{Schema: "0.8.0", ClientMin: "0.0.0", UpdatedBy: "client:0.10.0"}, got); diff != "" {
		t.Error(diff)
	}
	must(t, r.Close())
	if _, err := r.Version(t.Context()); !errors.Is(err, limiter.ErrClosed) {
		t.Error(err)
	}
}

package dynamo_test

import (
	"net/http"
	"testing"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// TestStatsCountRequestsAndCapacity compares Stats with what went over the wire.
func TestStatsCountRequestsAndCapacity(t *testing.T) {
	t.Parallel()
	for _, counted := range []bool{true, false} {
		table, m := dynamotest.NewTable(t), &meter{next: dynamotest.Transport}
		other := dynamotest.Connect(t, table, nil)
		setDefaults(t, other, perMinute60)
		cfg := dynamotest.Config(dynamotest.Endpoint(t))
		cfg.HTTPClient = &http.Client{Transport: m}
		repo := dynamotest.Connect(t, table, &dynamo.Options{AWS: cfg, CountCapacity: counted})
		before := repo.Stats()
		m.requests, m.refused, m.writes = 0, 0, 0
		consume(t, repo, 0, chargeOf("alice", 1), true) // reads, creates the bucket
		consume(t, repo, 0, chargeOf("alice", 1), true) // writes
		consume(t, other, 0, chargeOf("alice", 50), true)
		consume(t, repo, 0, chargeOf("alice", 20), false) // refused by the table
		after := repo.Stats()
		if got := after.Requests - before.Requests; got != int64(m.requests) || got < 4 {
			t.Errorf("%d requests, %d on the wire", got, m.requests)
		}
		reported := map[string]float64{}
		for s := range repo.Statistics() {
			reported[s.Name] = s.Value
		}
		if billed, ok := reported["store.billed_writes"]; ok != counted || billed != after.WriteUnits ||
			reported["store.requests"] != float64(after.Requests) {
			t.Errorf("the statistics are %v, those of Stats %+v", reported, after)
		}
		reads, writes := after.ReadUnits-before.ReadUnits, after.WriteUnits-before.WriteUnits
		if !counted {
			if reads != 0 || writes != 0 {
				t.Errorf("%g read and %g write units were counted although the option is off", reads, writes)
			}
			continue
		}
		if writes != m.writes || m.refused == 0 || writes < 3 {
			t.Errorf("%g write units, %g on the wire, of these %d refused", writes, m.writes, m.refused)
		}
		if reads <= 0 {
			t.Errorf("%g read units, want those of the first read", reads)
		}
	}
}

package dynamo_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// leftOf is the items of a namespace.
func leftOf(t *testing.T, table, ns string) (left []string) {
	t.Helper()
	for k := range tableItems(t, table) {
		if strings.HasPrefix(k, ns+"/") {
			left = append(left, k)
		}
	}
	return left
}

// doomed is a namespace with limits, and a view of it by another process.
func doomed(t *testing.T, r, other *dynamo.Repository) (ns limiter.Namespace, view *dynamo.Repository) {
	t.Helper()
	ns, err := r.RegisterNamespace(t.Context(), bornAt, "doomed")
	must(t, err)
	inside, err := r.Namespace(t.Context(), "doomed")
	must(t, err)
	must(t, inside.SetConfig(t.Context(), limiter.Config{Limits: []limiter.Limit{limiter.PerMinute("rpm", 100)}},
		limiter.AuditEvent{ID: "01JP0000000000000000000001", Action: "limits_set", Entity: "$SYSTEM", At: start}))
	elsewhere, err := other.Namespace(t.Context(), "doomed")
	must(t, err)
	return ns, elsewhere.(*dynamo.Repository)
}

// A bucket may be on its way when the purge begins: the process that makes it had
// found the namespace active, and nothing refuses it.
func TestABucketThatWasOnItsWayDoesNotOutliveThePurge(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	sent, release := make(chan struct{}), make(chan struct{})
	slow := dynamotest.NewProxy(t, func(op string, _ []byte) dynamotest.Fault {
		if op == "PutItem" {
			close(sent)
			<-release
		}
		return dynamotest.Pass
	})
	sweeps := dynamotest.NewProxy(t, nil)
	r := dynamotest.Connect(t, table, &dynamo.Options{AWS: dynamotest.Config(sweeps.URL)})
	ns, view := doomed(t, r, dynamotest.Connect(t, table, &dynamo.Options{AWS: dynamotest.Config(slow.URL)}))

	admitted := make(chan error)
	go func() {
		_, err := view.Consume(t.Context(), start, limiter.Charge{Entity: "alice", Resource: "gpt-4", Amounts: limiter.Tokens("rpm", 1)})
		admitted <- err
	}()
	<-sent
	must(t, r.DeleteNamespace(t.Context(), goneAt, "doomed"))
	// The system's partition is looked at twice by a sweep, first and last.
	looks := 0
	afterSweep := dynamotest.Fault{Name: "afterSweep", Act: func(x *dynamotest.Exchange) {
		reply := x.Execute(x.Body)
		close(release)
		if err := <-admitted; err != nil {
			t.Errorf("the charge that was on its way: %v", err)
		}
		x.Answer(reply)
	}}
	sweeps.SetPlan(func(op string, body []byte) dynamotest.Fault {
		if op == "Query" && strings.Contains(string(body), ns.ID+"/SYSTEM#") {
			if looks++; looks == 2 {
				return afterSweep
			}
		}
		return dynamotest.Pass
	})
	must(t, r.PurgeNamespace(t.Context(), ns.ID))
	if sweeps.Count(afterSweep) != 1 {
		t.Fatal("the charge was never let go")
	}
	if left := leftOf(t, table, ns.ID); len(left) > 0 {
		t.Errorf("left after the purge: %v", left)
	}
}

// An aggregator that has counted for a namespace a moment ago must not count for
// it once another process has purged it.
func TestUsageDoesNotComeBackAfterAPurge(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	r := dynamotest.Connect(t, s.TableName, nil)
	ns, _ := doomed(t, r, r)
	u := s.Repo.UsageStore(0)
	late := s.addition("a", limiter.Daily, 1)
	late.Bucket.Namespace = ns.ID
	s.Must(u.AddUsage(t.Context(), late))
	if left := leftOf(t, s.TableName, ns.ID); len(left) == 0 {
		t.Fatal("nothing was counted")
	}
	must(t, r.DeleteNamespace(t.Context(), goneAt, "doomed"))
	must(t, r.PurgeNamespace(t.Context(), ns.ID))
	late = s.addition("a", limiter.Daily, 2)
	late.Bucket.Namespace = ns.ID
	s.Must(u.AddUsage(t.Context(), late))
	if left := leftOf(t, s.TableName, ns.ID); len(left) > 0 {
		t.Errorf("left after the purge: %v", left)
	}
}

func TestAPurgeWaitsForWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		opts dynamo.Options
		want time.Duration
	}{
		{dynamo.Options{}, 10 * time.Second},
		{dynamo.Options{Timeout: 30 * time.Second}, time.Minute},
		{dynamo.Options{Timeout: -1}, 10 * time.Second},
		{dynamo.Options{PurgeWait: 3 * time.Second}, 3 * time.Second},
		{dynamo.Options{PurgeWait: -1}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			q, r := quietly(t, &c.opts)
			q.script(nil)
			if took, err := takes(func() error { return r.PurgeNamespace(t.Context(), "n1") }); err != nil || took != c.want {
				t.Errorf("%+v: %v after %v, want %v", c.opts, err, took, c.want)
			}
		})
	}
}

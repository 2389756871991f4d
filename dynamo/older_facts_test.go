package dynamo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// Limits that are older than the image of a bucket must not be written into the
// bucket: a removed limit would be added again, full.

const transactGet = "TransactGetItems"

var tenPerDay = limiter.PerDay("tpd", 10)

func dailyCharge(n int64) limiter.Charge {
	return limiter.Charge{Entity: "alice", Resource: model, Amounts: limiter.Tokens("tpd", n)}
}

// countAdmitted returns n if the outcome is admitted, else 0. A limit that is
// gone admits nothing.
func countAdmitted(tb testing.TB, n int64, out limiter.Outcome, err error) int64 {
	tb.Helper()
	if _, gone := errors.AsType[*limiter.InvalidError](err); !gone && err != nil {
		tb.Error(err)
	}
	if !out.Admitted {
		return 0
	}
	return n
}

// dropDailyLimit removes the daily limit from the config and the bucket.
func (s *faultyTable) dropDailyLimit() {
	s.Helper()
	setDefaults(s, s.steady, perMinute60)
	consume(s, s.steady, 0, chargeOf("alice", 1), true)
}

func (s *faultyTable) checkNoDailyLimit() {
	s.Helper()
	tokens, there := s.bucketNumber("b_tpd_tk")
	if _, left := rawBucket(s, s.table, s.steady.NamespaceID(), "alice")["b_tpd_lf"]; there && !left {
		s.Errorf("the limit that was dropped is back, with %d thousandths", tokens)
	}
}

// A process that has just read everything is overtaken before its write arrives.
func TestRefusalNewerThanTheFactsRepairsNothing(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]dynamo.Options{
		"default": {}, "no cache": {CacheTTL: -1}, "exact": exactOptions,
	} {
		t.Run(name, func(t *testing.T) {
			s := newFaultyTable(t)
			setDefaults(t, s.steady, perMinute60, tenPerDay)
			consume(t, s.steady, 0, chargeOf("alice", 1), true)
			cold := s.connectOnce(opts)
			f, held, goOn := holdRequest()
			s.proxy.SetPlan(dynamotest.First(1, update, f))
			admitted := make(chan int64)
			go func() {
				out, err := cold.Consume(context.Background(), start, dailyCharge(10))
				admitted <- countAdmitted(t, 10, out, err)
			}()
			<-held
			sum := countAdmitted(t, 10, consume(t, s.steady, 0, dailyCharge(10), true), nil)
			s.dropDailyLimit()
			close(goOn)
			if sum += <-admitted; sum > 10 {
				t.Errorf("%d are admitted of 10 a day", sum)
			}
			s.checkNoDailyLimit()
		})
	}
}

// tornRead returns a fault that runs work between the reads of a batch: items
// that match are read afterwards.
func tornRead(work func(), match func(pk, sk string) bool) dynamotest.Fault {
	return dynamotest.Fault{Name: "torn", Act: func(x *dynamotest.Exchange) {
		before := x.Execute(x.Body)
		work()
		after := x.Execute(x.Body)
		var replies [2]struct {
			Responses map[string][]map[string]map[string]any
		}
		for i, reply := range []dynamotest.Reply{before, after} {
			if err := json.Unmarshal(reply.Body, &replies[i]); err != nil {
				x.TB.Error(err)
			}
		}
		responses := replies[0].Responses
		for table := range responses {
			matches := func(it map[string]map[string]any) bool {
				pk, _ := it["PK"]["S"].(string)
				sk, _ := it["SK"]["S"].(string)
				return match(pk, sk)
			}
			old := slices.DeleteFunc(responses[table], matches)
			late := slices.DeleteFunc(replies[1].Responses[table], func(it map[string]map[string]any) bool {
				return !matches(it)
			})
			responses[table] = slices.Concat(old, late)
		}
		body, err := dynamotest.WithMember(after.Body, "Responses", responses)
		if err != nil {
			x.TB.Error(err)
		}
		after.Body = body
		x.Answer(after)
	}}
}

// A batch is no snapshot: the bucket in it may be newer than the limits.
func TestTornBatchRepairsNothing(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	setDefaults(t, s.steady, perMinute60, tenPerDay)
	consume(t, s.steady, 0, dailyCharge(10), true)
	cold := s.connectOnce(dynamo.Options{})
	s.proxy.SetPlan(dynamotest.First(1, read, tornRead(s.dropDailyLimit, func(_, sk string) bool {
		return strings.HasPrefix(sk, "#BUCKET#")
	})))
	out, err := cold.Consume(t.Context(), start, dailyCharge(10))
	if n := countAdmitted(t, 10, out, err); n > 0 {
		t.Errorf("%d more are admitted of 10 a day", n)
	}
	s.checkNoDailyLimit()
}

// The levels in a batch may never have been in force together. Here the limits
// move from the entity to the resource, and the daily limit is always in force.
func TestTornLevelsRepairNothing(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	own := limiter.Scope{Entity: "alice"}
	must(t,
		s.steady.SetConfig(t.Context(), limiter.Config{Scope: own, Limits: []limiter.Limit{perMinute60, tenPerDay}},
			auditEvent("limits_set")))
	consume(t, s.repo, 0, dailyCharge(10), true)
	move := func() {
		setDefaults(t, s.steady, perMinute60, tenPerDay)
		must(t, s.steady.DeleteConfig(context.Background(), own, auditEvent("limits_deleted")))
	}
	s.proxy.SetPlan(dynamotest.First(1, read, tornRead(move, func(pk, _ string) bool {
		return strings.HasSuffix(pk, "ENTITY#alice")
	})))
	_, err := s.repo.Consume(t.Context(), at(2*time.Minute), chargeOf("alice", 1))
	must(t, err)
	s.proxy.SetPlan(nil)
	consume(t, s.repo, 4*time.Minute, dailyCharge(1), false)
	consume(t, s.steady, 4*time.Minute, dailyCharge(1), false)
}

// A busy bucket does not prevent the read of the limits.
func TestBusyBucketDoesNotHoldUpARepair(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	consume(t, s.repo, 0, chargeOf("alice", 50), true)
	setDefaults(t, s.steady, limiter.PerMinute("rpm", 30))
	s.proxy.SetPlan(func(op string, body []byte) dynamotest.Fault {
		if op == transactGet && bytes.Contains(body, []byte("#BUCKET#")) {
			return dynamotest.Conflict
		}
		return dynamotest.Pass
	})
	consume(t, s.repo, time.Minute+30*time.Second, chargeOf("alice", 30), true)
	if capacity, _ := s.bucketNumber("b_rpm_cp"); capacity != 30_000 {
		t.Errorf("the capacity is %d thousandths, want 30000", capacity)
	}
}

// Many processes without a cache charge a bucket while one of its limits is
// removed. The network delays single reads and writes.
func TestLimitThatGoesUnderLoadStaysGone(t *testing.T) {
	t.Parallel()
	const callers, tries, rounds = 12, 12, 6
	wire := dynamotest.NewProxy(t, func(op string, _ []byte) dynamotest.Fault {
		if op == get || op == update {
			return dynamotest.Delay(rand.N(20 * time.Millisecond))
		}
		return dynamotest.Pass
	})
	table, opts := dynamotest.NewTable(t), dynamo.Options{CacheTTL: -1, NoRejectionMemory: true}
	admin := dynamotest.Connect(t, table, &opts)
	opts.AWS = dynamotest.Config(wire.URL)
	repos := []*dynamo.Repository{
		dynamotest.Connect(t, table, &opts), dynamotest.Connect(t, table, &opts),
		dynamotest.Connect(t, table, &opts),
	}
	for round := range rounds {
		setDefaults(t, admin, perMinute60, tenPerDay)
		entity := fmt.Sprint("key-", round)
		amounts := [2]limiter.Amounts{limiter.Tokens("tpd", 1), limiter.Tokens("rpm", 0)}
		var admitted, tried atomic.Int64
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for range tries {
					charge := limiter.Charge{Entity: entity, Resource: model, Amounts: amounts[i%2]}
					out, err := repos[i%len(repos)].Consume(context.Background(), start, charge)
					if n := countAdmitted(t, 1, out, err); i%2 == 0 {
						admitted.Add(n)
					}
					if tried.Add(1) == callers*tries/3 {
						setDefaults(t, admin, perMinute60)
					}
				}
			})
		}
		wg.Wait()
		if n := admitted.Load(); n > 10 {
			t.Errorf("%d are admitted of 10 a day", n)
		}
	}
}

// A write that drops a limit arrives when the limit is in force again and
// charged. It must not delete the balance, or the limit would be added again,
// full.
func TestLateDropTakesNoBalance(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]dynamo.Options{"default": {}, "exact": exactOptions} {
		t.Run(name, func(t *testing.T) {
			s := newFaultyTable(t)
			setDefaults(t, s.steady, perMinute60, tenPerDay)
			consume(t, s.steady, 0, chargeOf("alice", 1), true)
			setDefaults(t, s.steady, perMinute60)
			cold := s.connectOnce(opts)
			f, held, goOn := holdRequest()
			s.proxy.SetPlan(dynamotest.First(1, update, f))
			dropped := make(chan bool)
			go func() {
				out, err := cold.Consume(context.Background(), start, chargeOf("alice", 1))
				dropped <- err == nil && out.Admitted
			}()
			<-held
			setDefaults(t, s.steady, perMinute60, tenPerDay)
			consume(t, s.steady, 0, dailyCharge(10), true)
			close(goOn)
			if !<-dropped {
				t.Error("the late charge is not admitted")
			}
			consume(t, s.connectOnce(opts), 0, dailyCharge(1), false)
		})
	}
}

// Clients with stale limits keep charging a removed limit. They do not delay the
// others.
func TestLimitThatIsStillChargedDoesNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	setDefaults(t, s.steady, perMinute60, limiter.PerDay("tpd", 1000))
	consume(t, s.repo, 0, dailyCharge(1), true)
	late := dynamotest.Connect(t, s.table, nil)
	consume(t, late, 0, dailyCharge(1), true)
	setDefaults(t, s.steady, perMinute60)
	s.proxy.SetPlan(func(op string, _ []byte) dynamotest.Fault {
		if op == update {
			consume(t, late, 0, dailyCharge(1), true)
		}
		return dynamotest.Pass
	})
	cold := s.connectOnce(dynamo.Options{})
	consume(t, cold, 0, chargeOf("alice", 1), true)
	s.proxy.SetPlan(nil)
	consume(t, cold, time.Second, chargeOf("alice", 1), true)
	s.checkNoDailyLimit()
}

// A lease takes more of a limit that was removed and added again. Its process
// has only seen the removal.
func TestLateDebitReachesALimitThatIsBack(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	setDefaults(t, s.steady, perMinute60, tenPerDay)
	lease := consume(t, s.repo, 0, dailyCharge(1), true)
	setDefaults(t, s.steady, perMinute60)
	s.repo.Forget()
	consume(t, s.repo, 0, chargeOf("alice", 1), true)
	s.checkNoDailyLimit()
	setDefaults(t, s.steady, perMinute60, tenPerDay)
	consume(t, s.steady, 0, dailyCharge(1), true)
	must(t,
		s.repo.Credit(t.Context(), start, limiter.Credit{
			Account: lease.Payers[0].Account, Amounts: limiter.Tokens("tpd", -5),
		}))
	if tokens, _ := s.bucketNumber("b_tpd_tk"); tokens != 3000 {
		t.Errorf("the limit has %d thousandths, want 3000", tokens)
	}
}

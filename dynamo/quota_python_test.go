package dynamo_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// pythonTakes writes to the bucket of alice what Python's acquire writes: it moves the
// refill time and takes n of spend, if the tokens cover it. It reports whether they
// did.
func (s *storedTable) pythonTakes(refill time.Time, n int64) bool {
	s.Helper()
	_, err := s.Client.UpdateItem(s.Context(), &dynamodb.UpdateItemInput{
		TableName: &s.TableName, Key: s.Attributes("PK S " + aliceBucket + "\nSK S #BUCKET#gpt-4"),
		UpdateExpression:         aws.String("SET rf = :rf ADD #tk :minus, #tc :n"),
		ConditionExpression:      aws.String("attribute_exists(PK) AND #tk >= :n"),
		ExpressionAttributeNames: map[string]string{"#tk": "b_spend_tk", "#tc": "b_spend_tc"},
		ExpressionAttributeValues: s.Attributes(fmt.Sprintf(":rf N %d\n:n N %d\n:minus N %d",
			refill.UnixMilli(), n*1000, -n*1000)),
	})
	if _, refused := errors.AsType[*types.ConditionalCheckFailedException](err); refused {
		return false
	}
	s.Must(err)
	return true
}

// spendWindow returns the start of the window of the quota spend of alice.
func (s *storedTable) spendWindow() int64 {
	s.Helper()
	n, err := strconv.ParseInt(rawNumber(s.bucketItem(), "b_spend_wi"), 10, 64)
	s.Must(err)
	return n
}

// Python moves the refill time across boundaries, back and forth. In each window what
// both admit is the capacity, exactly: no window is lost, and none is gained.
func TestPythonMovesNoWindow(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.SetLimits(limiter.Scope{Resource: model}, limiter.Quota("spend", 10, limiter.EveryHour),
		limiter.PerSecond("rps", 1000))
	other := dynamotest.Connect(t, s.TableName, nil)
	consume(t, s.Repo, 0, chargeNamed(limiter.Tokens("spend", 1)), true)
	shifts := []time.Duration{
		-26 * time.Hour, 5 * time.Hour, -time.Hour, 61 * time.Minute, 0, 40 * 24 * time.Hour, -30 * time.Minute,
	}
	for hour := range 2 * len(shifts) {
		now := time.Duration(hour) * time.Hour
		admitted := int64(0)
		if hour == 0 {
			admitted = 1
		}
		before := s.spendWindow()
		if s.pythonTakes(
			at(now).Add(shifts[hour%len(shifts)]), 2,
		) && s.spendWindow() == at(now).Truncate(time.Hour).UnixMilli() {
			admitted += 2 // the first hour: nothing is due
		}
		if got := s.spendWindow(); got != before {
			t.Fatalf("hour %d: Python moved the window from %d to %d", hour, before, got)
		}
		for i := range 12 {
			repo := s.Repo
			if i%2 == hour%2 {
				repo = other
			}
			out, err := repo.Consume(t.Context(), at(now+time.Duration(i)*time.Second),
				chargeNamed(limiter.Tokens("spend", 1).And("rps", 1)))
			s.Must(err)
			if out.Admitted {
				admitted++
			}
			if i%3 == 0 && s.pythonTakes(at(now).Add(shifts[(hour+i)%len(shifts)]), 1) {
				admitted++
			}
		}
		if admitted != 10 {
			t.Errorf("hour %d: %d admitted, want 10", hour, admitted)
		}
		if got, want := s.spendWindow(), at(now).Truncate(time.Hour).UnixMilli(); got != want {
			t.Errorf("hour %d: the window starts at %d, want %d", hour, got, want)
		}
		// Leave one token, which the next window must not add.
		s.SetNumber(aliceBucket, "#BUCKET#gpt-4", "b_spend_tk", "3000")
	}
}

// Python makes buckets from a config whose windows it does not know. The first charge
// by Go finds the window in the refill time and completes the item.
func TestBucketsThatPythonMadeBecomeQuotas(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refill   time.Duration
		left     string
		admitted int64
	}{
		"in this window": {-5 * time.Minute, "4000", 4},
		"two before":     {-2 * time.Hour, "4000", 10},
		"in debt":        {-time.Hour, "-3000", 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStoredTable(t)
			s.SetLimits(limiter.Scope{Resource: model}, limiter.Quota("spend", 10, limiter.EveryHour))
			s.PutItem(aliceBucket, "#BUCKET#gpt-4", fmt.Sprintf(`
				entity_id S alice
				resource S gpt-4
				cascade BOOL false
				rf N %d
				ttl N %d
				b_spend_tk N %s
				b_spend_tc N 6000
				b_spend_cp N 10000
				b_spend_ra N 1000
				b_spend_rp N 9000000000000
				GSI2PK S {ns}/RESOURCE#gpt-4
				GSI2SK S BUCKET#alice
				GSI4PK S {ns}
				GSI4SK S {ns}/ENTITY#alice`, at(c.refill).UnixMilli(), at(1000*time.Hour).Unix(), c.left))
			consume(t, s.Repo, 0, chargeNamed(limiter.Tokens("spend", c.admitted+1)), false)
			consume(t, s.Repo, 0, chargeNamed(limiter.Tokens("spend", c.admitted)), true)
			s.Equal("the item", quotaAttributes(s.bucketItem()), map[string]string{
				"b_spend_tk": "N 0", "b_spend_wn": "S hour",
				"b_spend_wi": fmt.Sprint("N ", start.Truncate(time.Hour).UnixMilli()),
			})
		})
	}
}

// A repair removes what is left of limits that Python has dropped.
func TestLeftOversAreRemoved(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.SetLimits(limiter.Scope{Resource: model}, perMinute60)
	consume(t, s.Repo, 0, chargeOf("alice", 1), true)
	for _, field := range []string{"wn", "wi", "sh", "wr"} {
		s.SetNumber(aliceBucket, "#BUCKET#gpt-4", "b_old_"+field, "7")
	}
	_, err := s.Client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: &s.TableName, Key: s.Attributes("PK S " + aliceBucket + "\nSK S #BUCKET#gpt-4"),
		UpdateExpression:          aws.String("SET b_old_wn = :month"),
		ExpressionAttributeValues: s.Attributes(":month S month"),
	})
	s.Must(err)
	s.Repo.Forget()
	consume(t, s.Repo, 0, chargeOf("alice", 1), true)
	s.Equal("the item", quotaAttributes(s.bucketItem()), map[string]string{"b_rpm_tk": "N 58000"})
}

// A reset of a bucket that counts as absent, because its quota is due and nothing else
// keeps it, steps the quota in the item, which Python still reads.
func TestResetStepsWhatPythonReads(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.SetLimits(limiter.Scope{Resource: model}, limiter.Quota("spend", 10, limiter.EveryHour))
	consume(t, s.Repo, 0, chargeNamed(limiter.Tokens("spend", 10)), true)
	if s.pythonTakes(at(time.Hour), 1) {
		t.Fatal("Python takes of an empty quota")
	}
	for range 2 {
		if done, err := fill(s.Repo, time.Hour, reset()); err != nil || !done {
			t.Fatal(done, err)
		}
	}
	s.Equal("the item", quotaAttributes(s.bucketItem()), map[string]string{
		"b_spend_tk": "N 10000", "b_spend_wn": "S hour",
		"b_spend_wi": fmt.Sprint("N ", start.Truncate(time.Hour).Add(time.Hour).UnixMilli()),
	})
	if !s.pythonTakes(at(time.Hour), 10) {
		t.Error("Python does not get what the reset gave")
	}
	consume(t, s.Repo, time.Hour, chargeNamed(limiter.Tokens("spend", 1)), false)
}

package dynamo_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// spendPerHour returns a quota of spend.
func spendPerHour(n int64) limiter.Limit { return limiter.Quota("spend", n, limiter.EveryHour) }

// checkSpend checks the balance of spend of alice, in whole tokens.
func (s *storedTable) checkSpend(d time.Duration, want int64) {
	s.Helper()
	out, err := s.Repo.Peek(s.Context(), at(d), chargeNamed(limiter.Tokens("spend", 0)))
	s.Must(err)
	if got := out.Payers[0].Tokens[0]; got != want*1000 {
		s.Errorf("%d thousandths left after %v, want %d tokens", got, d, want)
	}
}

// setText sets an attribute of alice's bucket to a text.
func (s *storedTable) setText(attr, value string) {
	s.Helper()
	_, err := s.Client.UpdateItem(s.Context(), &dynamodb.UpdateItemInput{
		TableName: &s.TableName, Key: s.Attributes("PK S " + aliceBucket + "\nSK S #BUCKET#gpt-4"),
		UpdateExpression: aws.String("SET #a = :v"), ExpressionAttributeNames: map[string]string{"#a": attr},
		ExpressionAttributeValues: s.Attributes(":v S " + value),
	})
	s.Must(err)
}

// Python's set_limits changes the capacity in the bucket and leaves the tokens. Every
// kind of write moves them once.
func TestCapacitiesThatPythonChanges(t *testing.T) {
	t.Parallel()
	one := limiter.Tokens("spend", 1)
	credit := func(s *storedTable, account *limiter.Account, undo bool) {
		s.Must(s.Repo.Credit(s.Context(), at(0), limiter.Credit{Account: account, Amounts: one, Undo: undo}))
	}
	for name, write := range map[string]func(*storedTable, *limiter.Account) (used int64){
		"a charge": func(s *storedTable, _ *limiter.Account) int64 {
			consume(s, s.Repo, 0, chargeNamed(one), true)
			return 1
		},
		"a charge with limits": func(s *storedTable, _ *limiter.Account) int64 {
			c := chargeNamed(one)
			c.Limits = []limiter.Limit{spendPerHour(150)}
			consume(s, s.Repo, 0, c, true)
			return 1
		},
		"a give-back": func(s *storedTable, account *limiter.Account) int64 { credit(s, account, false); return -1 },
		"an undo":     func(s *storedTable, account *limiter.Account) int64 { credit(s, account, true); return -1 },
		"a top-up": func(s *storedTable, _ *limiter.Account) int64 {
			_, err := fill(s.Repo, 0, limiter.Fill{Entity: "alice", Resource: model, Amounts: one, ID: "gift"})
			s.Must(err)
			return -1
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStoredTable(t)
			s.SetLimits(limiter.Scope{Resource: model}, spendPerHour(100))
			account := consume(t, s.Repo, 0, chargeNamed(limiter.Tokens("spend", 80)), true).Payers[0].Account
			s.SetLimits(limiter.Scope{Resource: model}, spendPerHour(150))
			s.SetNumber(aliceBucket, "#BUCKET#gpt-4", "b_spend_cp", "150000")
			s.Repo.Forget()
			s.checkSpend(0, 70)
			used := 80 + write(s, account)
			s.checkSpend(0, 150-used)
			consume(t, s.Repo, 0, chargeNamed(limiter.Tokens("spend", 0)), true)
			s.checkSpend(0, 150-used)
			s.SetLimits(limiter.Scope{Resource: model}, spendPerHour(50))
			s.SetNumber(aliceBucket, "#BUCKET#gpt-4", "b_spend_cp", "50000")
			s.Repo.Forget()
			consume(t, s.Repo, 0, chargeNamed(one), false)
			s.checkSpend(0, 50-used)
			s.checkSpend(time.Hour, 50) // 150 were allowed
		})
	}
}

// An earlier version stored what was spent above a capacity that was lowered.
func TestWhatWasSpentAboveACapacityIsRead(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.SetLimits(limiter.Scope{Resource: model}, spendPerHour(50))
	consume(t, s.Repo, 0, chargeNamed(limiter.Tokens("spend", 50)), true)
	begin := start.Truncate(time.Hour).UnixMilli()
	s.setText("b_spend_wx", fmt.Sprintf("%d:40000", begin))
	s.Repo.Forget()
	s.checkSpend(0, -40)
	s.checkSpend(time.Hour, 50)
	s.SetLimits(limiter.Scope{Resource: model}, spendPerHour(100))
	consume(t, s.Repo, 0, chargeNamed(limiter.Tokens("spend", 11)), false)
	consume(t, s.Repo, 0, chargeNamed(limiter.Tokens("spend", 10)), true)
	s.Equal("the item", dynamotest.FormatAttribute(s.bucketItem()["b_spend_wx"]),
		fmt.Sprintf("S %d:100000:100000", begin))
	for _, odd := range []string{
		"", ":", "7", "x:y:z", fmt.Sprint(begin, ":-5"), fmt.Sprint(begin, ":5:"), fmt.Sprint(begin, ":5:-1"),
	} {
		s.setText("b_spend_wx", odd)
		s.Repo.Forget()
		s.checkSpend(0, 0)
	}
	consume(t, s.Repo, time.Hour, chargeNamed(limiter.Tokens("spend", 100)), true)
}

package dynamo_test

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
	"github.com/zeroae/zae-limiter-go/escrow"
	"github.com/zeroae/zae-limiter-go/internal/race"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

// sharing returns a repository of package escrow that holds no tokens, so that its
// answers are exact. Callers at the same time share a request.
func sharing(repo limiter.Repository) limiter.Repository {
	return escrow.New(repo, &escrow.Options{MaxHold: -1})
}

// TestRepositoryInEscrow runs the conformance tests through package escrow.
func TestRepositoryInEscrow(t *testing.T) {
	t.Parallel()
	dynamotest.Endpoint(t)
	open := func(t *testing.T) limiter.Repository {
		t.Helper()
		return sharing(dynamotest.Connect(t, dynamotest.NewTable(t), nil))
	}
	repotest.Run(t, open, "usage")
}

// TestCompareInEscrow compares DynamoDB in package escrow with memory.
func TestCompareInEscrow(t *testing.T) {
	t.Parallel()
	repo := dynamotest.Connect(t, dynamotest.NewTable(t), &exactOptions)
	repotest.Compare(t, *compareSeed, min(*compareOps, escrowOps()), memory.New(nil), sharing(repo), "usage")
}

// escrowOps returns the length of a history in escrow, where an operation takes many
// requests. The race detector finds nothing in calls that follow each other, and CI makes
// longer histories without it.
func escrowOps() int {
	if race.Enabled {
		return 150
	}
	return 500
}

// holder is a process with pots of its own. Other processes may hold tokens that it
// finds missing, so a refusal proves nothing.
type holder struct{ *escrow.Repository }

// Lossy reports that tokens may be missing.
func (holder) Lossy() bool { return true }

// Holds returns three of the longest holds.
func (holder) Holds([]limiter.Limit) time.Duration { return 3 * time.Second }

// TestEndureInEscrow runs two processes that hold tokens on bad networks. The
// machine's clock is slower than the history's, so that holds end by the latter.
func TestEndureInEscrow(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	admin := dynamotest.Connect(t, table, nil)
	var clients []limiter.Repository
	for i := range 2 {
		network := dynamotest.NewProxy(t, randomFaults(uint64(i)))
		clients = append(clients, holder{escrow.New(
			dynamotest.Connect(t, table, &dynamo.Options{AWS: dynamotest.Config(network.URL)}), nil,
		)})
	}
	nets := repotest.Endure(t, *compareSeed, min(*compareOps, escrowOps()), 0.02+0.03, admin, clients...)
	var local int64
	for _, c := range clients {
		must(t, c.Close())
		s := c.(holder).Stats()
		local += s.AdmittedLocally
		if s.Held != 0 {
			t.Errorf("held after Close: %+v", s)
		}
	}
	if local == 0 {
		t.Error("no call was admitted from a pot")
	}
	t.Logf("%d calls were admitted from a pot", local)
	for _, net := range nets {
		if total := storedTotal(t, table, admin.NamespaceID(), net); total < net.Least*1000 {
			t.Errorf(
				"%s of %s and %s counts %d thousandths, but %d tokens were surely consumed: something was "+
					"returned twice",
				net.Limit, net.Entity, net.Resource, total, net.Least,
			)
		}
	}
}

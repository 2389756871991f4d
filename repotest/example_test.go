package repotest_test

import (
	"context"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

// customStore stands for a store of another module. It changes a single method.
type customStore struct {
	limiter.Repository
}

func (s customStore) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	return s.Repository.Consume(ctx, now, charge)
}

func openCustomStore(*testing.T) limiter.Repository { return customStore{memory.New(nil)} }

// A custom store passes the whole suite.
func ExampleRun() {
	var t *testing.T // the argument of func TestCustomStore(t *testing.T)
	repotest.Run(t, openCustomStore)
}

// A custom store gives the same answers as package memory to a random history.
func ExampleCompare() {
	var t *testing.T // the argument of func TestCustomStoreLikeMemory(t *testing.T)
	repotest.Compare(t, 1, 200, memory.New(nil), openCustomStore(t))
}

//docs:tests

func TestCustomStore(t *testing.T) { repotest.Run(t, openCustomStore) }

func TestCustomStoreLikeMemory(t *testing.T) {
	repotest.Compare(t, 1, 200, memory.New(nil), openCustomStore(t))
}

//docs:end

package docs_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// noon is the time of the examples.
var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// clock is a clock that stands until an example moves it.
type clock struct{ now time.Time }

// Now returns the time that the clock shows.
func (c *clock) Now() time.Time { return c.now }

// Advance moves the clock.
func (c *clock) Advance(d time.Duration) { c.now = c.now.Add(d) }

// inMemory returns a limiter in memory whose clock shows noon, and the clock.
func inMemory(defaults ...limiter.Limit) (*limiter.RateLimiter, *clock) {
	c := &clock{noon}
	lim, err := limiter.New(memory.New(nil), &limiter.Options{Now: c.Now, Limits: defaults})
	if err != nil {
		log.Fatal(err)
	}
	return lim, c
}

// check ends an example that failed.
func check(err error) {
	if err != nil {
		fmt.Println(err)
	}
}

// callModel stands for a call of a model. It returns the tokens that the call used.
func callModel(context.Context) (int64, error) { return 620, nil }

func Example_home() {
	folder, err := os.MkdirTemp("", "limits")
	check(err)
	defer func() { _ = os.RemoveAll(folder) }()
	check(home(context.Background(), filepath.Join(folder, "limits.db")))
	// Output: 1 620
}

func home(ctx context.Context, file string) error {
	//docs:home
	repo, err := sqlite.Open(ctx, file, nil) // such as "limits.db"
	if err != nil {
		return err
	}
	lim, err := limiter.New(repo, nil)
	if err != nil {
		return err
	}
	err = lim.SetResourceDefaults(ctx, "gpt-4",
		limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 10_000))
	if err != nil {
		return err
	}

	req := limiter.Request{
		Entity:   "key-abc",
		Resource: "gpt-4",
		Consume:  limiter.Tokens("rpm", 1).And("tpm", 500), // an estimate
	}
	err = lim.Do(ctx, req, func(ctx context.Context, lease *limiter.Lease) error {
		used, err := callModel(ctx)
		return errors.Join(err, lease.Used("tpm", used))
	})
	//docs:end
	if err != nil {
		return err
	}
	used, err := lim.UsageSummary(ctx, limiter.UsageQuery{Entity: "key-abc"}) // the balance refills meanwhile
	fmt.Println(used.Total["rpm"], used.Total["tpm"])
	return errors.Join(err, repo.Close())
}

// Example_dynamodb needs a table.
func Example_dynamodb() {
	ctx := context.Background()
	connect := func() error {
		//docs:connect
		repo, err := dynamo.Connect(ctx, "hello-limits", nil) // writes nothing
		//docs:end
		if err != nil {
			return err
		}
		lim, err := limiter.New(repo, nil)
		if err == nil {
			err = lim.Ping(ctx)
		}
		return err
	}
	deploy := func() error {
		//docs:deploy
		repo, err := infra.Open(ctx, "hello-limits", nil) // deploys the stack if there is none
		//docs:end
		if err == nil {
			err = repo.Close()
		}
		return err
	}
	check(connect())
	check(deploy())
}

package sqlite_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// complete stands for a call to a model. It returns the number of tokens used.
func complete(context.Context) int64 { return 620 }

// The program from the README.
func Example() {
	if err := program(context.Background()); err != nil {
		log.Println(err)
	}
	// Output: 1 620
}

func program(ctx context.Context) error {
	folder, err := os.MkdirTemp("", "limits")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()

	repo, err := sqlite.Open(ctx, filepath.Join(folder, "limits.db"), nil)
	if err != nil {
		return err
	}
	defer repo.Close()
	lim, err := limiter.New(repo, nil)
	if err != nil {
		return err
	}
	err = lim.SetResourceDefaults(ctx, "gpt-4", limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 10_000))
	if err != nil {
		return err
	}
	err = lim.Do(ctx, limiter.Request{
		Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1).And("tpm", 500),
	},
		func(ctx context.Context, lease *limiter.Lease) error {
			return lease.Used("tpm", complete(ctx))
		})
	if err != nil {
		return err
	}

	used, err := lim.UsageSummary(ctx, limiter.UsageQuery{Entity: "key-abc"})
	fmt.Println(used.Total["rpm"], used.Total["tpm"])
	return err
}

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

// A limiter on a file that the processes of one machine share.
func ExampleOpen() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "limits")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()

	repo, err := sqlite.Open(ctx, filepath.Join(folder, "limits.db"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer repo.Close()
	lim, err := limiter.New(repo, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = lim.SetResourceDefaults(ctx, "gpt-4", limiter.PerMinute(limiter.RPM, 100))
	left, err := lim.Available(ctx, "key-abc", "gpt-4")
	fmt.Println(left, err)
	// Output: rpm=100 <nil>
}

package dynamo_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// hammerVariable makes a child process of this test program run TestHammer.
const hammerVariable = "ZAEL_TEST_HAMMER"

const (
	processes = 4
	workers   = 8   // goroutines of each
	attempts  = 50  // of each goroutine
	room      = 400 // of 1600 attempts
)

// Four processes hammer one bucket, or four children of one parent. Together
// they are admitted exactly as often as the limit allows.
func TestProcessesShareOneLimit(t *testing.T) {
	t.Parallel()
	for name, entities := range map[string][]string{
		"one bucket": {"alice", "alice", "alice", "alice"},
		"one parent": {"key-0", "key-1", "key-2", "key-3"},
	} {
		for _, exact := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s exact=%v", name, exact), func(t *testing.T) {
				table := dynamotest.NewTable(t)
				admin := dynamotest.Connect(t, table, &exactOptions)
				setDefaults(t, admin, limiter.PerDay("rpm", room))
				for _, id := range entities[1:] {
					if id != entities[0] {
						createChild(t, admin, id, "project")
					}
				}
				if entities[1] != entities[0] {
					createChild(t, admin, entities[0], "project")
				}
				if got := runHammers(t, table, exact, entities); got != room {
					t.Errorf("%d admitted, want %d", got, room)
				}
			})
		}
	}
}

// runHammers returns how often the processes were admitted. All charges have the
// same time, so that nothing is refilled.
func runHammers(t *testing.T, table string, exact bool, entities []string) int {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	sum := 0
	for i := range processes {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestHammer$", "-test.count", "1")
			cmd.Env = append(os.Environ(),
				hammerVariable+"="+strings.Join(
					[]string{dynamotest.Endpoint(t), table, strconv.FormatBool(exact), entities[i]}, " ",
				))
			out, err := cmd.CombinedOutput()
			_, rest, _ := strings.Cut(string(out), "admitted=")
			n, scanErr := strconv.Atoi(strings.Fields(rest + " none")[0])
			if err != nil || scanErr != nil {
				t.Errorf("process %d: %v, %v\n%s", i, err, scanErr, out)
			}
			mu.Lock()
			defer mu.Unlock()
			sum += n
		})
	}
	wg.Wait()
	return sum
}

// TestHammer does the work of a child process.
func TestHammer(t *testing.T) {
	t.Parallel()
	args := strings.Fields(os.Getenv(hammerVariable))
	if len(args) != 4 {
		t.Skip("only for TestProcessesShareOneLimit")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	repo, err := dynamo.Connect(ctx, args[1], &dynamo.Options{
		AWS: dynamotest.Config(args[0]), Exact: args[2] == "true", Timeout: dynamotest.LongTimeout,
	})
	must(t, err)
	var mu sync.Mutex
	var wg sync.WaitGroup
	admitted := 0
	for range workers {
		wg.Go(func() {
			for range attempts {
				out, err := repo.Consume(ctx, start, chargeOf(args[3], 1))
				mu.Lock()
				if err != nil {
					t.Error(err)
				} else if out.Admitted {
					admitted++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	fmt.Printf("admitted=%d \n", admitted)
}

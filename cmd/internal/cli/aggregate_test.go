package cli_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/clitest"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// Clients take and give back tokens while an aggregator is killed repeatedly. In
// the end every window has exactly what they used.
func TestUsageIsExactThoughTheAggregatorIsKilled(t *testing.T) {
	url := clitest.Engine.URL(t)
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1",
		"AWS_ENDPOINT_URL": url,
	} {
		t.Setenv(name, value)
	}
	table := "cli-" + strings.ToLower(rand.Text())
	if err := dynamo.CreateTable(t.Context(), table, nil); err != nil {
		t.Fatal(err)
	}
	traffic := newTraffic(t, table, 3)
	for range 5 {
		before := traffic.counted(limiter.Hourly)
		cmd := exec.CommandContext(t.Context(), "zae-limiter", "aggregate", "--follow", "--name", table)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		traffic.round()
		for deadline := time.Now().Add(time.Minute); traffic.counted(limiter.Hourly) == before; {
			if time.Now().After(deadline) {
				t.Fatal("nothing was counted in a minute")
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // killed
	}
	if out, err := exec.CommandContext(
		t.Context(), "zae-limiter", "aggregate", "--name", table,
	).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, window := range []limiter.Window{limiter.Hourly, limiter.Daily, limiter.Monthly} {
		if got, want := traffic.counted(window), traffic.used.Load(); got != want {
			t.Errorf("%s: %d counted, %d used", window, got, want)
		}
	}
}

// traffic is a set of clients of a table.
type traffic struct {
	*testing.T
	clients []*limiter.RateLimiter
	used    atomic.Int64
}

const trafficEntities = 4

func newTraffic(t *testing.T, table string, clients int) *traffic {
	t.Helper()
	all := &traffic{T: t}
	for range clients {
		// A charge without an answer is sent again, and may be paid twice.
		repo, err := dynamo.Connect(t.Context(), table, &dynamo.Options{Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = repo.Close() })
		lim, err := limiter.New(repo, &limiter.Options{SettleTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		all.clients = append(all.clients, lim)
	}
	if err := all.clients[0].SetSystemDefaults(
		t.Context(), limiter.PerMinute("rpm", 1000), limiter.PerMinute("tpm", 100_000),
	); err != nil {
		t.Fatal(err)
	}
	return all
}

// round makes a few acquires of every client, some rolled back, some adjusted.
func (all *traffic) round() {
	all.Helper()
	var wg sync.WaitGroup
	for n, lim := range all.clients {
		wg.Go(func() {
			for i := range 20 {
				all.call(all.Context(), lim, fmt.Sprintf("key-%d", (n+i)%trafficEntities), int64(i))
			}
		})
	}
	wg.Wait()
}

// call takes 10 tokens, then adjusts the amount or rolls back.
func (all *traffic) call(ctx context.Context, lim *limiter.RateLimiter, entity string, i int64) {
	lease, err := lim.Acquire(ctx, limiter.Request{
		Entity: entity, Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1).And("tpm", 10),
	})
	if err != nil {
		all.Error(err)
		return
	}
	if i%5 == 0 {
		err = lease.Rollback(ctx)
	} else {
		all.used.Add(10 + i - 8)
		err = errors.Join(lease.Adjust(limiter.Tokens("tpm", i-8)), lease.Commit(ctx))
	}
	if err != nil {
		all.Error(err)
	}
}

// counted returns the sum of the snapshots of a window.
func (all *traffic) counted(window limiter.Window) (sum int64) {
	all.Helper()
	for u, err := range all.clients[0].Usage(all.Context(), limiter.UsageQuery{Resource: "gpt-4", Window: window}) {
		if err != nil {
			all.Fatal(err)
		}
		sum += u.Counters["tpm"]
	}
	return sum
}

package docs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// Two keys share the budget of their project.
func Example_hierarchy() {
	ctx := context.Background()
	lim, _ := inMemory()
	check(hierarchy(ctx, lim))
	// Output:
	// key-b: <nil>
	// key-b: rate limit exceeded for project-1/gpt-4: tpm (2000 requested, 500 of 15000 left); retry after 6s
	// key-c: <nil>
}

func hierarchy(ctx context.Context, lim *limiter.RateLimiter) error {
	//docs:hierarchy
	// Each key has 10,000 tokens a minute, and all keys of the project together 15,000.
	err := lim.SetResourceDefaults(ctx, "gpt-4", limiter.PerMinute("tpm", 10_000))
	if err != nil {
		return err
	}
	err = lim.SetLimits(ctx, "project-1", "gpt-4", limiter.PerMinute("tpm", 15_000))
	if err != nil {
		return err
	}
	for _, key := range []string{"key-a", "key-b"} {
		_, err = lim.CreateEntity(ctx, limiter.Entity{ID: key, Parent: "project-1", Cascade: true})
		if err != nil {
			return err
		}
	}
	//docs:end
	take := func(key string, tokens int64) error {
		_, err := lim.Acquire(ctx, limiter.Request{
			Entity: key, Resource: "gpt-4", Consume: limiter.Tokens("tpm", tokens),
		})
		return err
	}
	if err := take("key-a", 9_000); err != nil {
		return err
	}
	fmt.Println("key-b:", take("key-b", 5_500))
	fmt.Println("key-b:", take("key-b", 2_000))
	fmt.Println("key-c:", take("key-c", 2_000))
	return nil
}

// Each level replaces the ones below it.
func Example_levels() {
	ctx := context.Background()
	lim, _ := inMemory(limiter.PerMinute("rpm", 10))
	check(levels(ctx, lim))
	// Output:
	// [rpm 10/min] default
	// [rpm 60/min] system
	// [rpm 100/min tpm 10000/min] resource
	// [rpm 300/min] entity_default
	// [rpm 500/min] entity
}

func levels(ctx context.Context, lim *limiter.RateLimiter) error {
	inForce := func() error {
		d, err := lim.Explain(ctx, limiter.Request{Entity: "key-abc", Resource: "gpt-4"})
		if err != nil {
			return err
		}
		var limits []limiter.Limit
		for _, s := range d.Statuses {
			limits = append(limits, s.Limit)
		}
		fmt.Println(limits, d.Statuses[0].Source)
		return nil
	}
	if err := inForce(); err != nil {
		return err
	}
	for _, set := range []func() error{
		func() error {
			//docs:system
			return lim.SetSystemDefaults(ctx, limiter.PerMinute("rpm", 60))
			//docs:end
		},
		func() error {
			//docs:resource
			return lim.SetResourceDefaults(ctx, "gpt-4", limiter.PerMinute("rpm", 100),
				limiter.PerMinute("tpm", 10_000))
			//docs:end
		},
		func() error {
			//docs:entity
			return lim.SetLimits(ctx, "key-abc", "", limiter.PerMinute("rpm", 300)) // every resource
			//docs:end
		},
		func() error {
			//docs:exact
			return lim.SetLimits(ctx, "key-abc", "gpt-4", limiter.PerMinute("rpm", 500))
			//docs:end
		},
	} {
		if err := errors.Join(set(), inForce()); err != nil {
			return err
		}
	}
	return nil
}

// Request.Limits replaces all levels for one call.
func Example_override() {
	ctx := context.Background()
	lim, _ := inMemory(limiter.PerMinute("rpm", 100))
	//docs:override
	_, err := lim.Acquire(ctx, limiter.Request{
		Entity: "trial-7", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 8),
		Limits: []limiter.Limit{limiter.PerMinute("rpm", 5)},
	})
	//docs:end
	fmt.Println(err)
	// Output:
	// rate limit exceeded for trial-7/gpt-4: rpm; never fits: 8 rpm is above the capacity (burst) of 5
}

// A tenant sees nothing of another.
func Example_namespaces() {
	ctx := context.Background()
	lim, _ := inMemory(limiter.PerMinute("rpm", 2))
	check(tenants(ctx, lim))
	// Output:
	// tenant-a: <nil>
	// tenant-a: rate limit exceeded for key-1/gpt-4: rpm (1 requested, 0 of 2 left); retry after 30s
	// tenant-b: <nil>
}

func tenants(ctx context.Context, lim *limiter.RateLimiter) error {
	req := limiter.Request{Entity: "key-1", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 2)}
	//docs:namespaces
	if _, err := lim.RegisterNamespaces(ctx, "tenant-a", "tenant-b"); err != nil {
		return err
	}
	a, err := lim.Namespace(ctx, "tenant-a")
	if err != nil {
		return err
	}
	b, err := lim.Namespace(ctx, "tenant-b")
	if err != nil {
		return err
	}
	//docs:end
	_, err = a.Acquire(ctx, req)
	fmt.Println("tenant-a:", err)
	req.Consume = limiter.Tokens("rpm", 1)
	_, err = a.Acquire(ctx, req)
	fmt.Println("tenant-a:", err)
	_, err = b.Acquire(ctx, req)
	fmt.Println("tenant-b:", err)
	return nil
}

// The store of one tenant, opened at once.
func Example_namespaceOfStore() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "limits")
	check(err)
	defer func() { _ = os.RemoveAll(folder) }()
	file := filepath.Join(folder, "limits.db")
	//docs:store
	repo, err := sqlite.Open(ctx, file, &sqlite.Options{Namespace: "tenant-a"})
	//docs:end
	check(err)
	for ns, err := range repo.Namespaces(ctx) {
		fmt.Println(ns.Name, err)
	}
	check(repo.Close())
	// Output: tenant-a <nil>
}

// Six requests a minute are one every ten seconds.
func Example_bucket() {
	lim, clock := inMemory(limiter.PerMinute("rpm", 6))
	bucket(context.Background(), lim, clock)
	// Output:
	// 12:00:00 <nil>
	// 12:00:02 <nil>
	// 12:00:04 <nil>
	// 12:00:06 <nil>
	// 12:00:08 <nil>
	// 12:00:10 <nil>
	// 12:00:12 <nil>
	// 12:00:14 rate limit exceeded for alice/search: rpm (1 requested, 0 of 6 left); retry after 6s
}

func bucket(ctx context.Context, lim *limiter.RateLimiter, clock *clock) {
	//docs:bucket
	req := limiter.Request{Entity: "alice", Resource: "search", Consume: limiter.Tokens("rpm", 1)}
	for range 8 {
		_, err := lim.Acquire(ctx, req)
		fmt.Println(clock.Now().Format(time.TimeOnly), err)
		clock.Advance(2 * time.Second)
	}
	//docs:end
}

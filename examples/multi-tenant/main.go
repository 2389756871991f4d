// Command multi-tenant keeps the tenants of one store apart with namespaces.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	lim, err := limiter.New(memory.New(nil), nil)
	if err != nil {
		return err
	}

	tenants, err := lim.RegisterNamespaces(ctx, "acme", "globex")
	if err != nil {
		return err
	}

	acme, err := open(ctx, lim, "acme", 10)
	if err != nil {
		return err
	}

	globex, err := open(ctx, lim, "globex", 100)
	if err != nil {
		return err
	}

	fmt.Println("Both tenants have a user alice. She takes 8 calls at acme, and 8 at globex:")
	for _, view := range []*limiter.RateLimiter{acme, globex, acme} {
		call(ctx, view)
	}
	fmt.Println("The third call was refused: acme has limits of its own, and no tenant sees another's.")

	fmt.Println("\nacme stops paying, so its name is deleted. Its data stay:")
	if err := lim.DeleteNamespace(ctx, "acme"); err != nil {
		return err
	}

	_, err = lim.Namespace(ctx, "acme")
	fmt.Printf("  open acme: %v (ErrNotFound: %t)\n", err, errors.Is(err, limiter.ErrNotFound))
	call(ctx, globex)

	fmt.Println("\nacme pays again, and finds what it left, down to the balance of alice:")
	// A name may have another owner since, so a namespace is recovered by its
	// ID.
	if _, err := lim.RecoverNamespace(ctx, tenants[0].ID); err != nil {
		return err
	}

	acme, err = lim.Namespace(ctx, "acme")
	if err != nil {
		return err
	}

	left, err := acme.Available(ctx, "alice", "api")
	fmt.Printf("  alice at acme has %v left\n", left)
	return err
}

// open returns the view of a tenant, with a limit for all its users.
func open(ctx context.Context, lim *limiter.RateLimiter, tenant string, perHour int64) (*limiter.RateLimiter, error) {
	view, err := lim.Namespace(ctx, tenant)
	if err != nil {
		return nil, err
	}

	if err := view.SetSystemDefaults(ctx, limiter.PerHour("calls", perHour)); err != nil {
		return nil, err
	}
	return view, nil
}

// call takes 8 calls for alice, and prints the result.
func call(ctx context.Context, tenant *limiter.RateLimiter) {
	lease, err := tenant.Acquire(ctx, limiter.Request{
		Entity: "alice", Resource: "api", Consume: limiter.Tokens("calls", 8),
	})
	if err != nil {
		fmt.Printf("  refused: %v\n", err)
		return
	}

	s := lease.Decision().Statuses[0]
	fmt.Printf("  admitted: %d of %d left\n", s.Available, s.Limit.Capacity)
	// The lease has no corrections, so there is nothing to store.
	_ = lease.Commit(ctx)
}

package manifest_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/manifest"
	"github.com/zeroae/zae-limiter-go/memory"
)

func Example() {
	ctx := context.Background()
	repo := memory.New(nil)

	m, err := manifest.Parse([]byte(`
namespace: default
resources:
  gpt-4:
    limits:
      rpm: {capacity: 100}
      tpm: {capacity: 10000, burst: 15000}
`))
	if err != nil {
		log.Fatal(err)
	}
	plan, err := manifest.NewPlan(ctx, repo, m, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range plan.Changes {
		fmt.Println(c.Action, manifest.Level(c.Scope), manifest.Target(c.Scope))
		for _, f := range c.Summary() {
			fmt.Printf("  %s: %s\n", f.Name, f.After)
		}
	}
	report, err := plan.Apply(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Count(manifest.Create), "created,", len(report.Failed()), "failed")

	// Output:
	// create resource gpt-4
	//   rpm: 100/min
	//   tpm: 10000/min:15000
	// 1 created, 0 failed
}

// WhatIf replays what was used against limits that are not set yet.
func ExampleWhatIf() {
	ctx := context.Background()
	repo := memory.New(nil)
	now := time.Date(2026, time.January, 31, 15, 30, 0, 0, time.UTC)
	lim, err := limiter.New(repo, &limiter.Options{Now: func() time.Time { return now }})
	if err != nil {
		log.Fatal(err)
	}
	if err := lim.SetResourceDefaults(ctx, "gpt-4", limiter.PerMinute(limiter.RPM, 1000)); err != nil {
		log.Fatal(err)
	}
	for entity, calls := range map[string]int64{"key-abc": 900, "key-xyz": 300} {
		_, err := lim.Acquire(ctx, limiter.Request{
			Entity: entity, Resource: "gpt-4", Consume: limiter.Tokens(limiter.RPM, calls),
		})
		if err != nil {
			log.Fatal(err)
		}
	}

	m, err := manifest.Parse([]byte("resources: {gpt-4: {limits: {rpm: 10}}}"))
	if err != nil {
		log.Fatal(err)
	}
	report, err := manifest.WhatIf(ctx, repo, m, &manifest.WhatIfOptions{Now: func() time.Time {
		return now.Add(time.Hour)
	}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d of %d entities would have been refused\n", report.EntitiesOver, report.Entities)
	for _, row := range report.Rows {
		fmt.Printf("%s: at least %d of %d\n", row.Entity, row.Over, row.Used)
	}
	// Output:
	// 1 of 2 entities would have been refused
	// key-abc: at least 291 of 900
}

// A Provisioner handles the requests of a Lambda function.
func ExampleProvisioner() {
	ctx := context.Background()
	p := manifest.Provisioner{Open: func(context.Context, string) (limiter.Repository, error) {
		return memory.New(nil), nil // in place of a table
	}}
	answer, err := p.Handle(ctx, []byte(`{
		"action": "apply", "table_name": "my-app",
		"manifest": {"system": {"limits": {"rpm": {"capacity": 60}}}}
	}`))
	if err != nil {
		log.Fatal(err)
	}
	a := answer.(*manifest.Answer)
	fmt.Println(a.Status, a.Created, a.Errors)
	// Output: applied 1 []
}

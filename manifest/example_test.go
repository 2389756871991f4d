package manifest_test

import (
	"context"
	"fmt"
	"log"

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
		for _, f := range c.Fields() {
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
	//   rpm.capacity: 100
	//   rpm.refill_amount: 100
	//   rpm.refill_period: 60
	//   tpm.capacity: 15000
	//   tpm.refill_amount: 10000
	//   tpm.refill_period: 60
	// 1 created, 0 failed
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

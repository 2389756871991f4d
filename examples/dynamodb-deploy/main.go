// Command dynamodb-deploy starts on an empty AWS account: it deploys its table and
// uses it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
)

func main() {
	name := flag.String("name", "my-app", "the `name` of the stack and of its table")
	zip := flag.String("zip", "",
		"the `file` with the code of the functions, from zae-limiter lambda-export; none: no functions")
	remove := flag.Bool("delete", false, "delete the stack with all its data")
	flag.Parse()

	opts := &infra.Options{Zip: *zip, Event: show}
	// A start has more time than a charge in a service.
	opts.Dynamo.Timeout = 30 * time.Second

	// The functions of the stack need the file with their code.
	opts.Stack.NoAggregator, opts.Stack.NoProvisioner = *zip == "", *zip == ""

	var err error

	if *remove {
		_, err = infra.Delete(context.Background(), *name, &infra.DeleteOptions{Options: *opts})
	} else {
		err = run(context.Background(), *name, opts)
	}

	if err != nil {
		log.Fatal(err)
	}
}

// run opens the table, and deploys the stack before that if there is none.
func run(ctx context.Context, name string, opts *infra.Options) error {
	began := time.Now()
	repo, err := infra.Open(ctx, name, opts)
	if err != nil {
		return err
	}

	defer func() { _ = repo.Close() }()
	fmt.Printf("open for charges after %v\n", time.Since(began).Round(time.Millisecond))

	// The table is empty, so the program brings its limits.
	lim, err := limiter.New(repo, &limiter.Options{Limits: []limiter.Limit{limiter.PerHour("calls", 3)}})
	if err != nil {
		return err
	}

	err = lim.Do(ctx, limiter.Request{Entity: "alice", Resource: "search", Consume: limiter.Tokens("calls", 2)},
		func(_ context.Context, lease *limiter.Lease) error {
			fmt.Printf("admitted: %d of 3 calls left\n", lease.Decision().Statuses[0].Available)
			return nil
		})

	// A refusal is an answer, and no failure of the program.
	if refused, ok := errors.AsType[*limiter.ExceededError](err); ok {
		fmt.Println("refused:", refused)
		return nil
	}
	return err
}

// show prints what CloudFormation does, for an operator who watches the start.
func show(e infra.Event) { fmt.Println(e.Status, e.Resource) }

package infra_test

import (
	"context"
	"log"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
)

// Open deploys the stack if it is missing, and connects to its table.
func ExampleOpen() {
	ctx := context.Background()
	repo, err := infra.Open(ctx, "my-app", &infra.Options{Dynamo: dynamo.Options{Region: "eu-central-1"}})
	if err != nil {
		log.Fatal(err)
	}
	defer repo.Close()
	lim, err := limiter.New(repo, nil)
	if err != nil {
		log.Print(err)
		return
	}
	if err := lim.Ping(ctx); err != nil {
		log.Print(err)
	}
}

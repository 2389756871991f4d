package dynamo_test

import (
	"context"
	"log"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// A limiter on a table that many machines share.
func ExampleConnect() {
	ctx := context.Background()
	repo, err := dynamo.Connect(ctx, "my-app", &dynamo.Options{Region: "eu-central-1"})
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

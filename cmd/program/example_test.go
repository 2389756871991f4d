package program_test

import (
	"context"
	"os"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/program"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

// checkouts is a scenario of shops.
var checkouts = loadtest.Scenario{
	Name: "checkout", Description: "Shoppers pay, and share the limit of their shop.",
	Setup: func(ctx context.Context, test *loadtest.Test) error {
		return test.SetResourceDefaults(ctx, "payments", limiter.PerMinute(limiter.RPM, 600))
	},
	Classes: []loadtest.Class{{
		Name: "Shopper", Wait: loadtest.Wait{Min: time.Second, Max: 3 * time.Second},
		Tasks: []loadtest.Task{{Name: "pay", Run: func(ctx context.Context, u *loadtest.User) error {
			req := limiter.Request{Entity: "shop-1", Resource: "payments", Consume: limiter.Tokens(limiter.RPM, 1)}
			return u.Do(ctx, req, func(*loadtest.Lease) error { return nil })
		}}},
	}},
}

//docs:main
func main() { os.Exit(loadtest.Main(program.Run, checkouts)) }

//docs:end

// A program with a scenario of its own has every load-testing command:
//
//	./my-load local checkout --users 50 --duration 10s
//	./my-load worker --master load.example.com
func Example() {
	_ = main // a test must not run the program
}

// Command zae-limiter manages a rate limiter. See zae-limiter --help. Started by
// AWS Lambda, it runs as a function that counts usage or applies declared limits.
package main

import (
	"os"
	_ "time/tzdata" // the zones of quotas, where the system has none

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/internal/lambda"
)

func main() {
	// Lambda sets this variable in the environment of every function.
	if os.Getenv("AWS_LAMBDA_RUNTIME_API") != "" {
		os.Exit(lambda.Main(os.Getenv, os.Stdout))
	}
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

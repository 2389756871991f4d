// Command zae-limiter-function is the code of a stack's AWS Lambda functions, which
// count usage, apply declared limits or generate load. It has no commands and no
// servers, so that it is small and starts fast. See zae-limiter lambda-export.
package main

import (
	"fmt"
	"os"
	_ "time/tzdata" // the zones of quotas, which a function's system lacks

	"github.com/zeroae/zae-limiter-go/cmd/internal/lambda"
)

func main() {
	// Lambda sets this variable in the environment of every function.
	if os.Getenv("AWS_LAMBDA_RUNTIME_API") == "" {
		fmt.Fprintln(os.Stderr, "zae-limiter-function: only AWS Lambda can run this program; run zae-limiter instead")
		os.Exit(2)
	}
	os.Exit(lambda.Main(os.Getenv, os.Stdout))
}

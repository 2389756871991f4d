// Package program runs the load-testing commands of zae-limiter in a program with
// scenarios of its own.
//
// It is separate from package loadtest, so that a test that only runs a scenario
// does not compile every store, the command tree and the AWS SDK.
package program

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/internal/lambda"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

var _ loadtest.Program = Run

// Run runs the process with scenarios beside those of package loadtest and
// returns its exit code. The arguments are a command of "zae-limiter loadtest",
// such as "local" or "worker". Started by AWS Lambda, Run is the worker function.
// Pass it to [loadtest.Main].
func Run(scenarios []loadtest.Scenario) int {
	if os.Getenv("AWS_LAMBDA_RUNTIME_API") != "" {
		return lambda.Main(os.Getenv, os.Stdout, scenarios...)
	}
	name := strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	return cli.LoadtestMain(name, scenarios, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

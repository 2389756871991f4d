// Package stack has the commands for DynamoDB tables and the stacks around them.
package stack

import (
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
)

// Commands returns the constructors of the commands by their names.
func Commands() kit.Commands {
	return kit.Commands{
		"deploy": newDeploy, "status": newStatus, "check": newCheck, "upgrade": newUpgrade, "delete": newDelete,
		"list": newList, "table": newTable, "aggregate": newAggregate, "cfn-template": newTemplate,
		"lambda-export": newLambdaExport,
	}
}

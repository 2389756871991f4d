package stack

import (
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
)

func Commands() kit.Commands {
	return kit.Commands{
		"deploy": newDeploy, "status": newStatus, "check": newCheck, "upgrade": newUpgrade, "delete": newDelete,
		"list": newList, "table": newTable, "aggregate": newAggregate, "cfn-template": newTemplate,
		"lambda-export": newLambdaExport,
	}
}

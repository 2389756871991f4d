package data

import (
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
)

func Commands() kit.Commands {
	return kit.Commands{
		"acquire": newAcquire, "explain": newExplain, "entity": newEntity, "resource": newResource,
		"system": newSystem, "namespace": newNamespace, "switches": newSwitches, "top": newTop, "usage": newUsage,
		"audit": newAudit,
	}
}

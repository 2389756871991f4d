// Package data has the commands that charge, read and change what a store holds:
// calls, entities, resources, the system, namespaces, switches, usage and the audit
// trail.
package data

import (
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
)

// Commands returns the constructors of the commands by their names.
func Commands() kit.Commands {
	return kit.Commands{
		"acquire": newAcquire, "explain": newExplain, "entity": newEntity, "resource": newResource,
		"system": newSystem, "namespace": newNamespace, "switches": newSwitches, "top": newTop, "usage": newUsage,
		"audit": newAudit,
	}
}

// Package remedy holds errors that say what mends them, in the words of the Go API.
// A program finds the remedies in an error and words them in its own way, such as
// commands.
package remedy

import (
	"errors"
	"slices"
)

// Call is a call that mends a fault, as the text of the error names it.
type Call string

// The calls. Those of AWS have the name of the service behind them.
const (
	RegisterNamespace  Call = "RegisterNamespaces"
	CreateTable        Call = "dynamo.CreateTable"
	MigrateTable       Call = "dynamo.Migrate"
	DeleteNewerBuckets Call = "DeleteNewerBuckets"
	ReadSettings       Call = "dynamo.ReadSettings"
	ListSwitches       Call = "RateLimiter.Switches"

	Deploy            Call = "infra.Deploy"
	DeployUnprotected Call = "infra.Deploy without DeletionProtection"
	DeployPolicies    Call = "infra.Deploy without NoIAM"
	// A stack is deployed without the function first, so that CloudFormation forgets
	// the function that is gone.
	DeployAggregator  Call = "infra.Deploy with NoAggregator and then without"
	DeployProvisioner Call = "infra.Deploy with NoProvisioner and then without"
	Upgrade           Call = "infra.Upgrade"
	Delete            Call = "infra.Delete"
	DeleteTable       Call = "infra.DeleteTable"
	DeployLoad        Call = "infra.DeployLoad"
	DeleteLoad        Call = "infra.DeleteLoad"
	RunLoad           Call = "package loadtest"
	NewPackage        Call = "infra.NewPackage"

	// Wait and WaitLoad continue a call that stopped waiting. UseTable is for a table
	// that needs no stack.
	Wait     Call = "make the same call to wait for it, or infra.Inspect"
	WaitLoad Call = "make the same call to wait for it, or infra.ListLoads"
	UseTable Call = "infra.Inspect shows it, and dynamo.Connect opens it"

	UnprotectTable   Call = "UpdateTable of DynamoDB"
	UnprotectStack   Call = "UpdateTerminationProtection of CloudFormation"
	ContinueRollback Call = "ContinueUpdateRollback of CloudFormation"
	RestoreCode      Call = "UpdateFunctionCode of Lambda"
)

// Remedy is what mends the fault of an error: a call, and what it is about. It names
// the region and the endpoint of the call that failed, so that it never reaches
// another account.
type Remedy struct {
	Call             Call
	Name             string   // of the stack, the table or the function
	Args             []string // what the call needs besides, such as the name of a namespace
	Region, Endpoint string   // "" for the default
}

// Error returns the call as the text of an error names it, such as infra.Deploy.
func (r *Remedy) Error() string {
	if r.Call == RestoreCode {
		return string(r.Call) + " for " + r.Name
	}
	return string(r.Call)
}

// List holds the remedies of an error that embeds it.
type List []*Remedy

// Remedies returns the list.
func (l List) Remedies() []*Remedy { return l }

// As stores the first remedy in a target of type **Remedy.
func (l List) As(target any) bool {
	first, ok := target.(**Remedy)
	if ok = ok && len(l) > 0; ok {
		*first = l[0]
	}
	return ok
}

// remediable is an error with remedies, which its text names.
type remediable struct {
	error
	List
}

// Unwrap returns the error without its remedies.
func (e *remediable) Unwrap() error { return e.error }

// With adds remedies to an error. Its text stays, and has to name them.
func With(err error, remedies ...*Remedy) error {
	if len(remedies) == 0 {
		return err
	}
	return &remediable{err, remedies}
}

// Of returns the remedies in an error and those that it wraps, in the order of its
// text.
func Of(err error) []*Remedy {
	if err == nil {
		return nil
	}

	var all []*Remedy
	if has, ok := err.(interface{ Remedies() []*Remedy }); ok {
		all = slices.Clone(has.Remedies())
	}

	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			all = append(all, Of(e)...)
		}
		return all
	}
	return append(all, Of(errors.Unwrap(err))...)
}

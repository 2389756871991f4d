// Package infra deploys, upgrades, inspects and deletes the CloudFormation stack
// of a limiter: its table, the functions that count usage and apply declared
// limits, and the policies for its users. A stack has the name of its table.
//
// All changes go through CloudFormation, including those of code, so that it
// rolls back failed updates and detects drift. Every call is safe to repeat: after
// an error or an interruption the same call continues from the state of the
// account. Stacks of the Python tool have the same names, and Deploy and Upgrade
// take them over.
package infra

import (
	"cmp"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/mod/semver"

	"github.com/zeroae/zae-limiter-go/dynamo"
)

// Options configures the calls of this package. The zero value of a field is its
// default.
type Options struct {
	// Dynamo configures access to the account: Region, Endpoint and AWS apply to
	// every service, and Namespace is the namespace to register. The other fields
	// configure the repository that Open returns.
	Dynamo dynamo.Options
	Stack  Stack
	// Resolve, if not nil, returns the stack to deploy, given the deployed one, or
	// nil if there is none. It is called again if the stack changes meanwhile.
	// Default: Stack.
	Resolve func(deployed *Stack) Stack
	// Version is the version of the program. Tags and the table record it, and
	// code is built at this version. Default: the version of the module in the
	// running program.
	Version string
	// Zip is the path of a package for the functions; see [PackageOptions].
	Zip string
	// NoWait returns as soon as CloudFormation has accepted the operation. Another
	// call has to do the remaining work.
	NoWait bool
	// Downgrade allows replacing a stack that a newer version deployed.
	Downgrade bool
	// Poll is the interval between two checks of progress; default 3 s.
	Poll time.Duration
	// Event, if not nil, is called with each event of the stack while a call waits.
	Event func(Event)
	// Building, if not nil, is called before the functions' code is compiled, which
	// may take minutes. The returned function is called with the result.
	Building func(architecture string) (done func(error))
	// Confirm, if not nil, is called with the changes of an update before it
	// starts. If it returns an error, the call returns that error and changes
	// nothing.
	Confirm func([]Change) error
	// Now returns the time for records in the table and for a Status; default
	// time.Now.
	Now func() time.Time
}

const defaultPoll = 3 * time.Second

func (o Options) withDefaults() Options {
	o.Version = cmp.Or(o.Version, programVersion())
	o.Poll = cmp.Or(o.Poll, defaultPoll)

	if o.Event == nil {
		o.Event = func(Event) {}
	}

	if o.Confirm == nil {
		o.Confirm = func([]Change) error { return nil }
	}

	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// programVersion returns the version of this module in the running program, without
// the v, or "devel" if it is unknown.
func programVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknownVersion
	}

	found := info.Main.Version
	// In a program that imports this module, the main module is another one.
	for _, dependency := range info.Deps {
		if dependency.Path == module+"/dynamo/infra" {
			found = dependency.Version
		}
	}

	// A program of this checkout has its version from the repository. Go knows none for
	// the modules beside it.
	if found == "(devel)" && strings.HasPrefix(info.Main.Path, module+"/") {
		found = info.Main.Version
	}

	if found == "" || found == "(devel)" {
		return unknownVersion
	}

	return strings.TrimPrefix(found, "v")
}

const unknownVersion = "devel"

// semverOf returns a version with the v that Go uses, or "" if it is not a
// semantic version.
func semverOf(version string) string {
	if v := "v" + strings.TrimPrefix(version, "v"); semver.IsValid(v) {
		return v
	}
	return ""
}

// canReplace reports whether version a is not older than b. A version that is not
// semantic can replace only another such version.
func canReplace(a, b string) bool {
	before := semverOf(b)
	return before == "" || semverOf(a) != "" && semver.Compare(semverOf(a), before) >= 0
}

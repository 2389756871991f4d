// Package infra is the life cycle of a limiter's CloudFormation stack: the
// table, the functions that count usage and apply declared limits, and the
// policies for those who use them. A stack has the name of its table.
//
// Everything goes through CloudFormation, code included, so that what failed is
// rolled back and what changed outside can be seen. Each call may be repeated:
// after an error, or when it was interrupted, the same call goes on from what it
// finds in the account. Stacks that Python's tool made have the same names and
// are taken over.
package infra

import (
	"cmp"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo"
)

// Options are those of every call in this package. The zero value of a field is
// its default.
type Options struct {
	// Dynamo says how to reach the account: Region, Endpoint and AWS hold for
	// every service. Its Namespace is the one that is registered. The rest is for
	// the repository that Open returns.
	Dynamo dynamo.Options
	Stack  Stack
	// Settle says what to deploy, given what is there, or nil if nothing is; it may
	// be asked again when others change the stack meanwhile. Default: Stack,
	// whatever is there.
	Settle func(deployed *Stack) Stack
	// Version is that of the program. It is noted in tags and in the table, and
	// code that has to be built is of this version. Default: that of the module
	// in the running program.
	Version string
	// Zip is a package for the functions; see [PackageOptions].
	Zip string
	// NoWait returns once CloudFormation has accepted the work. What has to be
	// done after it is left to another call.
	NoWait bool
	// Downgrade allows to replace what a newer version deployed.
	Downgrade bool
	// Poll is how often progress is looked at; default 3 s.
	Poll time.Duration
	// Event is told what happens to the stack while a call waits for it. Default:
	// nobody.
	Event func(Event)
	// Building is called when the functions' code begins to be compiled, which may
	// take minutes; the function that it returns is called when that ends.
	Building func(architecture string) (done func(error))
	// Confirm sees the changes to what a stack has, before they are made. An error
	// refuses them, and is returned. Default: they are made.
	Confirm func([]Change) error
	// Now is the clock for what is noted in the table and in a Status; default
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

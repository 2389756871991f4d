package infra_test

import (
	"debug/elf"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/infra"
)

// A new stack has the architecture of the code at hand; one that is deployed
// keeps its own until another is named.
func TestArchitectureOfAStack(t *testing.T) {
	t.Parallel()
	arm, x86 := functionZip(t), functionZipFor(t, elf.EM_X86_64)
	keep := func(deployed *infra.Stack) infra.Stack { // as the command does
		if deployed == nil {
			return infra.Stack{}
		}
		return *deployed
	}
	for name, settle := range map[string]func(*infra.Stack) infra.Stack{"said": nil, "settled": keep} {
		c, stack := newCloud(t), stackName()
		opts := c.options()
		opts.Settle, opts.Zip = settle, x86
		is := func(want string) {
			t.Helper()
			if got := c.find(stack).parameters["Architecture"]; got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		deploy(t, stack, opts)
		is(infra.X8664)
		opts.Zip = arm
		_, err := infra.Deploy(t.Context(), stack, &opts)
		wants[*limiter.InvalidError](t, err, "it is for arm64, and the functions are for x86_64")
		_, err = infra.Upgrade(t.Context(), stack, &infra.UpgradeOptions{Options: opts})
		wants[*limiter.InvalidError](t, err, "it is for arm64, and the functions are for x86_64")
		is(infra.X8664)
		opts.Settle, opts.Stack.Architecture = nil, infra.ARM64
		deploy(t, stack, opts)
		is(infra.ARM64)
	}
}

// A stack without functions has none to keep the architecture of.
func TestArchitectureOfAStackWithoutFunctions(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	opts := c.options()
	opts.Stack.NoIAM = true
	deploy(t, name, opts)
	opts.Stack.NoIAM, opts.Zip = false, functionZipFor(t, elf.EM_X86_64)
	deploy(t, name, opts)
	if got := c.find(name).parameters["Architecture"]; got != infra.X8664 {
		t.Error(got)
	}
}

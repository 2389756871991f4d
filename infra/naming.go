package infra

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/zeroae/zae-limiter-go"
)

// place is where the name goes in a format.
const place = "{}"

// naming is the rule for one kind of name in IAM.
type naming struct {
	field                      string
	longestFormat, longestName int
}

var (
	roleNaming   = naming{"role name format", 55, 64}
	policyNaming = naming{"policy name format", 120, 128}
)

// named is something in IAM: which of them it is, and the parameter of the
// template that has its name.
type named struct{ component, parameter string }

var (
	aggregatorRole  = named{"aggr", "AggregatorRoleName"}
	provisionerRole = named{"prov", "ProvisionerRoleName"}

	appRoles = []named{{"app", "AppRoleName"}, {"admin", "AdminRoleName"}, {"read", "ReadOnlyRoleName"}}
	roles    = append([]named{aggregatorRole, provisionerRole}, appRoles...)

	policies = []named{
		{"acq", "AcquireOnlyPolicyName"},
		{"full", "FullAccessPolicyName"},
		{"read", "ReadOnlyPolicyName"},
		{"ns-acq", "NamespaceAcquirePolicyName"},
		{"ns-full", "NamespaceFullAccessPolicyName"},
		{"ns-read", "NamespaceReadOnlyPolicyName"},
	}
)

// of is the name of a role or policy of a stack.
func (n named) of(format, stack string) string {
	return strings.ReplaceAll(format, place, stack+"-"+n.component)
}

// check judges a format, "" for none, and the names that it gives.
func (n naming) check(format, stack string, all []named) error {
	if format == "" {
		return nil
	}
	switch {
	case strings.Count(format, place) != 1:
		return invalid(n.field, format, "must have {} exactly once, in the place of the stack's name")
	case utf8.RuneCountInString(format) > n.longestFormat:
		return invalid(n.field, format, fmt.Sprintf("must be at most %d characters", n.longestFormat))
	case !isIAMName(strings.Replace(format, place, "", 1)):
		return invalid(n.field, format, `must be letters, digits or "+=,.@_-" around {}`)
	}
	longest := ""
	for _, one := range all {
		if name := one.of(format, stack); len(name) > len(longest) {
			longest = name
		}
	}
	if excess := len(longest) - n.longestName; excess > 0 {
		return invalid(n.field, format, n.tooLong(longest, excess, len(stack)-excess))
	}
	return nil
}

func (n naming) tooLong(name string, excess, fits int) string {
	reason := fmt.Sprintf("gives %q, which is %d more than the %d characters a name may have", name, excess, n.longestName)
	if fits < shortestStack {
		return reason + "; no stack's name would fit, so shorten the format"
	}
	return fmt.Sprintf("%s; the longest name of a stack that would fit has %d", reason, fits)
}

// isIAMName tells whether all of s, which may be empty, may be in the name of a
// role or policy.
func isIAMName(s string) bool { return onlyRunes(s, isIAMRune) }

func isIAMRune(r rune) bool { return isAlphanumeric(r) || strings.ContainsRune("+=,.@_-", r) }

func isAlphanumeric(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

func onlyRunes(s string, allowed func(rune) bool) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !allowed(r) })
}

// invalid cuts what was given as every *limiter.InvalidError does.
func invalid(field, value, reason string) *limiter.InvalidError {
	const most = 50
	if runes := []rune(value); len(runes) > most {
		value = string(runes[:most]) + "..."
	}
	return &limiter.InvalidError{Field: field, Value: value, Reason: reason}
}

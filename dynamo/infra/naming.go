package infra

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// namePlaceholder stands for the name in a format.
const namePlaceholder = "{}"

// nameRule holds the limits for one kind of name in IAM.
type nameRule struct {
	field              string
	maxFormat, maxName int
}

var (
	roleNames   = nameRule{"role name format", 55, 64}
	policyNames = nameRule{"policy name format", 120, 128}
)

// iamName identifies a role or policy of a stack: the suffix of its default name,
// and the template parameter for a custom one.
type iamName struct{ component, parameter string }

var (
	aggregatorRole  = iamName{"aggr", "AggregatorRoleName"}
	provisionerRole = iamName{"prov", "ProvisionerRoleName"}

	appRoles = []iamName{{"app", "AppRoleName"}, {"admin", "AdminRoleName"}, {"read", "ReadOnlyRoleName"}}
	roles    = append([]iamName{aggregatorRole, provisionerRole}, appRoles...)

	policies = []iamName{
		{"acq", "AcquireOnlyPolicyName"},
		{"full", "FullAccessPolicyName"},
		{"read", "ReadOnlyPolicyName"},
		{"ns-acq", "NamespaceAcquirePolicyName"},
		{"ns-full", "NamespaceFullAccessPolicyName"},
		{"ns-read", "NamespaceReadOnlyPolicyName"},
	}
)

// expand returns the name for a format and a stack.
func (n iamName) expand(format, stack string) string {
	return strings.ReplaceAll(format, namePlaceholder, stack+"-"+n.component)
}

// check validates a format and the names it produces. It accepts an empty format.
func (n nameRule) check(format, stack string, all []iamName) error {
	if format == "" {
		return nil
	}

	switch {
	case strings.Count(format, namePlaceholder) != 1:
		return invalid(n.field, format, "must contain {} exactly once, which stands for the default name")
	case utf8.RuneCountInString(format) > n.maxFormat:
		return invalid(n.field, format, fmt.Sprintf("must be at most %d characters", n.maxFormat))
	case !isIAMName(strings.Replace(format, namePlaceholder, "", 1)):
		return invalid(n.field, format, `must be letters, digits or "+=,.@_-" around {}`)
	}

	longest := ""
	for _, one := range all {
		if name := one.expand(format, stack); len(name) > len(longest) {
			longest = name
		}
	}

	if excess := len(longest) - n.maxName; excess > 0 {
		return invalid(n.field, format, n.tooLong(longest, excess, len(stack)-excess))
	}

	return nil
}

// tooLong returns the reason for rejecting a name that exceeds the maximum.
func (n nameRule) tooLong(name string, excess, fits int) string {
	reason := fmt.Sprintf("produces %q, which exceeds the maximum of %d characters by %d", name, n.maxName, excess)
	if fits < minStackName {
		return reason + "; no stack name would fit, so shorten the format"
	}
	return fmt.Sprintf("%s; a stack name of at most %d characters would fit", reason, fits)
}

// isIAMName reports whether s has only characters that are valid in the name of a
// role or policy.
func isIAMName(s string) bool { return onlyRunes(s, isIAMRune) }

func isIAMRune(r rune) bool { return isAlphanumeric(r) || strings.ContainsRune("+=,.@_-", r) }

func isAlphanumeric(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

func onlyRunes(s string, allowed func(rune) bool) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !allowed(r) })
}

// invalid returns an error for a value, which it truncates like every
// *limiter.InvalidError.
func invalid(field, value, reason string) *limiter.InvalidError {
	const maxRunes = 50
	if runes := []rune(value); len(runes) > maxRunes {
		value = string(runes[:maxRunes]) + "..."
	}
	return &limiter.InvalidError{Field: field, Value: value, Reason: reason}
}

// Suffixes of the names in a load stack, after the name of that stack. The cluster
// has the name of the stack.
const (
	loadSuffix       = "-load"   // of the stack, after the name of the tested one
	masterSuffix     = "-master" // of the task family and the service
	workerSuffix     = "-worker" // of the function
	repositorySuffix = "-locust"
)

// Containers of the task of a load stack.
const (
	MasterContainer       = "locust-master"
	OrchestratorContainer = "worker-orchestrator"
)

// ScenarioVariable is the environment variable with the folder of the user's
// scenarios, in the containers and in the worker function of a load stack.
const ScenarioVariable = "ZAE_LIMITER_SCENARIOS"

// loadRoles are the roles of a load stack.
var loadRoles = []iamName{{component: "exec"}, {component: "task"}, {component: "worker"}}

// LoadName returns the name of the load stack for a stack.
func LoadName(name string) string { return dynamo.TableName(name) + loadSuffix }

// checkLoadName validates the name of a stack to test. Repositories of images have
// stricter names than stacks.
func checkLoadName(target string) error {
	if err := checkStackName(target); err != nil {
		return err
	}

	switch maxLen := maxFunctionName - len(loadSuffix+workerSuffix); {
	case len(target) > maxLen:
		return invalid("name", target,
			fmt.Sprintf("must be at most %d characters for a load test, whose function has the suffix %s", maxLen,
				loadSuffix+workerSuffix))
	case target != strings.ToLower(target):
		return invalid("name", target, "must be in lower case for a load test, because repositories of images are")
	// The appended hyphen also finds one at the end, which the suffixes would
	// double.
	case strings.Contains(target+"-", "--"):
		return invalid("name", target,
			"must have single hyphens, and none at the end, for a load test, because repositories of images do")
	}
	return nil
}

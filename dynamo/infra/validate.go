package infra

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/arn"

	"github.com/zeroae/zae-limiter-go"
)

const (
	minStackName    = 3  // minimum of DynamoDB
	maxStackName    = 55 // as in the Python tool
	maxFunctionName = 64

	aggregatorSuffix  = "-aggregator"
	provisionerSuffix = "-limits-provisioner"
)

var logRetentions = []int{
	1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653,
}

// Validate checks the settings for a stack of that name, without any call. It returns
// the first problem as a *limiter.InvalidError.
func (s Stack) Validate(name string) error {
	s = s.WithDefaults()
	return cmp.Or(s.checkFields(name), s.checkNames(name))
}

// checkFields checks each field by itself.
func (s Stack) checkFields(name string) error {
	return cmp.Or(
		checkStackName(name),
		s.checkWindows(),
		s.checkNumbers(),
		s.checkResourceIndex(),
		s.checkFunctions(),
		s.checkIAM(),
		roleNames.check(s.RoleNameFormat, name, nil),
		policyNames.check(s.PolicyNameFormat, name, nil),
		checkBucketName(s.ArtifactBucket),
		checkTags(s.Tags),
	)
}

// checkNames checks the lengths of the names of all resources.
func (s Stack) checkNames(name string) error {
	return cmp.Or(
		s.checkLength(name),
		roleNames.check(s.RoleNameFormat, name, s.roles()),
		policyNames.check(s.PolicyNameFormat, name, s.policies()),
	)
}

// checkStackName validates the name of a stack.
func checkStackName(name string) error {
	refuse := func(reason string) error { return invalid("name", name, reason) }

	switch {
	case name == "":
		return refuse("must not be empty")
	case strings.Contains(name, "_"):
		return refuse("must not contain underscores; use hyphens")
	case strings.Contains(name, "."):
		return refuse("must not contain dots; use hyphens")
	case strings.Contains(name, " "):
		return refuse("must not contain spaces; use hyphens")
	case !isLetter(name[0]) || !onlyRunes(name, func(r rune) bool { return isAlphanumeric(r) || r == '-' }):
		return refuse("must begin with a letter, then letters, digits or hyphens")
	case len(name) < minStackName:
		return refuse(fmt.Sprintf("must be at least %d characters", minStackName))
	case len(name) > maxStackName:
		return refuse(fmt.Sprintf("must be at most %d characters", maxStackName))
	}
	return nil
}

func isLetter(c byte) bool { return isAlphanumeric(rune(c)) && (c < '0' || c > '9') }

// checkLength checks that the names of the functions are not too long.
func (s Stack) checkLength(name string) error {
	for _, function := range []struct {
		made          bool
		which, suffix string
	}{
		{s.HasProvisioner(), "provisioner", provisionerSuffix},
		{s.HasAggregator(), "aggregator", aggregatorSuffix},
	} {
		if maxLen := maxFunctionName - len(function.suffix); function.made && len(name) > maxLen {
			return invalid("name", name,
				fmt.Sprintf("must be at most %d characters with the %s, whose function has the suffix %s",
					maxLen, function.which, function.suffix))
		}
	}
	return nil
}

func (s Stack) checkWindows() error {
	var seen []string

	for window := range strings.SplitSeq(s.SnapshotWindows, ",") {
		known := slices.Contains([]limiter.Window{limiter.Hourly, limiter.Daily, limiter.Monthly},
			limiter.Window(window))
		if !known || slices.Contains(seen, window) {
			return invalid("snapshot windows", s.SnapshotWindows,
				"must be one or more of hourly, daily and monthly, each at most once, such as hourly,daily")
		}
		seen = append(seen, window)
	}
	return nil
}

func (s Stack) checkNumbers() error {
	for _, n := range []struct {
		field           string
		value, min, max int
		optional        bool
	}{
		{"usage retention days", s.UsageRetentionDays, 1, 3650, false},
		{"audit retention days", s.AuditRetentionDays, 1, math.MaxInt32, true},
		{"recovery days", s.PITRRecoveryDays, 1, 35, true},
		{"function memory", s.LambdaMemory, 128, 3008, false},
		{"days until Glacier", s.ArchiveGlacierDays, 1, 3650, false},
		{"duration threshold", s.DurationThresholdPct, 1, 100, false},
	} {
		if n.optional && n.value == 0 {
			continue
		}
		if n.value < n.min || n.value > n.max {
			return invalid(n.field, strconv.Itoa(n.value), fmt.Sprintf("must be from %d to %d", n.min, n.max))
		}
	}
	return nil
}

func (s Stack) checkResourceIndex() error {
	if !slices.Contains([]string{"", FullIndex, LeanIndex}, s.ResourceIndex) {
		return invalid("resource index", s.ResourceIndex, "must be "+FullIndex+" or "+LeanIndex)
	}
	return nil
}

func (s Stack) checkFunctions() error {
	if t := s.LambdaTimeout; t < time.Second || t > 15*time.Minute || t%time.Second != 0 {
		return invalid("function timeout", t.String(), "must be whole seconds, from 1 to 900")
	}

	if !slices.Contains(logRetentions, s.LogRetentionDays) {
		return invalid("log retention days", strconv.Itoa(s.LogRetentionDays),
			"must be one of "+strings.Trim(fmt.Sprint(logRetentions), "[]"))
	}

	if !slices.Contains([]string{"DEBUG", "INFO", "WARN", "ERROR"}, s.LogLevel) {
		return invalid("log level", s.LogLevel, "must be DEBUG, INFO, WARN or ERROR")
	}

	return checkArchitecture(s.Architecture)
}

func checkArchitecture(name string) error {
	if machines[name] == 0 {
		return invalid("architecture", name, "must be "+ARM64+" or "+X8664)
	}
	return nil
}

func (s Stack) checkIAM() error {
	if s.NoIAM && s.IAMRoles {
		return invalid("IAM roles", "", "roles need IAM; choose one of the two")
	}
	return cmp.Or(
		checkRoleARN("aggregator role ARN", s.AggregatorRoleARN),
		checkRoleARN("provisioner role ARN", s.ProvisionerRoleARN),
		checkTopicARN(s.AlarmTopicARN),
		checkBoundary(s.PermissionBoundary),
	)
}

// roles returns the roles that the stack creates.
func (s Stack) roles() []iamName {
	var all []iamName

	if s.NoIAM {
		return nil
	}

	if s.HasAggregator() && s.AggregatorRoleARN == "" {
		all = append(all, aggregatorRole)
	}

	if s.HasProvisioner() && s.ProvisionerRoleARN == "" {
		all = append(all, provisionerRole)
	}

	if s.IAMRoles {
		all = append(all, appRoles...)
	}
	return all
}

// policies returns the policies that the stack creates.
func (s Stack) policies() []iamName {
	if s.NoIAM {
		return nil
	}
	return policies
}

// checkRoleARN validates the ARN of a role. It accepts an empty value.
func checkRoleARN(field, value string) error {
	if value == "" || isIAMResource(value, "role/", isAccount) {
		return nil
	}
	return invalid(field, value, "must be the ARN of a role, such as arn:aws:iam::123456789012:role/my-role")
}

// checkTopicARN validates the ARN of an SNS topic. It accepts an empty value.
func checkTopicARN(value string) error {
	if value == "" {
		return nil
	}

	a, err := arn.Parse(value)
	isName := a.Resource != "" && onlyRunes(a.Resource, func(r rune) bool {
		return isAlphanumeric(r) || strings.ContainsRune("_-.", r)
	})

	if err != nil || !isPartition(a.Partition) || a.Service != "sns" || a.Region == "" || !isAccount(a.AccountID) ||
		!isName {
		return invalid("alarm topic ARN", value,
			"must be the ARN of an SNS topic, such as arn:aws:sns:us-east-1:123456789012:my-topic")
	}
	return nil
}

// checkTopicRegion checks that a topic is in region. It accepts an empty value.
func checkTopicRegion(topic, region string) error {
	if a, err := arn.Parse(topic); err == nil && a.Region != region {
		return invalid("alarm topic ARN", topic, "must be in the stack's region, "+region)
	}
	return nil
}

// checkBoundary validates the ARN or the name of a policy, which may include a
// path. It accepts an empty value.
func checkBoundary(value string) error {
	// AWS owns its managed policies, so their ARNs have aws in place of an
	// account.
	isOwner := func(account string) bool { return isAccount(account) || account == "aws" }
	if value == "" || isIAMResource(value, "policy/", isOwner) || isIAMPath(value, policyNames.maxName) {
		return nil
	}
	return invalid("permission boundary", value,
		"must be the name of a policy, or its ARN, such as arn:aws:iam::123456789012:policy/my-boundary")
}

// isIAMResource reports whether value is the ARN of a resource of that kind,
// "role/" or "policy/".
func isIAMResource(value, kind string, account func(string) bool) bool {
	a, err := arn.Parse(value)
	// IAM is global, so its ARNs have no region.
	if err != nil || !isPartition(a.Partition) || a.Service != "iam" || a.Region != "" || !account(a.AccountID) {
		return false
	}
	maxName := map[string]int{"role/": roleNames.maxName, "policy/": policyNames.maxName}[kind]
	name, ok := strings.CutPrefix(a.Resource, kind)
	return ok && isIAMPath(name, maxName)
}

// isIAMPath reports whether s is a name, optionally after a path.
func isIAMPath(s string, maxName int) bool {
	var name string
	// Only the last part is the name, and only that has a maximum length.
	for part := range strings.SplitSeq(s, "/") {
		if name = part; part == "" || !isIAMName(part) {
			return false
		}
	}
	return len(name) <= maxName
}

// isPartition reports whether s looks like a partition. It accepts partitions that
// AWS may add.
func isPartition(s string) bool {
	return s == "aws" || strings.HasPrefix(s, "aws-") && onlyRunes(s, func(r rune) bool {
		return r >= 'a' && r <= 'z' || r == '-'
	})
}

func isAccount(s string) bool {
	return len(s) == 12 && onlyRunes(s, func(r rune) bool { return r >= '0' && r <= '9' })
}

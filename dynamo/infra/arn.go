package infra

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/arn"
)

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

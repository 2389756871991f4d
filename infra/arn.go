package infra

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/arn"
)

// checkRoleARN takes no role at all.
func checkRoleARN(field, value string) error {
	if value == "" || isIAMResource(value, "role/", isAccount) {
		return nil
	}
	return invalid(field, value, "must be that of a role, such as arn:aws:iam::123456789012:role/my-role")
}

// checkTopicARN takes no topic at all.
func checkTopicARN(value string) error {
	if value == "" {
		return nil
	}
	a, err := arn.Parse(value)
	isName := a.Resource != "" && onlyRunes(a.Resource, func(r rune) bool { return isAlphanumeric(r) || strings.ContainsRune("_-.", r) })
	if err != nil || !isPartition(a.Partition) || a.Service != "sns" || a.Region == "" || !isAccount(a.AccountID) || !isName {
		return invalid("alarm topic ARN", value, "must be that of an SNS topic, such as arn:aws:sns:us-east-1:123456789012:my-topic")
	}
	return nil
}

// checkTopicRegion takes no topic at all.
func checkTopicRegion(topic, region string) error {
	if a, err := arn.Parse(topic); err == nil && a.Region != region {
		return invalid("alarm topic ARN", topic, "must be in the stack's region, "+region)
	}
	return nil
}

// checkBoundary takes no boundary at all, a policy's ARN, or its name, perhaps
// with a path.
func checkBoundary(value string) error {
	ofAccountOrAWS := func(account string) bool { return isAccount(account) || account == "aws" }
	if value == "" || isIAMResource(value, "policy/", ofAccountOrAWS) || isIAMPath(value, policyNaming.longestName) {
		return nil
	}
	return invalid("permission boundary", value, "must be the name of a policy, or its ARN, such as arn:aws:iam::123456789012:policy/my-boundary")
}

// isIAMResource tells whether value is the ARN of what begins with kind.
func isIAMResource(value, kind string, account func(string) bool) bool {
	a, err := arn.Parse(value)
	if err != nil || !isPartition(a.Partition) || a.Service != "iam" || a.Region != "" || !account(a.AccountID) {
		return false
	}
	longest := map[string]int{"role/": roleNaming.longestName, "policy/": policyNaming.longestName}[kind]
	name, ok := strings.CutPrefix(a.Resource, kind)
	return ok && isIAMPath(name, longest)
}

// isIAMPath tells whether s is a name, perhaps behind the names of folders.
func isIAMPath(s string, longest int) bool {
	var name string
	for part := range strings.SplitSeq(s, "/") {
		if name = part; part == "" || !isIAMName(part) {
			return false
		}
	}
	return len(name) <= longest
}

// isPartition takes those that do not exist yet.
func isPartition(s string) bool {
	return s == "aws" || strings.HasPrefix(s, "aws-") && onlyRunes(s, func(r rune) bool { return r >= 'a' && r <= 'z' || r == '-' })
}

func isAccount(s string) bool {
	return len(s) == 12 && onlyRunes(s, func(r rune) bool { return r >= '0' && r <= '9' })
}

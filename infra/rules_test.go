package infra_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// refusals are what CloudFormation says of the values of a stack before it makes
// anything.
func (s stack) refusals() (all []string) {
	for _, rule := range section(s.doc, "Rules") {
		if condition := at(rule, "RuleCondition"); condition != nil && s.value(condition) != true {
			continue
		}
		assertions, _ := at(rule, "Assertions").([]any)
		for _, a := range assertions {
			if s.value(at(a, "Assert")) != true {
				all = append(all, text(at(a, "AssertDescription")))
			}
		}
	}
	return slices.Sorted(slices.Values(all))
}

// A function that would be made without code is refused at once, with what to
// do; nothing else is.
func TestFunctionsWithoutCodeAreRefused(t *testing.T) {
	doc := ours(t)
	for _, values := range switched("EnableAggregator", "EnableProvisioner", "EnableIAM", "AggregatorRoleArn", "ProvisionerRoleArn", "CodeBucket", "CodeKey") {
		s := newStack(doc, "app", values)
		var want []string
		if values["CodeBucket"] == "" || values["CodeKey"] == "" {
			for id, says := range map[string]string{
				"AggregatorFunction":  "The aggregator needs CodeBucket and CodeKey; or set EnableAggregator to false.",
				"ProvisionerFunction": "The provisioner needs CodeBucket and CodeKey; or set EnableProvisioner to false.",
			} {
				if s.makes(section(doc, "Resources")[id]) {
					want = append(want, says)
				}
			}
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, s.refusals()); diff != "" {
			t.Errorf("%v (-want +got):\n%s", values, diff)
		}
	}
}

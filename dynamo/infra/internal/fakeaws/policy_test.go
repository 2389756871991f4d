package fakeaws

import (
	"strings"
	"testing"
)

func TestPolicyAllows(t *testing.T) {
	own := Condition{"ForAllValues:StringLike", "dynamodb:LeadingKeys", []string{"${" + namespaceTag + "}/*", "_/*"}}
	some := Condition{"Null", "dynamodb:LeadingKeys", []string{"false"}}
	not := Condition{"ForAllValues:StringNotLike", "dynamodb:LeadingKeys", []string{"_/*"}}
	proper := Condition{"StringNotEquals", namespaceTag, []string{"_"}}
	noLimits := Condition{"ForAllValues:StringNotLike", "dynamodb:Attributes", []string{"l_*"}}
	named := Condition{"Null", "dynamodb:Attributes", []string{"false"}}
	for _, test := range []struct {
		name       string
		conditions []Condition
		keys       string
		tag        string
		want       bool
		attributes string
	}{
		{"own", []Condition{own}, "a/x", "a", true, ""},
		{"own and shared", []Condition{own}, "a/x _/y", "a", true, ""},
		{"another namespace", []Condition{own}, "b/x", "a", false, ""},
		{"own and another namespace", []Condition{own}, "a/x b/x", "a", false, ""},
		{"a longer name", []Condition{own}, "ab/x", "a", false, ""},
		{"no slash", []Condition{own}, "a", "a", false, ""},
		{"no tag", []Condition{own}, "a/x", "", false, ""},
		{"no tag, shared", []Condition{own}, "_/x", "", true, ""},
		{"no keys", []Condition{own}, "", "a", true, ""},
		{"no keys, keys required", []Condition{own, some}, "", "a", false, ""},
		{"no key matches", []Condition{not}, "a/x b/x", "", true, ""},
		{"one key matches", []Condition{not}, "a/x _/x", "", false, ""},
		{"tag", []Condition{proper}, "", "a", true, ""},
		{"wrong tag", []Condition{proper}, "", "_", false, ""},
		{"missing tag is not the wrong one", []Condition{proper}, "", "", true, ""},
		{"attributes of a bucket", []Condition{noLimits, named}, "", "", true, "PK SK b_rpm_tk rf"},
		{"an attribute of limits", []Condition{noLimits, named}, "", "", false, "PK SK l_rpm_cp"},
		{"attributes of both", []Condition{noLimits, named}, "", "", false, "PK b_rpm_tk l_rpm_cp"},
		{"no attributes", []Condition{noLimits}, "", "", true, ""},
		{"no attributes, attributes required", []Condition{noLimits, named}, "", "", false, ""},
	} {
		p := Policy{{[]string{"dynamodb:Get*"}, []string{"T.Arn", "T.Arn/index/?"}, test.conditions}}
		a := Access{
			"dynamodb:GetItem", "T.Arn/index/1", strings.Fields(test.keys), strings.Fields(test.attributes),
			test.tag,
		}
		if got := p.Allows(a); got != test.want {
			t.Errorf("%s: allowed %t, want %t", test.name, got, test.want)
		}
		for _, other := range []Access{
			{"dynamodb:PutItem", a.Resource, a.Keys, a.Attributes, a.Tag},
			{a.Action, "T.Arn/index/10", a.Keys, a.Attributes, a.Tag},
			{a.Action, "U.Arn", a.Keys, a.Attributes, a.Tag},
		} {
			if p.Allows(other) {
				t.Errorf("%s: allows %v", test.name, other)
			}
		}
	}
}

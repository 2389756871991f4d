package infra_test

import (
	"strings"
	"testing"
)

// named are the properties that hold the name of a resource, and how long AWS
// lets it be.
var named = map[string]struct {
	property string
	most     int
}{
	"AWS::DynamoDB::Table":    {"TableName", 255},
	"AWS::Lambda::Function":   {"FunctionName", 64},
	"AWS::IAM::Role":          {"RoleName", 64},
	"AWS::IAM::ManagedPolicy": {"ManagedPolicyName", 128},
	"AWS::SQS::Queue":         {"QueueName", 80},
	"AWS::Logs::LogGroup":     {"LogGroupName", 512},
	"AWS::CloudWatch::Alarm":  {"AlarmName", 255},
}

// tooLong are the resources whose names are, in a stack with such a name.
func tooLong(t *testing.T, length int) (ids []string) {
	t.Helper()
	s := everything(t, strings.Repeat("a", length))
	for id, p := range s.resources() {
		n := named[text(at(section(s.doc, "Resources")[id], "Type"))]
		if len(text(p[n.property])) > n.most {
			ids = append(ids, id)
		}
	}
	return ids
}

// The longest name of a stack is 45 characters with the provisioner, 53 with the
// aggregator alone: then the names of the functions are the limit.
func TestNamesFit(t *testing.T) {
	for length, want := range map[int]string{45: "", 46: "ProvisionerFunction", 53: "ProvisionerFunction"} {
		if got := strings.Join(tooLong(t, length), " "); got != want {
			t.Errorf("in a stack with a name of %d characters these are too long: %s; want %q", length, got, want)
		}
	}
	if got := tooLong(t, 54); len(got) != 2 {
		t.Errorf("at 54 it should be both functions: %s", got)
	}
}

func TestNamesCanBeChosen(t *testing.T) {
	s := everything(t, "app")
	for id, suffix := range map[string]string{
		"AggregatorRole": "aggr", "AppRole": "app", "AdminRole": "admin", "ReadOnlyRole": "read", "ProvisionerRole": "prov",
		"AcquireOnlyPolicy": "acq", "FullAccessPolicy": "full", "ReadOnlyPolicy": "read",
		"NamespaceAcquirePolicy": "ns-acq", "NamespaceFullAccessPolicy": "ns-full", "NamespaceReadOnlyPolicy": "ns-read",
	} {
		property := named[text(at(section(s.doc, "Resources")[id], "Type"))].property
		if got, want := s.resources()[id][property], "app-"+suffix; got != want {
			t.Errorf("%s is called %v, want %s", id, got, want)
		}
		chosen := everything(t, "app")
		chosen.values[id+"Name"] = "chosen"
		if got := chosen.resources()[id][property]; got != "chosen" {
			t.Errorf("%s is called %v though %sName is chosen", id, got, id)
		}
	}
}

func TestBoundaryOfRoles(t *testing.T) {
	for boundary, want := range map[string]any{
		"":                               nil,
		"edge":                           "arn:aws:iam::123456789012:policy/edge",
		"arn:aws:iam::aws:policy/AnyOne": "arn:aws:iam::aws:policy/AnyOne",
	} {
		s := everything(t, "app")
		s.values["PermissionBoundary"] = boundary
		for _, id := range []string{"AggregatorRole", "AppRole", "AdminRole", "ReadOnlyRole", "ProvisionerRole"} {
			if got := s.resources()[id]["PermissionsBoundary"]; got != want {
				t.Errorf("%s with %q has the boundary %v, want %v", id, boundary, got, want)
			}
		}
	}
}

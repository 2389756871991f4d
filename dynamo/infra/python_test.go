package infra_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
)

// immutable lists the properties whose change replaces a resource. A resource with a
// custom name cannot even be replaced. Other properties of the table could change,
// but an update of a Python stack must not touch them.
var immutable = map[string][]string{
	"AWS::DynamoDB::Table": {
		"TableName", "KeySchema", "LocalSecondaryIndexes", "ImportSourceSpecification",
		"AttributeDefinitions", "GlobalSecondaryIndexes", "StreamSpecification", "BillingMode",
		"TimeToLiveSpecification",
	},
	"AWS::IAM::ManagedPolicy":         {"ManagedPolicyName", "Description", "Path"},
	"AWS::IAM::Role":                  {"RoleName", "Path"},
	"AWS::Lambda::Function":           {"FunctionName", "PackageType"},
	"AWS::Lambda::EventSourceMapping": {"EventSourceArn", "StartingPosition"},
	"AWS::SQS::Queue":                 {"QueueName", "FifoQueue"},
	"AWS::Logs::LogGroup":             {"LogGroupName"},
	"AWS::S3::Bucket":                 {"BucketName"},
	"AWS::CloudWatch::Alarm":          {"AlarmName"},
}

// A stack of the Python tool can be updated with this template. The tool prints its
// own template.
func TestPythonStackCanBeUpdated(t *testing.T) {
	python := os.Getenv("ZAEL_TEST_PYTHON")
	if python == "" {
		t.Skip("make interop runs this")
	}
	printed, err := exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(python), "zae-limiter"),
		"cfn-template").Output()
	if err != nil {
		t.Fatal(err)
	}
	updated := everything(t, "app")
	updated.Values["StreamStartingPosition"] = "LATEST"
	theirs := fakeaws.NewTemplate(fakeaws.ParseTemplate(t, printed), "app", updated.Values)
	ours, made := updated.Resources(), theirs.Resources()
	if all := fakeaws.Section(theirs.Doc, "Resources"); len(made) == 0 || len(made) != len(all) {
		t.Errorf("only %d of %d resources are compared", len(made), len(all))
	}
	for id, p := range made {
		kind := fakeaws.Text(fakeaws.Section(theirs.Doc, "Resources")[id], "Type")
		if got := fakeaws.Text(fakeaws.Section(updated.Doc, "Resources")[id], "Type"); got != kind {
			t.Errorf("%s is %q, was %s", id, got, kind)
		}
		for _, property := range immutable[kind] {
			if diff := cmp.Diff(p[property], ours[id][property]); diff != "" {
				t.Errorf("%s.%s (-theirs +ours):\n%s", id, property, diff)
			}
		}
		if immutable[kind] == nil {
			t.Errorf("no immutable properties for %s", kind)
		}
	}
	for name, o := range fakeaws.Section(theirs.Doc, "Outputs") {
		mine := fakeaws.Section(updated.Doc, "Outputs")[name]
		for _, part := range [][]string{{"Export", "Name"}, {"Value"}} {
			if diff := cmp.Diff(
				theirs.Value(fakeaws.At(o, part...)), updated.Value(fakeaws.At(mine, part...)),
			); diff != "" {
				t.Errorf("output %s.%v (-theirs +ours):\n%s", name, part, diff)
			}
		}
	}
	for name := range fakeaws.Section(theirs.Doc, "Parameters") {
		if _, known := fakeaws.Section(updated.Doc, "Parameters")[name]; !known {
			t.Errorf("there is no parameter %s, which a stack may have set", name)
		}
	}
}

// The same without the Python tool: a policy with another description is replaced.
func TestDescriptionsOfPoliciesStay(t *testing.T) {
	made := everything(t, "app").Resources()
	for id, want := range map[string]string{
		"AcquireOnlyPolicy":         "Rate limiter acquire-only access (read + transact write)",
		"FullAccessPolicy":          "Rate limiter full access (all operations)",
		"ReadOnlyPolicy":            "Rate limiter read-only access (monitoring)",
		"NamespaceAcquirePolicy":    "Namespace-scoped acquire-only access (read + update within namespace)",
		"NamespaceFullAccessPolicy": "Namespace-scoped full access (all operations within namespace)",
		"NamespaceReadOnlyPolicy":   "Namespace-scoped read-only access (monitoring within namespace)",
	} {
		if got := made[id]["Description"]; got != want {
			t.Errorf("%s: %v", id, got)
		}
	}
}

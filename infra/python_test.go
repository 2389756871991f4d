package infra_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/infra/internal/fakeaws"
)

// lasting are the properties that cannot change without a replacement. A thing
// that has a name cannot even be replaced: the new one would come first. The
// table's others could change, but a stack that is adopted leaves it alone.
var lasting = map[string][]string{
	"AWS::DynamoDB::Table": {
		"TableName", "KeySchema", "LocalSecondaryIndexes", "ImportSourceSpecification",
		"AttributeDefinitions", "GlobalSecondaryIndexes", "StreamSpecification", "BillingMode", "TimeToLiveSpecification",
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

// A stack that Python's tool has made can be updated with this template. That
// tool prints its own, and is asked for it where the tests beside Python run.
func TestStackOfPythonIsAdopted(t *testing.T) {
	python := os.Getenv("ZAEL_TEST_PYTHON")
	if python == "" {
		t.Skip("make interop runs this")
	}
	printed, err := exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(python), "zae-limiter"), "cfn-template").Output()
	if err != nil {
		t.Fatal(err)
	}
	adopting := everything(t, "app")
	adopting.Values["StreamStartingPosition"] = "LATEST"
	theirs := fakeaws.NewTemplate(fakeaws.ParseTemplate(t, printed), "app", adopting.Values)
	ours, made := adopting.Resources(), theirs.Resources()
	if all := fakeaws.Section(theirs.Doc, "Resources"); len(made) == 0 || len(made) != len(all) {
		t.Errorf("only %d of %d resources are compared", len(made), len(all))
	}
	for id, p := range made {
		kind := fakeaws.Text(fakeaws.Section(theirs.Doc, "Resources")[id], "Type")
		if got := fakeaws.Text(fakeaws.Section(adopting.Doc, "Resources")[id], "Type"); got != kind {
			t.Errorf("%s is %q, was %s", id, got, kind)
		}
		for _, property := range lasting[kind] {
			if diff := cmp.Diff(p[property], ours[id][property]); diff != "" {
				t.Errorf("%s.%s (-theirs +ours):\n%s", id, property, diff)
			}
		}
		if lasting[kind] == nil {
			t.Errorf("what of %s can change?", kind)
		}
	}
	for name, o := range fakeaws.Section(theirs.Doc, "Outputs") {
		mine := fakeaws.Section(adopting.Doc, "Outputs")[name]
		for _, part := range [][]string{{"Export", "Name"}, {"Value"}} {
			if diff := cmp.Diff(theirs.Value(fakeaws.At(o, part...)), adopting.Value(fakeaws.At(mine, part...))); diff != "" {
				t.Errorf("output %s.%v (-theirs +ours):\n%s", name, part, diff)
			}
		}
	}
	for name := range fakeaws.Section(theirs.Doc, "Parameters") {
		if _, known := fakeaws.Section(adopting.Doc, "Parameters")[name]; !known {
			t.Errorf("there is no parameter %s, which its owner may have set", name)
		}
	}
}

// What the test above needs Python for.
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

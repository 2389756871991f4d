package infra_test

import (
	"encoding/json"
	"encoding/xml"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo"
)

// A stack as an emulator understands the template is the same as these tests
// understand it. Left out are alarms, of which moto makes none.
func TestDeployed(t *testing.T) {
	t.Parallel()
	e := newEmulator(t)
	doc := ours(t)
	for _, s := range []stack{
		newStack(doc, "defaults", map[string]string{"CodeBucket": "code", "CodeKey": "key"}),
		newStack(doc, "least", map[string]string{"EnableAggregator": "false", "EnableProvisioner": "false", "EnableIAM": "false", "EnableAlarms": "false"}),
		everything(t, "everything"),
	} {
		t.Run(s.name, func(t *testing.T) {
			outputs, resources := e.create(s)
			made := s.resources()
			maps.DeleteFunc(made, func(id string, _ tree) bool { return strings.HasSuffix(id, "Alarm") })
			if diff := cmp.Diff(slices.Sorted(maps.Keys(made)), slices.Sorted(maps.Keys(resources))); diff != "" {
				t.Errorf("resources (-ours +moto's):\n%s", diff)
			}
			for name, o := range section(doc, "Outputs") {
				_, there := outputs[name]
				if there != (s.makes(o) && !strings.HasSuffix(name, "AlarmName")) {
					t.Errorf("output %s: made %t, there %t", name, s.makes(o), there)
				}
			}
			e.checkTable(t, s.name)
			for id := range made {
				if strings.HasSuffix(id, "Policy") {
					e.checkPolicy(t, made[id]["PolicyDocument"], resources[id], outputs)
				}
			}
			if resources["AggregatorFunction"] != "" {
				e.checkAggregator(t, made, resources, outputs)
			}
		})
	}
}

// checkTable compares the table of a stack with the one that package dynamo
// makes for tests. moto ignores what a template says about expiry.
func (e *emulator) checkTable(t *testing.T, name string) {
	t.Helper()
	other := "test-" + name
	if err := dynamo.CreateTable(t.Context(), other, &dynamo.Options{AWS: &e.config}); err != nil {
		t.Fatal(err)
	}
	client := dynamodb.NewFromConfig(e.config)
	var shapes []any
	for _, table := range []string{name, other} {
		out, err := client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &table})
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(out.Table.AttributeDefinitions, func(a, b types.AttributeDefinition) int {
			return strings.Compare(*a.AttributeName, *b.AttributeName)
		})
		indexes := map[string]any{}
		for _, i := range out.Table.GlobalSecondaryIndexes {
			indexes[*i.IndexName] = []any{i.KeySchema, i.Projection.ProjectionType}
		}
		shapes = append(shapes, asJSON(t, []any{
			out.Table.KeySchema, out.Table.AttributeDefinitions, indexes, out.Table.StreamSpecification, out.Table.BillingModeSummary.BillingMode,
		}))
	}
	if diff := cmp.Diff(shapes[1], shapes[0]); diff != "" {
		t.Errorf("table (-dynamo's +the stack's):\n%s", diff)
	}
}

// checkPolicy compares a policy as it is stored with the one that is judged by
// TestPermissions.
func (e *emulator) checkPolicy(t *testing.T, doc any, arn string, outputs map[string]string) {
	t.Helper()
	var answer struct {
		Document string `xml:"GetPolicyVersionResult>PolicyVersion>Document"`
	}
	if err := xml.Unmarshal([]byte(e.query("iam", "GetPolicyVersion", "PolicyArn", arn, "VersionId", "v1")), &answer); err != nil {
		t.Fatal(err)
	}
	stored, err := url.QueryUnescape(answer.Document)
	if err != nil {
		t.Fatal(err)
	}
	const most = 6144
	if len(stored) > most {
		t.Errorf("%s has %d characters, of at most %d", arn, len(stored), most)
	}
	var got any
	if err := json.Unmarshal([]byte(stored), &got); err != nil {
		t.Fatalf("%v: %s", err, stored)
	}
	if diff := cmp.Diff(asJSON(t, spelled(doc, outputs)), got); diff != "" {
		t.Errorf("%s (-judged +stored):\n%s", arn, diff)
	}
}

// spelled puts ARNs in the place of what stands for them.
func spelled(v any, outputs map[string]string) any {
	switch v := v.(type) {
	case string:
		return strings.NewReplacer("RateLimitsTable.Arn", outputs["TableArn"], "RateLimitsTable.StreamArn", outputs["StreamArn"]).Replace(v)
	case []any:
		list := []any{}
		for _, e := range v {
			list = append(list, spelled(e, outputs))
		}
		return list
	case tree:
		m := tree{}
		for name, e := range v {
			m[name] = spelled(e, outputs)
		}
		return m
	}
	return v
}

// asJSON is v as a reader of its JSON sees it.
func asJSON(tb testing.TB, v any) (read any) {
	tb.Helper()
	written, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(written, &read)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return read
}

// checkAggregator looks at the function, its queue and what feeds it.
func (e *emulator) checkAggregator(t *testing.T, made map[string]tree, resources, outputs map[string]string) {
	t.Helper()
	var function struct{ Configuration tree }
	if err := json.Unmarshal([]byte(e.send("lambda", http.MethodGet, "/2015-03-31/functions/"+resources["AggregatorFunction"], "")), &function); err != nil {
		t.Fatal(err)
	}
	if c := function.Configuration; c["Runtime"] != "provided.al2023" || c["Handler"] != "bootstrap" {
		t.Errorf("function: %v", c)
	}
	want, _ := spelled(at(made["AggregatorFunction"], "Environment", "Variables"), outputs).(tree)
	want["TABLE_NAME"], want["ARCHIVE_BUCKET_NAME"] = outputs["TableName"], outputs["AuditArchiveBucketName"]
	if diff := cmp.Diff(any(want), at(function.Configuration, "Environment", "Variables")); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	attributes := e.query("sqs", "GetQueueAttributes", "QueueUrl", outputs["AggregatorDLQUrl"], "AttributeName.1", "All")
	for _, value := range []string{"<Value>1209600</Value>", "<Value>300</Value>"} {
		if !strings.Contains(attributes, value) {
			t.Errorf("the queue has no %s: %s", value, attributes)
		}
	}
	var mappings struct{ EventSourceMappings []tree }
	if err := json.Unmarshal([]byte(e.send("lambda", http.MethodGet, "/2015-03-31/event-source-mappings/?FunctionName="+resources["AggregatorFunction"], "")), &mappings); err != nil {
		t.Fatal(err)
	}
	if all := mappings.EventSourceMappings; len(all) != 1 || all[0]["EventSourceArn"] != outputs["StreamArn"] || all[0]["StartingPosition"] != "TRIM_HORIZON" {
		t.Errorf("mappings: %v", all)
	}
}

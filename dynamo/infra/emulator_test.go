package infra_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
)

// emulator is a client of moto, with the code of a function in bucket "code".
type emulator struct {
	*testing.T
	url    string
	config aws.Config
	stacks *cloudformation.Client
}

func newEmulator(t *testing.T) *emulator {
	t.Helper()
	wires := &http.Transport{}
	t.Cleanup(wires.CloseIdleConnections)
	e := &emulator{T: t, url: moto(t)}
	e.config = aws.Config{
		Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		BaseEndpoint: &e.url, HTTPClient: &http.Client{Transport: wires},
	}
	e.stacks = cloudformation.NewFromConfig(e.config)
	e.send("s3", http.MethodPut, "/code", "")
	e.send("s3", http.MethodPut, "/code/key", zipped(t))
	return e
}

// zipped returns a zip with a bootstrap.
func zipped(tb testing.TB) string {
	tb.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create("bootstrap")
	if err == nil {
		_, err = w.Write([]byte("not a program"))
	}
	if err := errors.Join(err, z.Close()); err != nil {
		tb.Fatal(err)
	}
	return b.String()
}

// send sends a request without the SDK of the service. moto identifies services by
// the signature, which it does not check.
func (e *emulator) send(service, method, path, body string) string {
	e.Helper()
	request, err := http.NewRequestWithContext(e.Context(), method, e.url+path, strings.NewReader(body))
	if err != nil {
		e.Fatal(err)
	}
	request.Header.Set("Authorization",
		"AWS4-HMAC-SHA256 Credential=test/20260504/us-east-1/"+service+"/aws4_request, SignedHeaders=host, Signature=0")
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := e.config.HTTPClient.Do(request)
	if err != nil {
		e.Fatal(err)
	}
	answer, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil || response.StatusCode != http.StatusOK {
		e.Fatalf("%s %s %s: %d, %v, %s", service, method, path, response.StatusCode, err, answer)
	}
	return string(answer)
}

// query sends a request to a query service.
func (e *emulator) query(service, action string, arguments ...string) string {
	e.Helper()
	form := url.Values{"Action": {action}}
	for i := 0; i < len(arguments); i += 2 {
		form.Set(arguments[i], arguments[i+1])
	}
	return e.send(service, http.MethodPost, "/", form.Encode())
}

// create creates a stack and returns its outputs and the physical IDs of its
// resources, without alarms, which moto does not support.
func (e *emulator) create(s fakeaws.Template) (outputs, resources map[string]string) {
	e.Helper()
	in := &cloudformation.CreateStackInput{
		StackName: &s.Name, TemplateBody: aws.String(string(infra.Template())),
		Capabilities: []cfn.Capability{cfn.CapabilityCapabilityNamedIam},
	}
	for name, value := range s.Values {
		in.Parameters = append(in.Parameters, cfn.Parameter{ParameterKey: &name, ParameterValue: &value})
	}
	if _, err := e.stacks.CreateStack(e.Context(), in); err != nil {
		e.Fatal(err)
	}
	described, err := e.stacks.DescribeStacks(e.Context(), &cloudformation.DescribeStacksInput{StackName: &s.Name})
	if err != nil || described.Stacks[0].StackStatus != cfn.StackStatusCreateComplete {
		e.Fatal(fmt.Errorf("%v, %w", described, err))
	}
	listed, err := e.stacks.ListStackResources(e.Context(), &cloudformation.ListStackResourcesInput{StackName: &s.Name})
	if err != nil {
		e.Fatal(err)
	}
	outputs, resources = map[string]string{}, map[string]string{}
	for _, o := range described.Stacks[0].Outputs {
		outputs[*o.OutputKey] = aws.ToString(o.OutputValue)
	}
	for _, r := range listed.StackResourceSummaries {
		if id := aws.ToString(r.LogicalResourceId); id != "" { // it lists omitted resources, without a name
			resources[id] = aws.ToString(r.PhysicalResourceId)
		}
	}
	return outputs, resources
}

// moto evaluates the template like fakeaws. The test leaves out alarms, which moto
// does not support.
func TestTemplateOnMoto(t *testing.T) {
	t.Parallel()
	e := newEmulator(t)
	doc := template(t)
	for _, s := range []fakeaws.Template{
		fakeaws.NewTemplate(doc, "defaults", map[string]string{"CodeBucket": "code", "CodeKey": "key"}),
		fakeaws.NewTemplate(doc, "least", map[string]string{
			"EnableAggregator": "false", "EnableProvisioner": "false", "EnableIAM": "false",
			"EnableAlarms": "false",
		}),
		everything(t, "everything"),
	} {
		t.Run(s.Name, func(t *testing.T) {
			outputs, resources := e.create(s)
			made := s.Resources()
			maps.DeleteFunc(made, func(id string, _ fakeaws.Tree) bool { return strings.HasSuffix(id, "Alarm") })
			if diff := cmp.Diff(slices.Sorted(maps.Keys(made)), slices.Sorted(maps.Keys(resources))); diff != "" {
				t.Errorf("resources (-ours +moto's):\n%s", diff)
			}
			for name, o := range fakeaws.Section(doc, "Outputs") {
				_, there := outputs[name]
				if there != (s.Includes(o) && !strings.HasSuffix(name, "AlarmName")) {
					t.Errorf("output %s: made %t, there %t", name, s.Includes(o), there)
				}
			}
			e.checkTable(t, s.Name)
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

// checkTable compares the table of a stack with that of dynamo.CreateTable. moto
// ignores the TTL specification of a template.
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
			out.Table.KeySchema, out.Table.AttributeDefinitions, indexes, out.Table.StreamSpecification,
			out.Table.BillingModeSummary.BillingMode,
		}))
	}
	if diff := cmp.Diff(shapes[1], shapes[0]); diff != "" {
		t.Errorf("table (-dynamo's +the stack's):\n%s", diff)
	}
}

// checkPolicy checks that a stored policy is equal to doc, which TestPermissions checks.
func (e *emulator) checkPolicy(t *testing.T, doc any, arn string, outputs map[string]string) {
	t.Helper()
	var answer struct {
		Document string `xml:"GetPolicyVersionResult>PolicyVersion>Document"`
	}
	if err := xml.Unmarshal(
		[]byte(e.query("iam", "GetPolicyVersion", "PolicyArn", arn, "VersionId", "v1")), &answer,
	); err != nil {
		t.Fatal(err)
	}
	stored, err := url.QueryUnescape(answer.Document)
	if err != nil {
		t.Fatal(err)
	}
	const maxPolicy = 6144
	if len(stored) > maxPolicy {
		t.Errorf("%s has %d characters, of at most %d", arn, len(stored), maxPolicy)
	}
	var got any
	if err := json.Unmarshal([]byte(stored), &got); err != nil {
		t.Fatalf("%v: %s", err, stored)
	}
	if diff := cmp.Diff(asJSON(t, replaceARNs(doc, outputs)), got); diff != "" {
		t.Errorf("%s (-want +stored):\n%s", arn, diff)
	}
}

// replaceARNs replaces the names of ARNs by the values in outputs.
func replaceARNs(v any, outputs map[string]string) any {
	switch v := v.(type) {
	case string:
		return strings.NewReplacer("RateLimitsTable.Arn", outputs["TableArn"], "RateLimitsTable.StreamArn",
			outputs["StreamArn"]).Replace(v)
	case []any:
		list := []any{}
		for _, e := range v {
			list = append(list, replaceARNs(e, outputs))
		}
		return list
	case fakeaws.Tree:
		m := fakeaws.Tree{}
		for name, e := range v {
			m[name] = replaceARNs(e, outputs)
		}
		return m
	}
	return v
}

// asJSON returns v after a round trip through JSON.
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

// checkAggregator checks the function, its queue and its event source mapping.
func (e *emulator) checkAggregator(t *testing.T, made map[string]fakeaws.Tree, resources, outputs map[string]string) {
	t.Helper()
	var function struct{ Configuration fakeaws.Tree }
	if err := json.Unmarshal(
		[]byte(e.send("lambda", http.MethodGet, "/2015-03-31/functions/"+resources["AggregatorFunction"], "")),
		&function,
	); err != nil {
		t.Fatal(err)
	}
	if c := function.Configuration; c["Runtime"] != "provided.al2023" || c["Handler"] != "bootstrap" {
		t.Errorf("function: %v", c)
	}
	want, _ := replaceARNs(fakeaws.At(made["AggregatorFunction"], "Environment", "Variables"), outputs).(fakeaws.Tree)
	want["TABLE_NAME"], want["ARCHIVE_BUCKET_NAME"] = outputs["TableName"], outputs["AuditArchiveBucketName"]
	if diff := cmp.Diff(any(want), fakeaws.At(function.Configuration, "Environment", "Variables")); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	attributes := e.query("sqs", "GetQueueAttributes", "QueueUrl", outputs["AggregatorDLQUrl"], "AttributeName.1",
		"All")
	for _, value := range []string{"<Value>1209600</Value>", "<Value>300</Value>"} {
		if !strings.Contains(attributes, value) {
			t.Errorf("the queue has no %s: %s", value, attributes)
		}
	}
	var mappings struct{ EventSourceMappings []fakeaws.Tree }
	if err := json.Unmarshal(
		[]byte(e.send("lambda", http.MethodGet,
			"/2015-03-31/event-source-mappings/?FunctionName="+resources["AggregatorFunction"], "")),
		&mappings,
	); err != nil {
		t.Fatal(err)
	}
	if all := mappings.EventSourceMappings; len(all) != 1 || all[0]["EventSourceArn"] != outputs["StreamArn"] ||
		all[0]["StartingPosition"] != "TRIM_HORIZON" {
		t.Errorf("mappings: %v", all)
	}
}

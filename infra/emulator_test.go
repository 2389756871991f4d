package infra_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/zeroae/zae-limiter-go/infra"
)

// emulator is moto, with the code of a function in the bucket "code".
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

// send sends a request to a service whose SDK is not needed for anything else.
// moto tells services apart by the signature, which it does not check.
func (e *emulator) send(service, method, path, body string) string {
	e.Helper()
	request, err := http.NewRequestWithContext(e.Context(), method, e.url+path, strings.NewReader(body))
	if err != nil {
		e.Fatal(err)
	}
	request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260504/us-east-1/"+service+"/aws4_request, SignedHeaders=host, Signature=0")
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

// query asks one of the services that take forms.
func (e *emulator) query(service, action string, arguments ...string) string {
	e.Helper()
	form := url.Values{"Action": {action}}
	for i := 0; i < len(arguments); i += 2 {
		form.Set(arguments[i], arguments[i+1])
	}
	return e.send(service, http.MethodPost, "/", form.Encode())
}

// create makes a stack and returns its outputs and the physical IDs of its
// resources, alarms excepted, which moto does not make.
func (e *emulator) create(s stack) (outputs, resources map[string]string) {
	e.Helper()
	in := &cloudformation.CreateStackInput{
		StackName: &s.name, TemplateBody: aws.String(string(infra.Template())), Capabilities: []types.Capability{types.CapabilityCapabilityNamedIam},
	}
	for name, value := range s.values {
		in.Parameters = append(in.Parameters, types.Parameter{ParameterKey: &name, ParameterValue: &value})
	}
	if _, err := e.stacks.CreateStack(e.Context(), in); err != nil {
		e.Fatal(err)
	}
	described, err := e.stacks.DescribeStacks(e.Context(), &cloudformation.DescribeStacksInput{StackName: &s.name})
	if err != nil || described.Stacks[0].StackStatus != types.StackStatusCreateComplete {
		e.Fatal(fmt.Errorf("%v, %w", described, err))
	}
	listed, err := e.stacks.ListStackResources(e.Context(), &cloudformation.ListStackResourcesInput{StackName: &s.name})
	if err != nil {
		e.Fatal(err)
	}
	outputs, resources = map[string]string{}, map[string]string{}
	for _, o := range described.Stacks[0].Outputs {
		outputs[*o.OutputKey] = aws.ToString(o.OutputValue)
	}
	for _, r := range listed.StackResourceSummaries {
		if id := aws.ToString(r.LogicalResourceId); id != "" { // it lists what it left out, too, without a name
			resources[id] = aws.ToString(r.PhysicalResourceId)
		}
	}
	return outputs, resources
}

package infra_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
)

// program builds the code of the functions, once for all tests, and returns its path.
// The command is in a module above this one, so the tests run it as AWS Lambda does.
var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "zae-limiter-function")
	build := exec.CommandContext(context.Background(), "go", "build", "-o", path, "./zae-limiter-function")
	build.Dir = filepath.Join("..", "..", "cmd")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// service is the runtime API of AWS Lambda. It delivers one event and receives the
// response.
type service struct {
	*httptest.Server
	events   chan string
	answered chan string // "response" or "error", and the answer
}

func newService(w *world) *service {
	s := &service{events: make(chan string, 1), answered: make(chan string, 2)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", s.next)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/1/{what}", s.answer)
	mux.HandleFunc("PUT /stack", func(http.ResponseWriter, *http.Request) {}) // the response URL for CloudFormation
	s.Server = httptest.NewServer(mux)
	w.Cleanup(s.Close)
	return s
}

func (s *service) next(out http.ResponseWriter, r *http.Request) {
	select {
	case <-r.Context().Done():
	case event := <-s.events:
		out.Header().Set("Lambda-Runtime-Aws-Request-Id", "1")
		out.Header().Set("Lambda-Runtime-Deadline-Ms", fmt.Sprint(time.Now().Add(5*time.Minute).UnixMilli()))
		_, _ = io.WriteString(out, event)
	}
}

func (s *service) answer(out http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	out.WriteHeader(http.StatusAccepted)
	if err != nil {
		body = []byte(err.Error())
	}
	s.answered <- r.PathValue("what") + " " + string(body)
}

// invoke runs a function of the template for one event, in a new process with the
// environment of the template. {answer} in the event is the response URL for
// CloudFormation. It records the calls, and checks that the response contains want.
func (w *world) invoke(id, event, want string) {
	w.Helper()
	path, err := program()
	w.ok(err)
	s := newService(w)
	s.events <- strings.ReplaceAll(event, "{answer}", s.URL+"/stack")
	ctx, stop := context.WithCancel(w.Context())
	var log bytes.Buffer
	process := exec.CommandContext(ctx, path)
	process.Env = append(w.environment(id), "AWS_LAMBDA_RUNTIME_API="+strings.TrimPrefix(s.URL, "http://"))
	process.Stdout, process.Stderr = &log, &log
	w.ok(process.Start())
	ended := make(chan struct{})
	go func() {
		err := process.Wait()
		s.answered <- fmt.Sprint("no answer: ", err)
		close(ended)
	}()
	got := <-s.answered
	stop()
	<-ended
	if !strings.HasPrefix(got, "response ") || !strings.Contains(got+log.String(), want) {
		w.Fatalf("%s: %s, want %s\n%s\n%s", id, got, want, event, &log)
	}
}

// environment returns the environment of a function in the template, with the table
// of w and with endpoints that record calls.
func (w *world) environment(id string) (all []string) {
	w.Helper()
	variables, _ := fakeaws.At(everything(w.T, "app").Resources()[id], "Environment", "Variables").(fakeaws.Tree)
	for name, value := range variables {
		if name != "TABLE_NAME" {
			all = append(all, name+"="+fakeaws.Text(value))
		}
	}
	return append(all,
		"TABLE_NAME="+w.table, "AWS_ENDPOINT_URL="+w.proxy(w.engine), "AWS_ENDPOINT_URL_S3="+w.proxy(w.archive.URL()),
		"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test")
}

// proxy returns the URL of a proxy for address that records calls.
func (w *world) proxy(address string) string {
	w.Helper()
	to, err := url.Parse(address)
	w.ok(err)
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, Transport: &w.Recorder,
	})
	w.Cleanup(server.Close)
	return server.URL
}

// streamOperations returns the operations of the aggregator.
func streamOperations() []operation {
	return []operation{
		// usage is in the partitions of buckets, so the acquire tiers can write it
		{"Aggregate", acquiring + " aggr", aggregate},
		{"Archive", " aggr", archive},
	}
}

// aggregate counts and refills an empty bucket.
func aggregate(w *world) {
	now := time.Now()
	w.consume(w.others, "counted", now.Add(-time.Minute))
	w.consume(w.others, "counted", now.Add(-20*time.Second))
	w.aggregate("INSERT", "NewImage", now, w.stored("ENTITY#counted", "#BUCKET#"),
		`"snapshots_updated":3,"refills_written":1`)
}

// archive archives an expired event.
func archive(w *world) {
	w.aggregate("REMOVE", "OldImage", noon, w.stored("AUDIT#world", "#AUDIT#"),
		`"events_archived":1,"s3_objects_created":1`)
}

// aggregate invokes the aggregator with one record, and checks its log.
func (w *world) aggregate(event, image string, at time.Time, item map[string]types.AttributeValue, want string) {
	w.Helper()
	raw, err := json.Marshal(fakeaws.Tree{"Records": []any{fakeaws.Tree{
		"eventName": event, "eventSourceARN": "arn:aws:dynamodb:us-east-1:123456789012:table/app/stream/2026-05-04T12:00:00.000",
		"dynamodb": fakeaws.Tree{"ApproximateCreationDateTime": at.Unix(), "SequenceNumber": "1", image: w.image(item)},
	}}})
	w.ok(err)
	w.invoke("AggregatorFunction", string(raw), want)
}

// stored returns the first item of the namespace with these keys.
func (w *world) stored(pk, sk string) map[string]types.AttributeValue {
	w.Helper()
	found, err := w.client().Query(w.Context(), &dynamodb.QueryInput{
		TableName: &w.table, ConsistentRead: aws.Bool(true), Limit: aws.Int32(1),
		KeyConditionExpression: aws.String("PK = :pk AND begins_with(SK, :sk)"),
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":pk": &types.AttributeValueMemberS{Value: w.NamespaceID + "/" + pk},
			":sk": &types.AttributeValueMemberS{Value: sk},
		},
	})
	w.ok(err)
	if len(found.Items) == 0 {
		w.Fatalf("there is no item %s, %s", pk, sk)
	}
	return found.Items[0]
}

// image returns an item in the format of a stream event.
func (w *world) image(item map[string]types.AttributeValue) fakeaws.Tree {
	w.Helper()
	image := fakeaws.Tree{}
	for name, v := range item {
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			image[name] = fakeaws.Tree{"S": v.Value}
		case *types.AttributeValueMemberN:
			image[name] = fakeaws.Tree{"N": v.Value}
		case *types.AttributeValueMemberBOOL:
			image[name] = fakeaws.Tree{"BOOL": v.Value}
		case *types.AttributeValueMemberNULL:
			image[name] = fakeaws.Tree{"NULL": v.Value}
		case *types.AttributeValueMemberM:
			image[name] = fakeaws.Tree{"M": w.image(v.Value)}
		default:
			w.Fatalf("%s is a %T", name, v)
		}
	}
	return image
}

// provisionOperations returns the operations of the provisioner, called by stacks and
// by programs. Each changes one level at a time, so that the calls are deterministic.
func provisionOperations() []operation {
	const resources = `"Resources": {"gpt-4": {"Limits": {"rpm": {"Capacity": "%d"}}}}`
	const entities = `"Entities": {"key": {"Resources": {"gpt-4": {"Limits": {"rpm": {"Capacity": "%d"}}}}}}`
	created := `"Namespace": "declared", "System": {"OnUnavailable": "allow"}, ` + fmt.Sprintf(resources+", "+entities,
		500, 100)
	return []operation{
		{"Managed", reading + applying, func(w *world) {
			_, _, _, err := w.repo.Managed(w.Context())
			w.ok(err)
		}},
		{"SetManaged", managing + applying, func(w *world) {
			w.ok(w.repo.SetManaged(w.Context(), noon, "", "hash", "", []limiter.Scope{{Resource: gpt}}))
		}},
		{"ReplaceConfig", managing + applying, func(w *world) {
			cfg := limiter.Config{OnUnavailable: limiter.Allow, Limits: []limiter.Limit{limiter.PerMinute("rpm", 100)}}
			w.ok(w.repo.ReplaceConfig(w.Context(), cfg, w.event()))
		}},
		{"Provision: create", managing + applying, func(w *world) {
			w.declared()
			w.provision("Create", "", created, `"SUCCESS"`)
		}},
		{"Provision: plan", reading + applying, func(w *world) {
			w.declared()
			w.invoke("ProvisionerFunction", `{"manifest": {"namespace": "declared"}}`, `"planned"`)
		}},
		{"Provision: a command with an id", managing + applying, func(w *world) {
			w.invoke("ProvisionerFunction",
				fmt.Sprintf(`{"action": "apply", "table_name": %q, "namespace_id": %q, "manifest": {
				"system": {"on_unavailable": "allow"}, "resources": {"gpt-4": {"limits": {"rpm": {"capacity": 600}}}},
				"entities": {"key": {"resources": {"gpt-4": {"limits": {"rpm": {"capacity": 100}}}}}}}}`, w.table,
					w.declared()), `"updated":1,"deleted":0,"errors":[]`)
		}},
		{"Provision: update", managing + applying, func(w *world) {
			id := w.declared()
			w.consume(w.connect(w.config(w.Next), "declared"), "key", time.Now())
			w.provision("Update", w.table+"/"+id+"/limits-provisioner",
				fmt.Sprintf(`"NamespaceId": %q, `+resources+", "+entities, id, 700, 200), `"SUCCESS"`)
		}},
		{"Provision: delete", managing + applying, func(w *world) {
			w.provision("Delete", w.table+"/"+w.declared()+"/limits-provisioner", created, `"SUCCESS"`)
		}},
		{"Provision: delete, the namespace is gone", reading + applying, func(w *world) {
			w.provision("Delete", w.table+"/gone/limits-provisioner", created, `"SUCCESS"`)
		}},
		{"Provision: create, there is no such namespace", reading + applying, func(w *world) {
			w.provision("Create", "", `"Namespace": "nowhere"`, "namespace register nowhere")
		}},
	}
}

// Every method of a store of manifests has an operation.
func TestOperationsCoverManifestStore(t *testing.T) {
	for method := range reflect.TypeFor[limiter.ManagedStore]().Methods() {
		if !slices.ContainsFunc(operations(), func(o operation) bool { return o.name == method.Name }) {
			t.Errorf("%s has no operation", method.Name)
		}
	}
}

// declared registers the namespace for provisioned limits, records its calls and
// returns its ID.
func (w *world) declared() string {
	w.Helper()
	ns, err := w.others.RegisterNamespace(w.Context(), noon, "declared")
	w.ok(err)
	w.NamespaceID = ns.ID
	return ns.ID
}

// provision invokes the provisioner as CloudFormation does.
func (w *world) provision(request, physical, properties, want string) {
	w.Helper()
	w.invoke("ProvisionerFunction", fmt.Sprintf(`{"RequestType": %q, "ResponseURL": "{answer}", "StackId": "arn:aws:cloudformation:limits",
		"RequestId": "1", "LogicalResourceId": "Limits", "PhysicalResourceId": %q, "ResourceProperties": {"ServiceToken": "arn", %s}}`,
		request, physical, properties), want)
}

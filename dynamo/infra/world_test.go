package infra_test

import (
	"fmt"
	"iter"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
	"github.com/zeroae/zae-limiter-go/internal/engine/s3"
)

// world is a table on which operations are recorded.
type world struct {
	*testing.T
	engine  string
	table   string
	others  *dynamo.Repository // prepares an operation, without recording
	repo    *dynamo.Repository // is recorded, and has empty caches
	archive *s3.Server
	fakeaws.Recorder
	events int
}

const gpt = "gpt-4"

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// newWorld returns a world with a table in DynamoDB Local. Without the programs for
// that it skips the test, or fails it in CI.
func newWorld(t *testing.T) *world {
	t.Helper()
	wires := &http.Transport{}
	t.Cleanup(wires.CloseIdleConnections)
	w := &world{
		T: t, engine: engine(t), table: "recorded-" + fmt.Sprint(time.Now().UnixNano()),
		Recorder: fakeaws.Recorder{Next: wires}, archive: s3.Start(),
	}
	t.Cleanup(w.archive.Stop)
	w.ok(dynamo.CreateTable(t.Context(), w.table, &dynamo.Options{AWS: w.config(wires)}))
	w.others = w.connect(w.config(wires), "")
	w.set(limiter.Scope{}, limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 10_000))
	return w
}

func (w *world) config(wires http.RoundTripper) *aws.Config {
	return &aws.Config{
		Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		BaseEndpoint: aws.String(w.engine), HTTPClient: &http.Client{Transport: wires},
	}
}

// client returns a client that is not recorded.
func (w *world) client() *dynamodb.Client { return dynamodb.NewFromConfig(*w.config(w.Next)) }

func (w *world) connect(cfg *aws.Config, namespace string) *dynamo.Repository {
	w.Helper()
	repo, err := dynamo.Connect(w.Context(), w.table, &dynamo.Options{
		AWS: cfg, Namespace: namespace, Timeout: time.Minute, PurgeWait: -1, SwitchWait: -1,
	})
	w.ok(err)
	return repo
}

// record returns the calls of an operation.
func (w *world) record(o operation) []fakeaws.Call {
	w.Helper()
	w.NamespaceID = w.others.NamespaceID()
	w.repo = w.connect(w.config(&w.Recorder), "")
	w.Take(w.T)
	o.run(w)
	w.ok(w.repo.Close())
	return w.Take(w.T)
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// event returns an audit event with a new ID.
func (w *world) event() limiter.AuditEvent {
	w.events++
	return limiter.AuditEvent{ID: fmt.Sprintf("01%024d", w.events), Action: "tried", Entity: "world", At: noon}
}

func (w *world) set(s limiter.Scope, limits ...limiter.Limit) {
	w.Helper()
	w.ok(w.others.SetConfig(w.Context(), limiter.Config{Scope: s, Limits: limits}, w.event()))
}

func (w *world) create(e limiter.Entity) {
	w.Helper()
	w.ok(w.others.CreateEntity(w.Context(), e, w.event()))
}

// consume consumes 60 requests and returns the outcome.
func (w *world) consume(repo *dynamo.Repository, entity string, at time.Time) limiter.Outcome {
	w.Helper()
	out, err := repo.Consume(w.Context(), at, limiter.Charge{
		Entity: entity, Resource: gpt, Amounts: limiter.Tokens("rpm", 60),
	})
	w.ok(err)
	return out
}

// drain reads a sequence to its end.
func drain[T any](w *world, all iter.Seq2[T, error]) {
	w.Helper()
	for _, err := range all {
		w.ok(err)
	}
}

package lambda

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/engine/dynamodb"
	"github.com/zeroae/zae-limiter-go/internal/engine/s3"
)

var shared = dynamodb.Share()

func TestMain(m *testing.M) { os.Exit(shared.Stop(m.Run())) }

// rig holds a table, its archive and the environment of the function under test.
type rig struct {
	*testing.T
	table, first, tenant string // the table and the IDs of its namespaces
	repo                 *dynamo.Repository
	s3                   *s3.Server
	log                  bytes.Buffer
	env                  map[string]string
	fails                atomic.Pointer[func(op, body string) bool] // the requests that fail
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t, table: "function-" + strings.ToLower(rand.Text()), s3: s3.Start()}
	t.Cleanup(r.s3.Stop)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": r.proxy(), "AWS_ENDPOINT_URL_S3": r.s3.URL(), "AWS_REGION": "us-east-1",
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_MAX_ATTEMPTS": "1",
	} {
		t.Setenv(name, value)
	}
	r.env = map[string]string{
		"TABLE_NAME": r.table, "ENABLE_ARCHIVAL": "True", "ARCHIVE_BUCKET_NAME": "archive",
		"LOG_LEVEL": "DEBUG",
	}
	r.ok(dynamo.CreateTable(t.Context(), r.table, nil))
	repo, err := dynamo.Connect(t.Context(), r.table, nil)
	r.ok(err)
	t.Cleanup(func() { _ = repo.Close() })
	lim, err := limiter.New(repo, nil)
	r.ok(err)
	registered, err := lim.RegisterNamespaces(t.Context(), "tenant-b")
	r.ok(err)
	r.repo, r.first, r.tenant = repo, repo.NamespaceID(), registered[0].ID
	return r
}

// proxy starts a proxy to the engine, which fails the requests that fails selects,
// and returns its URL.
func (r *rig) proxy() string {
	target, err := url.Parse(shared.URL(r))
	r.ok(err)
	engine := httputil.NewSingleHostReverseProxy(target)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		_, op, _ := strings.Cut(req.Header.Get("X-Amz-Target"), ".")
		if fails := r.fails.Load(); fails != nil && (*fails)(op, string(body)) {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		engine.ServeHTTP(w, req)
	}))
	r.Cleanup(server.Close)
	return server.URL
}

func (r *rig) ok(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// failRequests makes requests fail for which fails returns true.
func (r *rig) failRequests(fails func(op, body string) bool) { r.fails.Store(&fails) }

// event reads a recorded event and inserts the namespaces of this table.
func (r *rig) event(name string) json.RawMessage {
	r.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	r.ok(err)
	return json.RawMessage(strings.NewReplacer("{default}", r.first, "{tenant-b}", r.tenant).Replace(string(text)))
}

// invoke invokes a newly started function.
func (r *rig) invoke(ctx context.Context, event json.RawMessage) (response, error) {
	r.Helper()
	r.log.Reset()
	h, err := newAggregateHandler(func(name string) string { return r.env[name] }, &r.log)
	r.ok(err)
	return h.handle(ctx, event)
}

// usage returns the usage of a namespace by entity, limit and window.
func (r *rig) usage(namespace string) map[string]int64 {
	r.Helper()
	repo, err := r.repo.Namespace(r.Context(), namespace)
	r.ok(err)
	sums := map[string]int64{}
	for u, err := range repo.Usage(r.Context(), limiter.UsageQuery{Resource: "gpt-4"}) {
		r.ok(err)
		sums[u.Entity+" events "+string(u.Window)] += u.Events
		for limit, n := range u.Counters {
			sums[u.Entity+" "+limit+" "+string(u.Window)] += n
		}
	}
	return sums
}

// lines returns the log lines whose message begins with message.
func (r *rig) lines(message string) (all []map[string]any) {
	r.Helper()
	for line := range strings.Lines(r.log.String()) {
		var fields map[string]any
		r.ok(json.Unmarshal([]byte(line), &fields))
		if text, _ := fields["message"].(string); strings.HasPrefix(text, message) {
			all = append(all, fields)
		}
	}
	return all
}

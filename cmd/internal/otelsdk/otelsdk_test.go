package otelsdk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/otelsdk"
	"github.com/zeroae/zae-limiter-go/memory"
)

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// setenv replaces all variables of OpenTelemetry during a test.
func setenv(t *testing.T, variables ...string) {
	t.Helper()
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "")
		}
	}
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
}

// use acquires once through an observed store.
func use(t *testing.T, tele *otelsdk.Telemetry) {
	t.Helper()
	ctx := t.Context()
	repo, err := tele.Wrap(memory.New(nil), nil)
	check(t, err)
	t.Cleanup(func() { check(t, repo.Close()) })
	lim, err := limiter.New(repo, nil)
	check(t, err)
	check(t, lim.SetResourceDefaults(ctx, "api", limiter.PerMinute("rpm", 10)))
	lease, err := lim.Acquire(ctx, limiter.Request{Entity: "alice", Resource: "api", Consume: limiter.Tokens("rpm", 1)})
	check(t, err)
	check(t, lease.Commit(ctx))
}

// scrape returns what the handler for Prometheus serves.
func scrape(t *testing.T, tele *otelsdk.Telemetry) string {
	t.Helper()
	answer := httptest.NewRecorder()
	tele.Metrics().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if answer.Code != http.StatusOK {
		t.Fatal(answer.Code, answer.Body)
	}
	return answer.Body.String()
}

// part is a part of a program that reports a statistic.
type part struct{}

func (part) Statistics() iter.Seq[limiter.Statistic] {
	return slices.Values([]limiter.Statistic{{
		Name: "server.leases", Unit: "{lease}", Description: "Open leases", Value: 3,
	}})
}

func TestPrometheus(t *testing.T) {
	setenv(t, "OTEL_SERVICE_NAME=gateway")
	tele, err := otelsdk.Start(t.Context(), &otelsdk.Options{Service: "test", Version: "1.2.3"})
	check(t, err)
	use(t, tele)
	check(t, tele.Report(part{}))
	page := scrape(t, tele)
	for _, want := range []string{
		"zae_limiter_server_leases 3",
		`zae_limiter_decisions_total{zae_limiter_resource="api",zae_limiter_result="admitted"} 1`,
		`service_name="gateway",service_version="1.2.3"`, "go_goroutines",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in\n%s", want, page)
		}
	}
	check(t, tele.Shutdown(t.Context()))
}

// TestOTLP sends spans and metrics to a server, as the standard variables say.
func TestOTLP(t *testing.T) {
	var mu sync.Mutex
	received := map[string]string{}
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		received[r.URL.Path] += string(body)
	}))
	defer collector.Close()
	setenv(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
		"OTEL_EXPORTER_OTLP_COMPRESSION=none")
	tele, err := otelsdk.Start(t.Context(), nil)
	check(t, err)
	use(t, tele)
	check(t, tele.Shutdown(t.Context()))
	mu.Lock()
	defer mu.Unlock()
	if !strings.Contains(received["/v1/traces"], "zae_limiter.consume") || !strings.Contains(
		received["/v1/metrics"], "zae_limiter.decisions",
	) {
		t.Errorf("the collector received %q", received)
	}
}

// TestACollectorThatIsDownIsLogged checks that the program works on, says so in its
// log and ends in time.
func TestACollectorThatIsDownIsLogged(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	setenv(t, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="+closed.URL+"/v1/traces",
		"OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf")
	var log bytes.Buffer
	tele, err := otelsdk.Start(t.Context(), &otelsdk.Options{Log: otelsdk.NewLogger(&log, slog.LevelInfo)})
	check(t, err)
	use(t, tele)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err = tele.Shutdown(ctx)
	if err == nil && !strings.Contains(log.String(), `"msg":"telemetry"`) {
		t.Errorf("no error, and the log is %s", log.String())
	}
}

// A wrong variable is named, and its value, which may be a secret, shown nowhere.
func TestWrongVariables(t *testing.T) {
	for variable, value := range map[string]string{
		"OTEL_TRACES_EXPORTER": "s3cret", "OTEL_METRICS_EXPORTER": "s3cret", "OTEL_RESOURCE_ATTRIBUTES": "s3cret",
		"OTEL_EXPORTER_OTLP_HEADERS":          "Authorization: Bearer s3cret",
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS":   "a=s3cret%zz",
		"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "https://user:s3cret@host:port",
		"OTEL_EXPORTER_OTLP_ENDPOINT":         "localhost:4317",
		"OTEL_EXPORTER_OTLP_PROTOCOL":         "s3cret", "OTEL_EXPORTER_OTLP_TIMEOUT": "10s3cret",
		"OTEL_TRACES_SAMPLER": "s3cret", "OTEL_TRACES_SAMPLER_ARG": "2",
		"OTEL_BSP_MAX_QUEUE_SIZE": "s3cret",
	} {
		setenv(t, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", variable+"="+value)
		_, err := otelsdk.Start(t.Context(), nil)
		if err == nil || !strings.HasPrefix(err.Error(), variable+": must be ") ||
			strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s=%s: %v", variable, value, err)
		}
		t.Setenv(variable, "")
	}
}

// A collector that hangs delays the end no longer than its context, and the error
// shows no password.
func TestACollectorThatHangs(t *testing.T) {
	hang := make(chan struct{})
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer collector.Close()
	defer close(hang)
	setenv(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+strings.Replace(collector.URL, "//", "//user:s3cret@", 1),
		"OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
		"OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20s3cret")
	tele, err := otelsdk.Start(t.Context(), nil)
	check(t, err)
	use(t, tele)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- tele.Shutdown(ctx) }()
	select {
	case err := <-done:
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("Shutdown: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("Shutdown does not end with its context")
	}
}

func TestDisabled(t *testing.T) {
	setenv(t, "OTEL_SDK_DISABLED=true", "OTEL_TRACES_EXPORTER=nonsense")
	tele, err := otelsdk.Start(t.Context(), nil)
	check(t, err)
	use(t, tele)
	if page := scrape(t, tele); page != "" {
		t.Error(page)
	}
	check(t, tele.Shutdown(t.Context()))
}

func TestTracesContinueInLogs(t *testing.T) {
	var log bytes.Buffer
	logger := otelsdk.NewLogger(&log, slog.LevelInfo).With("program", "test").WithGroup("call")
	handler := otelsdk.Propagate(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if !trace.SpanContextFromContext(r.Context()).IsRemote() {
			t.Error("the request is not part of a trace")
		}
		logger.InfoContext(r.Context(), "served", "path", r.URL.Path)
		logger.DebugContext(r.Context(), "not at this level")
	}))
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x", nil)
	request.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	handler.ServeHTTP(httptest.NewRecorder(), request)
	var line struct {
		Program string
		Call    struct {
			Path    string
			TraceID string `json:"trace_id"`
		}
	}
	check(t, json.Unmarshal(log.Bytes(), &line))
	if line.Program != "test" || line.Call.Path != "/x" || line.Call.TraceID != "0af7651916cd43dd8448eb211c80319c" {
		t.Error(log.String())
	}
}

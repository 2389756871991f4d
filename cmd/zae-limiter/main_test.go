package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// built is the program, as a release would have it.
func built(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bootstrap")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// answer is what a function said about an invocation.
type answer struct{ path, body string }

// runtimeAPI is what AWS Lambda has for a function: it gives out events, in
// order, and takes the answers.
func runtimeAPI(t *testing.T, events ...string) (host string, answers chan answer) {
	t.Helper()
	answers = make(chan answer, len(events))
	queue := make(chan string, len(events))
	for _, e := range events {
		queue <- e
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", func(w http.ResponseWriter, r *http.Request) {
		select {
		case e := <-queue:
			w.Header().Set("Lambda-Runtime-Aws-Request-Id", "request-1")
			w.Header().Set("Lambda-Runtime-Deadline-Ms", "9999999999999")
			_, _ = io.WriteString(w, e)
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("POST /2018-06-01/runtime/", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
		answers <- answer{strings.TrimPrefix(r.URL.Path, "/2018-06-01/runtime/"), string(body)}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return strings.TrimPrefix(server.URL, "http://"), answers
}

// Started by AWS Lambda, the program answers invocations. There is no table
// here, so it says that all has to come again.
func TestProgramIsAFunction(t *testing.T) {
	t.Parallel()
	host, answers := runtimeAPI(t, `{"Records":[]}`,
		`{"Records":[{"eventName":"MODIFY","eventSourceARN":"arn:aws:dynamodb:us-east-1:123456789012:table/t/stream/x","dynamodb":{"SequenceNumber":"17"}}]}`,
		`"no event"`)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, built(t))
	cmd.Env = []string{
		"AWS_LAMBDA_RUNTIME_API=" + host, "AWS_LAMBDA_FUNCTION_NAME=my-app-aggregator", "TABLE_NAME=my-app", "AWS_REGION=us-east-1",
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_MAX_ATTEMPTS=1", "AWS_ENDPOINT_URL=http://" + host + "/none",
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	want := []answer{
		{"invocation/request-1/response", `{"batchItemFailures":[]}`},
		{"invocation/request-1/response", `{"batchItemFailures":[{"itemIdentifier":"17"}]}`},
		{"invocation/request-1/error", ""},
	}
	for _, w := range want {
		select {
		case got := <-answers:
			if got.path != w.path || w.body != "" && got.body != w.body {
				t.Errorf("got %v; want %v", got, w)
			}
		case <-ctx.Done():
			t.Fatal("no answer")
		}
	}
	cancel()
	_ = cmd.Wait() // it was killed
	first, _, _ := strings.Cut(out.String(), "\n")
	var line map[string]any
	if err := json.Unmarshal([]byte(first), &line); err != nil || line["function_name"] != "my-app-aggregator" || line["request_id"] != "request-1" {
		t.Errorf("the log begins with %s (%v)", first, err)
	}
}

func TestWrongEnvironmentEndsTheFunction(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), built(t))
	cmd.Env = []string{"AWS_LAMBDA_RUNTIME_API=127.0.0.1:1", "SNAPSHOT_WINDOWS=weekly"}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.HasPrefix(string(out), "SNAPSHOT_WINDOWS: it has to be hourly, daily and monthly") {
		t.Errorf("%v: %s", err, out)
	}
}

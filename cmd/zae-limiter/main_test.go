package main_test

import (
	"archive/zip"
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

var dir string // holds the programs of build and export

func TestMain(m *testing.M) {
	var err error
	if dir, err = os.MkdirTemp("", "zae-limiter-test-"); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// build links both programs as a release does, once for all tests, and returns the
// path of zae-limiter.
var build = sync.OnceValues(func() (string, error) {
	cmd := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", dir,
		".", "../zae-limiter-function")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return filepath.Join(dir, "zae-limiter"), nil
})

// maxZip is the maximum size of the functions' code. A larger one makes cold starts
// slower.
const maxZip = 15_000_000

// export unpacks the bootstrap from the zip that the program writes. Two zips
// have the same bytes.
var export = sync.OnceValues(func() (string, error) {
	program, err := build()
	if err != nil {
		return "", err
	}
	var zips [2][]byte
	for i := range zips {
		path := filepath.Join(dir, fmt.Sprint(i, ".zip"))
		out, err := exec.CommandContext(context.Background(), program, "lambda-export", "-o", path,
			"--architecture", architectures[runtime.GOARCH]).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("%w: %s", err, out)
		}
		if zips[i], err = os.ReadFile(path); err != nil {
			return "", err
		}
	}
	if !bytes.Equal(zips[0], zips[1]) {
		return "", errors.New("two exports differ")
	}
	if len(zips[0]) > maxZip {
		return "", fmt.Errorf("the zip has %d bytes, of at most %d", len(zips[0]), maxZip)
	}
	files, err := zip.NewReader(bytes.NewReader(zips[0]), int64(len(zips[0])))
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "code", "bootstrap"), os.CopyFS(filepath.Join(dir, "code"), files)
})

// path returns the path of a program that build or export created.
func path(t *testing.T, program func() (string, error)) string {
	t.Helper()
	p, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var architectures = map[string]string{"amd64": "x86_64", "arm64": "arm64"}

// answer is the response of a function to an invocation.
type answer struct{ path, body string }

// runtimeAPI starts a server with the API of AWS Lambda for a function. It serves
// events in order and returns the answers on a channel.
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

// started starts the exported function, which stops with the test. Its output is
// in log.
func started(t *testing.T, host string, log *bytes.Buffer, env ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path(t, export))
	cmd.Env = append([]string{
		"AWS_LAMBDA_RUNTIME_API=" + host, "AWS_LAMBDA_FUNCTION_NAME=my-app-aggregator", "TABLE_NAME=my-app",
		"AWS_REGION=us-east-1",
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_MAX_ATTEMPTS=1",
		"AWS_ENDPOINT_URL=http://" + host + "/none",
	}, env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
}

// TestFunctionHasNoServers checks that the code of the functions is the smaller
// program.
func TestFunctionHasNoServers(t *testing.T) {
	t.Parallel()
	info, err := buildinfo.ReadFile(path(t, export))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(info.Path, "/cmd/zae-limiter-function") {
		t.Error("it is", info.Path)
	}
	for _, m := range info.Deps {
		for _, banned := range []string{
			"google.golang.org/grpc", "go.opentelemetry.io/", "github.com/spf13/", "modernc.org/sqlite",
			"github.com/prometheus/",
		} {
			if strings.HasPrefix(m.Path, banned) {
				t.Errorf("it contains %s", m.Path)
			}
		}
	}
}

func TestFunctionNeedsLambda(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), path(t, export))
	cmd.Env = []string{}
	out, err := cmd.CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != 2 || !strings.HasPrefix(
		string(out), "zae-limiter-function: only AWS Lambda can run this program",
	) {
		t.Errorf("%v: %s", err, out)
	}
}

// Started by AWS Lambda, the program answers invocations. Without a table it asks
// for a retry of all records.
func TestProgramIsAFunction(t *testing.T) {
	t.Parallel()
	host, answers := runtimeAPI(t, `{"Records":[]}`,
		`{"Records":[{"eventName":"MODIFY","eventSourceARN":"arn:aws:dynamodb:us-east-1:123456789012:table/t/stream/x","dynamodb":{"SequenceNumber":"17"}}]}`,
		`"no event"`)
	var log bytes.Buffer
	t.Run("invocations", func(t *testing.T) {
		started(t, host, &log)
		for _, want := range []answer{
			{"invocation/request-1/response", `{"batchItemFailures":[]}`},
			{"invocation/request-1/response", `{"batchItemFailures":[{"itemIdentifier":"17"}]}`},
			{"invocation/request-1/error", ""},
		} {
			expect(t, answers, want)
		}
	})
	first, _, _ := strings.Cut(log.String(), "\n")
	var line map[string]any
	if err := json.Unmarshal([]byte(first), &line); err != nil || line["function_name"] != "my-app-aggregator" ||
		line["request_id"] != "request-1" {
		t.Errorf("the log begins with %s (%v)", first, err)
	}
}

// expect requires an answer that starts with this text.
func expect(t *testing.T, answers chan answer, want answer) {
	t.Helper()
	select {
	case got := <-answers:
		if got.path != want.path || !strings.HasPrefix(got.body, want.body) {
			t.Errorf("got %v; want %v", got, want)
		}
	case <-time.After(5 * time.Minute):
		t.Fatal("no answer")
	}
}

// The same program is the provisioner, too. It sends CloudFormation its answer,
// including the error that there is no table.
func TestProgramIsAProvisioner(t *testing.T) {
	t.Parallel()
	stack := make(chan string, 1)
	waiting := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		stack <- r.Method + " " + string(body)
	}))
	t.Cleanup(waiting.Close)
	host, answers := runtimeAPI(t, `{"manifest":{"namespace":"not a name"}}`,
		`{"RequestType":"Create","ResponseURL":"`+waiting.URL+
			`","StackId":"arn:stack","RequestId":"r1","LogicalResourceId":"Limits","ResourceProperties":{"Namespace":"default"}}`)
	var log bytes.Buffer
	started(t, host, &log, "ZAE_LIMITER_HANDLER=provisioner")
	expect(t, answers, answer{"invocation/request-1/error", `{"errorMessage":"`})
	expect(t, answers, answer{"invocation/request-1/response", ""})
	got := <-stack
	if !strings.HasPrefix(got, "PUT ") || !strings.Contains(got, `"Status":"FAILED"`) ||
		!strings.Contains(got, `"LogicalResourceId":"Limits"`) {
		t.Error(got)
	}
}

// The same program is the worker function of a load stack, too. One that begins too
// late ends at once, and an invalid request is an error.
func TestProgramIsALoadWorker(t *testing.T) {
	t.Parallel()
	host, answers := runtimeAPI(t, `{"config":{"mode":"worker","master_host":"10.0.0.5","locustfile":"max_rps","join_before":1}}`,
		`{"config":{"mode":"other"}}`, `{"config":{"locustfile":"max_rsp"}}`)
	var log bytes.Buffer
	started(t, host, &log, "ZAE_LIMITER_HANDLER=loadworker", "TARGET_STACK_NAME=my-app")
	expect(t, answers, answer{
		"invocation/request-1/response", `{"status":"worker_expired","worker_id":"lambda_request-"}`,
	})
	expect(t, answers, answer{"invocation/request-1/error", `{"errorMessage":"invalid mode`})
	expect(t, answers, answer{"invocation/request-1/error", `{"errorMessage":"invalid scenario`})
}

func TestWrongEnvironmentEndsTheFunction(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), path(t, build))
	cmd.Env = []string{"AWS_LAMBDA_RUNTIME_API=127.0.0.1:1", "SNAPSHOT_WINDOWS=weekly"}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.HasPrefix(
		string(out), "SNAPSHOT_WINDOWS: must be one or more of hourly, daily and monthly",
	) {
		t.Errorf("%v: %s", err, out)
	}
}

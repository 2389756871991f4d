package loadtest_test

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
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/clitest"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

// fakeAccount is a server for the calls that load tests make in an account. Its
// tables are in DynamoDB Local.
type fakeAccount struct {
	*testing.T
	url    string
	engine http.Handler // nil if the test needs no table

	mu      sync.Mutex
	calls   []string
	tasks   []string // that run
	started int
	bodies  map[string]string // of the last request of an operation
	events  []loadtest.InvocationConfig
	// hook, if not nil, is called with each operation and its body.
	hook func(op, body string)
	// run answers a synchronous invocation: its statistics, or the message of its
	// failure.
	run func(loadtest.InvocationConfig) (loadtest.WorkerSummary, string)
}

func newFakeAccount(t *testing.T) *fakeAccount {
	t.Helper()
	a := &fakeAccount{T: t, bodies: map[string]string{}}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	a.url = server.URL
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "eu-west-1",
		"AWS_ENDPOINT_URL": a.url,
	} {
		t.Setenv(name, value)
	}
	return a
}

// useTables forwards calls about tables to DynamoDB Local.
func (a *fakeAccount) useTables() {
	target, err := url.Parse(clitest.Engine.URL(a.T))
	if err != nil {
		a.Fatal(err)
	}
	a.engine = httputil.NewSingleHostReverseProxy(target)
}

func (a *fakeAccount) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	service, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	if strings.HasPrefix(service, "DynamoDB") {
		a.note("table", string(body))
		r.Body = io.NopCloser(bytes.NewReader(body))
		a.engine.ServeHTTP(w, r)
		return
	}
	if op == "" {
		op = r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	}
	a.note(op, string(body))
	if op == "invocations" {
		a.invoke(w, r, body)
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	_, _ = io.WriteString(w, a.answer(op, body))
}

func (a *fakeAccount) note(op, body string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, op)
	a.bodies[op] += body + "\n"
	if a.hook != nil {
		a.hook(op, body)
	}
}

func (a *fakeAccount) sent(op string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bodies[op]
}

// running returns the tasks that run.
func (a *fakeAccount) running() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.tasks)
}

// answer answers ECS, Systems Manager and GetFunctionConfiguration.
func (a *fakeAccount) answer(op string, body []byte) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	const task = `{"taskArn":"arn:aws:ecs:eu-west-1:123456789012:task/my-app-load/%s","lastStatus":"RUNNING","desiredStatus":"RUNNING",
		"containers":[{"name":"locust-master","runtimeId":"r1","managedAgents":[{"name":"ExecuteCommandAgent","lastStatus":"RUNNING"}]}]}`
	switch op {
	case "configuration":
		return `{"Timeout":100}`
	case "DescribeServices":
		return `{"services":[{"serviceName":"my-app-load-master","taskDefinition":"arn:aws:ecs:eu-west-1:123456789012:task-definition/my-app-load-master:3"}]}`
	case "ListTasks":
		arns, _ := json.Marshal(append([]string{}, a.tasks...))
		return `{"taskArns":` + string(arns) + `}`
	case "RunTask":
		a.started++
		a.tasks = append(a.tasks, fmt.Sprint("task", a.started))
		return `{"tasks":[` + fmt.Sprintf(task, a.tasks[len(a.tasks)-1]) + `]}`
	case "DescribeTasks":
		return `{"tasks":[` + fmt.Sprintf(task, "any") + `]}`
	case "StopTask":
		var in struct{ Task string }
		_ = json.Unmarshal(body, &in)
		a.tasks = slices.DeleteFunc(a.tasks, func(id string) bool { return id == in.Task })
		return `{}`
	case "StartSession":
		return `{"SessionId":"s1","TokenValue":"secret-token","StreamUrl":"wss://example.com"}`
	}
	return `{}`
}

// invoke answers an invocation of the worker function.
func (a *fakeAccount) invoke(w http.ResponseWriter, r *http.Request, body []byte) {
	var in loadtest.Invocation
	if err := json.Unmarshal(body, &in); err != nil {
		a.Error(err)
	}
	a.mu.Lock()
	a.events = append(a.events, in.Config)
	n := len(a.events)
	a.mu.Unlock()
	if r.Header.Get("X-Amz-Invocation-Type") == "Event" {
		w.Header().Set("X-Amzn-Requestid", fmt.Sprintf("%08d-0000", n))
		w.WriteHeader(http.StatusAccepted)
		return
	}
	summary, failure := a.run(in.Config)
	if failure != "" {
		w.Header().Set("X-Amz-Function-Error", "Unhandled")
		_ = json.NewEncoder(w).Encode(map[string]string{"errorMessage": failure})
		return
	}
	_ = json.NewEncoder(w).Encode(summary)
}

// fakeMaster is a Locust master with some workers.
type fakeMaster struct {
	*httptest.Server
	mu      sync.Mutex
	state   string
	users   int
	workers int
	polls   int // of a running test
	length  int // polls until the test ends
	form    url.Values
	stops   int
	broken  bool        // every later call fails
	last    string      // the response that it repeats after a stop
	repeats int         // how often it does
	polled  func(n int) // called with each poll of a running test
}

func newFakeMaster(t *testing.T, workers, length int) *fakeMaster {
	t.Helper()
	m := &fakeMaster{state: "ready", workers: workers, length: length}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /stats/requests", m.stats)
	mux.HandleFunc("POST /swarm", func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		defer m.mu.Unlock()
		_ = r.ParseForm()
		m.form, m.state = r.PostForm, "running"
		classes, _ := json.Marshal(r.PostForm["user_classes"])
		_, _ = io.WriteString(w, `{"success":true,"message":"Swarming started","user_classes":`+string(classes)+`}`)
	})
	mux.HandleFunc("POST /stop", func(w http.ResponseWriter, _ *http.Request) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.broken {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		m.state = "stopped"
		m.polls += m.repeats // requests that the repeated responses lack
		m.stops++
		_, _ = io.WriteString(w, `{"success":true}`)
	})
	m.Server = httptest.NewServer(mux)
	t.Cleanup(m.Close)
	t.Setenv(tunnelTarget, strings.TrimPrefix(m.URL, "http://"))
	return m
}

func (m *fakeMaster) stats(w http.ResponseWriter, _ *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	if m.stops > 0 && m.repeats > 0 {
		m.repeats--
		_, _ = io.WriteString(w, m.last)
		return
	}
	if m.state == "running" {
		m.polls++
		if m.polled != nil {
			m.polled(m.polls)
		}
		if m.polls == m.length {
			m.state = "stopped"
		}
	}
	stats := loadtest.MasterStats{State: m.state, Users: m.users, Rows: []loadtest.MasterRow{{
		Name: "Aggregated", Requests: int64(100 * m.polls), Failures: int64(m.polls), Average: 5, Min: 1, Max: 50,
		P50: 4, P95: 9, P99: 20,
	}}}
	for i := range m.workers {
		stats.Workers = append(stats.Workers, loadtest.MasterWorker{
			ID: fmt.Sprintf("lambda_%08d", i+1), State: m.state,
		})
	}
	body, _ := json.Marshal(stats)
	m.last = string(body)
	_, _ = w.Write(body)
}

// tunnelTarget names an environment variable with the address to which the fake of
// the Session Manager plugin forwards.
const tunnelTarget = "ZAEL_TEST_TUNNEL"

// forwardPort acts as the Session Manager plugin of the tests: it forwards HTTP from the
// local port to the address in tunnelTarget until it is interrupted.
func forwardPort() { os.Exit(forward()) }

func forward() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var request struct{ Parameters map[string][]string }
	if len(os.Args) != 7 || !strings.Contains(os.Getenv(os.Args[1]), "secret-token") ||
		json.Unmarshal([]byte(os.Args[5]), &request) != nil {
		fmt.Printf("unexpected arguments: %q\n", os.Args)
		return 2
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: os.Getenv(tunnelTarget)})
	server := &http.Server{
		Addr: "127.0.0.1:" + request.Parameters["localPortNumber"][0], Handler: proxy,
		ReadHeaderTimeout: time.Second,
	}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	time.AfterFunc(time.Minute, stop) // whatever happens to the test
	listener, err := listenLocal(server.Addr)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("Port opened for sessionId s1.\nWaiting for connections...")
	_ = server.Serve(listener) // until it is closed
	return 0
}

// lockedBuffer is a buffer that calls a function once it holds a text.
type lockedBuffer struct {
	mu    sync.Mutex
	text  bytes.Buffer
	want  string
	found func()
}

func (b *lockedBuffer) on(text string, call func()) { b.want, b.found = text, call }

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Write(p)
	if b.found != nil && strings.Contains(b.text.String(), b.want) {
		b.found()
	}
	return len(p), nil
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// newMetadata returns the URL of the metadata of a container with an address.
func newMetadata(t *testing.T, address string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"Networks":[{"NetworkMode":"awsvpc","IPv4Addresses":["`+address+`"]}]}`)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/v4/1"
}

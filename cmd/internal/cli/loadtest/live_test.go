package loadtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	family "github.com/zeroae/zae-limiter-go/cmd/internal/cli/loadtest"
	"github.com/zeroae/zae-limiter-go/cmd/internal/lambda"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// loadFunction runs the worker function as a program.
func loadFunction() { os.Exit(lambda.Main(os.Getenv, os.Stdout)) }

// liveAccount is an account whose task is a real Locust master and our
// orchestrator, and whose function is ours, all as processes of this machine.
type liveAccount struct {
	*fakeAccount
	*site

	mu        sync.Mutex
	functions []*exec.Cmd
	answers   chan string // of functions that have ended
	task      []*running
	metadata  string
}

// runTask starts what the task runs. RunTask carries the settings.
func (l *liveAccount) runTask(request string) {
	var in struct {
		Overrides struct {
			ContainerOverrides []struct {
				Name        string
				Environment []struct{ Name, Value string }
			}
		}
	}
	if err := json.Unmarshal([]byte(request), &in); err != nil {
		l.site.Error(err)
	}
	settings := []string{
		"env", "AWS_ENDPOINT_URL=" + l.url, "WORKER_FUNCTION_NAME=live-load-worker", "MASTER_PORT=" + l.port,
		"LOCUST_WEB_PORT=" + l.webPort, "POLL_INTERVAL=1",
		"ECS_CONTAINER_METADATA_URI_V4=" + l.metadata,
	}
	for _, container := range in.Overrides.ContainerOverrides {
		for _, v := range container.Environment {
			settings = append(settings, v.Name+"="+v.Value)
		}
	}
	l.task = append(l.task,
		l.site.master([]string{"max_rps"}, "--web-host", "127.0.0.1", "--web-port", l.webPort, "--class-picker"),
		l.site.start("orchestrator", append(settings, "zae-limiter", "loadtest", "orchestrate")...))
}

// startFunction runs the function for one invocation.
func (l *liveAccount) startFunction(event string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := fmt.Sprintf("%08d-0000", len(l.functions)+1)
	once, done := make(chan struct{}, 1), make(chan struct{})
	once <- struct{}{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-once:
			w.Header().Set("Lambda-Runtime-Aws-Request-Id", id)
			w.Header().Set("Lambda-Runtime-Deadline-Ms", fmt.Sprint(time.Now().Add(5*time.Minute).UnixMilli()))
			_, _ = io.WriteString(w, event)
		case <-r.Context().Done():
		case <-done:
		}
	})
	mux.HandleFunc("POST /2018-06-01/runtime/", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
		l.answers <- string(body)
	})
	api := httptest.NewServer(mux)
	cmd := exec.CommandContext(context.Background(), "loadworker")
	cmd.Env = append(l.site.env(), "AWS_LAMBDA_RUNTIME_API="+strings.TrimPrefix(api.URL, "http://"),
		"ZAE_LIMITER_HANDLER=loadworker", "TARGET_STACK_NAME="+l.table)
	log, err := os.CreateTemp(l.dir, "function")
	cmd.Stdout, cmd.Stderr = log, log
	if err := errors.Join(err, cmd.Start()); err != nil {
		l.site.Error(err)
		return
	}
	l.functions = append(l.functions, cmd)
	l.site.Cleanup(func() {
		close(done)
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		api.CloseClientConnections()
		api.Close()
		if text, _ := os.ReadFile(log.Name()); l.site.Failed() {
			l.site.Logf("function %s wrote:\n%s", id, text)
		}
		_ = log.Close()
	})
}

// A distributed test in an account, but on this machine: the command starts the
// task and the tunnel, the orchestrator invokes the functions, a real Locust master
// counts what they do, and nothing is left.
func TestDistributedLoadRunWithLocust(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds to start Locust")
	}
	l := &liveAccount{site: newSite(t), metadata: newMetadata(t, "127.0.0.1"), answers: make(chan string, 16)}
	l.createTable()
	l.fakeAccount = newFakeAccount(t)
	l.useTables()
	l.hook = func(op, body string) {
		switch op {
		case "RunTask":
			l.runTask(body)
		case "invocations":
			l.startFunction(body)
		case "StopTask":
			for _, p := range l.task {
				_ = p.cmd.Process.Signal(os.Interrupt)
			}
		}
	}
	t.Setenv(tunnelTarget, "127.0.0.1:"+l.webPort)
	var out, talk lockedBuffer
	c := kit.NewConsole(strings.NewReader(""), &out, &talk)
	c.Poll = 2 * time.Second
	code := cli.Run(t.Context(), c, []string{
		"loadtest", "run", "-n", l.table, "-f", "max_rps", "--workers", "2", "--users", "4", "--spawn-rate", "100",
		"--duration", "2", "--port", masterPort(t), "MaxRpsUser", "--json",
	})
	var summary family.RunJSON
	err := json.Unmarshal([]byte(out.String()), &summary)
	if code != kit.ExitDone || err != nil || summary.Requests == 0 ||
		summary.Failures > 0 || summary.RPS != float64(summary.Requests)/2 {
		t.Fatalf("code %d: %s%s", code, out.String(), talk.String())
	}
	if n := len(l.events); n != 2 {
		t.Errorf("%d functions were invoked, want 2", n)
	}
	for range 2 {
		select {
		case answer := <-l.answers:
			if !strings.Contains(answer, `"worker_completed"`) {
				t.Error(answer)
			}
		case <-time.After(patience):
			t.Fatal("a function has not ended")
		}
	}
	for _, p := range l.task {
		p.exit()
	}
	l.checkNoNamespaces()
	t.Logf("%d requests at %.0f a second", summary.Requests, summary.RPS)
}

// checkNoNamespaces checks that no test has left its namespace in the table.
func (l *liveAccount) checkNoNamespaces() {
	l.site.Helper()
	repo, err := dynamo.Connect(l.site.Context(), l.table, &dynamo.Options{Region: "us-east-1"}) // as the processes
	if err != nil {
		l.site.Fatal(err)
	}
	defer func() { _ = repo.Close() }()
	for n, err := range repo.Namespaces(l.site.Context()) {
		if err != nil || strings.HasPrefix(n.Name, "loadtest-") {
			l.site.Errorf("namespace %s is left, %v", n.Name, err)
		}
	}
}

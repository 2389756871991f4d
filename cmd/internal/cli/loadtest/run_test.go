package loadtest_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	family "github.com/zeroae/zae-limiter-go/cmd/internal/cli/loadtest"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

func listenLocal(address string) (net.Listener, error) {
	return new(net.ListenConfig).Listen(context.Background(), "tcp", address)
}

// quick runs a command with short pauses and returns its exit code and output.
func quick(ctx context.Context, args ...string) (code int, out, talk string) {
	var data, messages bytes.Buffer
	c := kit.NewConsole(strings.NewReader(""), &data, &messages)
	c.Poll = 10 * time.Millisecond
	code = cli.Run(ctx, c, args)
	return code, data.String(), messages.String()
}

func sampleRun(loadtest.InvocationConfig) (loadtest.WorkerSummary, string) {
	return loadtest.WorkerSummary{
		Requests: 1234, Failures: 12, FailureRate: 0.00972, RPS: 20.56, Average: 5.25, Min: 1, Max: 80.5,
		P50: 4.5, P95: 9, P99: 20,
	}, ""
}

func TestLoadRunInAFunction(t *testing.T) {
	a := newFakeAccount(t)
	a.run = sampleRun
	code, out, talk := quick(t.Context(), "loadtest", "run", "-n", "my-app", "-f", "locustfiles/max_rps.py",
		"--users", "7", "--duration", "95", "--spawn-rate", "0.5", "MaxRpsUser")
	want := "requests\t1234\nRPS\t20.6\nfailures\t12 (0.97%)\naverage\t5.2 ms\nmin/max\t1.0/80.5 " +
		"ms\np50\t4.5 ms\np95\t9.0 ms\np99\t20.0 ms\n"
	if code != kit.ExitDone || out != want {
		t.Errorf("code %d: %s%s", code, out, talk)
	}
	if !strings.Contains(
		talk,
		"--duration 1m35s is more than 90 % of the function's timeout of 1m40s, so the test will end after 1m30s",
	) {
		t.Error(talk)
	}
	sent := a.events[0]
	id := sent.TestID
	if diff := cmp.Diff(
		loadtest.InvocationConfig{
			Locustfile: "max_rps", UserClasses: "MaxRpsUser", Users: 7, SpawnRate: 0.5, DurationSeconds: 95,
			TestID: id,
		},
		sent,
	); diff != "" || len(id) != 8 {
		t.Error(id, diff)
	}
	_, out, _ = quick(t.Context(), "loadtest", "run", "-n", "my-app", "-f", "simple", "--json")
	if !strings.HasPrefix(
		out,
		`{"total_requests":1234,"total_failures":12,"failure_rate":0.00972,"requests_per_second":20.56,"avg_response_time":5.25,`,
	) {
		t.Error(out)
	}
	if second := a.events[1]; second.UserClasses != "" || second.Users != 20 || second.DurationSeconds != 60 ||
		second.SpawnRate != 10 {
		t.Errorf("%+v; want the defaults", second)
	}
	a.run = func(loadtest.InvocationConfig) (loadtest.WorkerSummary, string) {
		return loadtest.WorkerSummary{}, "table my-app: not found"
	}
	if code, _, talk := quick(
		t.Context(), "loadtest", "run", "-n", "my-app", "-f", "simple",
	); code != kit.ExitFailed || !strings.HasSuffix(
		talk, `function "my-app-load-worker" failed: table my-app: not found`+"\n",
	) {
		t.Errorf("%d: %s", code, talk)
	}
}

// The function finds the scenario of a file, whatever the file and the scenario
// are called.
func TestLoadRunOfAFile(t *testing.T) {
	a := newFakeAccount(t)
	dir := t.TempDir()
	for file, name := range map[string]string{"a.yaml": "named", "b.yaml": "simple", "c.yaml": "a"} {
		body := "name: " + name + "\nsystem: {limits: {rpm: 100}}\nclasses: {ApiUser: {tasks: {call: " +
			"{acquire: api, consume: {rpm: 1}}}}}\n"
		if err := os.WriteFile(filepath.Join(dir, file), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a.run = func(c loadtest.InvocationConfig) (loadtest.WorkerSummary, string) {
		s, err := loadtest.Find(c.Locustfile, dir)
		if err != nil {
			return loadtest.WorkerSummary{}, err.Error()
		}
		return loadtest.WorkerSummary{}, fmt.Sprintf("found %s with %q", s.Name, family.ClassNames(s))
	}
	for given, want := range map[string]string{
		"a": "named", "a.yaml": "named", "named": "named", filepath.Join(dir, "a.yaml"): "named", "b": "simple",
		"b.yaml": "simple", "c.yaml": "a", "c": "a",
	} {
		if _, _, talk := quick(
			t.Context(), "loadtest", "run", "-n", "my-app", "-C", dir, "-f", given,
		); !strings.HasSuffix(talk, "failed: found "+want+` with ["ApiUser"]`+"\n") {
			t.Errorf("%s: %s; want %s", given, talk, want)
		}
	}
}

// An interrupt stops the test in the function, prints what it measured, and leaves
// nothing in the table.
func TestInterruptedLoadRun(t *testing.T) {
	a := newFakeAccount(t)
	a.useTables()
	table := "load-" + strings.ToLower(rand.Text())
	if err := dynamo.CreateTable(t.Context(), table, nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var id string
	marked := make(chan struct{})
	mark := sync.OnceFunc(func() { close(marked) })
	a.hook = func(_, body string) {
		if strings.Contains(body, `"loadtest-stop-`) {
			mark()
		}
	}
	a.run = func(c loadtest.InvocationConfig) (loadtest.WorkerSummary, string) {
		id = c.TestID
		cancel()
		select {
		case <-marked:
			return sampleRun(c)
		case <-time.After(patience):
			return loadtest.WorkerSummary{}, "it was not stopped"
		}
	}
	code, out, talk := quick(ctx, "loadtest", "run", "-n", table, "-f", "simple")
	if code != kit.ExitDone || !strings.HasPrefix(out, "requests\t1234\n") || !strings.Contains(
		talk, "interrupted; these are the results up to then",
	) {
		t.Errorf("code %d: %s%s", code, out, talk)
	}
	repo, err := dynamo.Connect(t.Context(), table, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = repo.Close() }()
	for n, err := range repo.Namespaces(t.Context()) {
		if err != nil || strings.Contains(n.Name, id) {
			t.Errorf("namespace %s is left, %v", n.Name, err)
		}
	}
}

func TestDistributedLoadRun(t *testing.T) {
	a, port := newFakeAccount(t), masterPort(t)
	m := newFakeMaster(t, 3, 4)
	code, out, talk := quick(t.Context(), "loadtest", "run", "-n", "my-app", "-f", "max_rps", "--workers", "3",
		"--users", "30", "--duration", "40ms", "--port", port, "--cpu", "2048", "MaxRpsCascadeUser")
	if code != kit.ExitDone || !strings.HasPrefix(out, "requests\t400\nRPS\t10000.0\nfailures\t4 (1.00%)\n") {
		t.Errorf("code %d: %s%s", code, out, talk)
	}
	if diff := cmp.Diff(
		url.Values{
			"user_count": {"30"}, "spawn_rate": {"10"}, "run_time": {"1s"},
			"user_classes": {"MaxRpsCascadeUser"},
		},
		m.form,
	); diff != "" {
		t.Error(diff)
	}
	for _, want := range []string{
		`{"name":"MAX_WORKERS","value":"3"}`, `{"name":"MIN_WORKERS","value":"3"}`,
		`{"name":"LOCUSTFILE","value":"max_rps"}`, `"cpu":"2048"`,
	} {
		if sent := a.sent("RunTask"); !strings.Contains(sent, want) {
			t.Errorf("RunTask without %s: %s", want, sent)
		}
	}
	a.checkNothingRuns(port)
	if strings.Contains(talk+out, "secret") {
		t.Error("the token of the session is printed")
	}
}

// checkNothingRuns checks that no task runs and that the tunnel is closed.
func (a *fakeAccount) checkNothingRuns(port string) {
	a.Helper()
	if left := a.running(); len(left) > 0 {
		a.Errorf("%v still run", left)
	}
	l, err := listenLocal("127.0.0.1:" + port)
	if err != nil {
		a.Errorf("the tunnel is still open: %v", err)
		return
	}
	_ = l.Close()
}

func TestInterruptedDistributedLoadRun(t *testing.T) {
	a, port := newFakeAccount(t), masterPort(t)
	m := newFakeMaster(t, 1, 1<<30)
	m.repeats = 2
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m.polled = func(n int) {
		if n == 3 {
			cancel()
		}
	}
	code, out, talk := quick(ctx, "loadtest", "run", "-n", "my-app", "-f", "max_rps", "--workers", "1", "--port", port)
	if code != kit.ExitDone || !strings.HasPrefix(out, "requests\t500\n") || !strings.Contains(
		talk, "interrupted; these are the results up to then",
	) || m.stops != 1 {
		t.Errorf("code %d, %d stops: %s%s", code, m.stops, out, talk)
	}
	a.checkNothingRuns(port)
}

// A master that fails leaves no task behind, and its last results are printed.
func TestFailedDistributedLoadRun(t *testing.T) {
	a, port := newFakeAccount(t), masterPort(t)
	m := newFakeMaster(t, 1, 1<<30)
	m.polled = func(n int) { m.broken = n == 2 }
	code, out, talk := quick(t.Context(), "loadtest", "run", "-n", "my-app", "-f", "max_rps", "--workers", "1",
		"--port", port)
	if code != kit.ExitFailed || !strings.Contains(
		talk, "the master has not responded 3 times",
	) || !strings.HasPrefix(out, "requests\t200\n") {
		t.Errorf("code %d: %s%s", code, out, talk)
	}
	if _, after, ok := strings.Cut(
		talk, "the master did not stop the test, so its last requests are not counted: ",
	); !ok || !strings.Contains(after, "stopped the task") {
		t.Errorf("it does not warn before it stops the task: %s", talk)
	}
	a.checkNothingRuns(port)
}

func TestLoadUI(t *testing.T) {
	a, port := newFakeAccount(t), masterPort(t)
	newFakeMaster(t, 0, 0)
	ui := func(args ...string) (code int, talk string) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var messages lockedBuffer
		c := kit.NewConsole(strings.NewReader(""), &bytes.Buffer{}, &messages)
		c.Poll = 10 * time.Millisecond
		messages.on("Ctrl-C ends it", cancel)
		words := []string{"loadtest", "ui", "-n", "my-app", "-f", "simple", "--port", port}
		code = cli.Run(ctx, c, append(words, args...))
		return code, messages.String()
	}
	code, talk := ui("--max-workers", "9", "--startup-lead-time", "0")
	if code != kit.ExitDone || !strings.Contains(talk, "http://localhost:"+port+" runs simple") {
		t.Errorf("code %d: %s", code, talk)
	}
	for _, want := range []string{`{"name":"MAX_WORKERS","value":"9"}`, `{"name":"STARTUP_LEAD_TIME","value":"0"}`} {
		if !strings.Contains(a.sent("RunTask"), want) {
			t.Error(a.sent("RunTask"))
		}
	}
	a.checkNothingRuns(port)

	a.tasks = []string{"earlier"}
	if code, talk = ui("--max-workers", "9"); code != kit.ExitDone || !strings.Contains(
		talk, "the running task keeps its settings; --force replaces it",
	) || !cmp.Equal(a.running(), []string{"earlier"}) {
		t.Errorf("code %d, %v run: %s", code, a.running(), talk)
	}
	if code, talk = ui("--destroy"); code != kit.ExitDone || len(a.running()) > 0 {
		t.Errorf("code %d, %v run: %s", code, a.running(), talk)
	}
}

// A name that no load stack can have is refused before any call.
func TestLoadTestsOfAWrongName(t *testing.T) {
	a, port := newFakeAccount(t), masterPort(t)
	for _, args := range [][]string{
		{"run"}, {"run", "--workers", "2", "--port", port}, {"ui", "--port", port}, {"tune"},
	} {
		code, _, talk := quick(t.Context(),
			append(append([]string{"loadtest"}, args...), "-n", "My-App", "-f", "simple")...)
		if code != kit.ExitUsage || !strings.HasSuffix(
			talk,
			`invalid name "My-App": must be in lower case for a load test, because repositories of images are`+"\n",
		) {
			t.Errorf("%q: code %d: %s", args, code, talk)
		}
	}
	for _, args := range [][]string{
		{"run", "--workers", "1001"}, {"ui", "--max-workers", "1001"}, {"ui", "--startup-lead-time", "3m"},
	} {
		if code, _, talk := quick(
			t.Context(), append(append([]string{"loadtest"}, args...), "-n", "my-app", "-f", "simple")...,
		); code != kit.ExitUsage {
			t.Errorf("%q: code %d: %s", args, code, talk)
		}
	}
	if len(a.calls) > 0 {
		t.Errorf("it called %q", a.calls)
	}
}

// Without the plugin nothing is started.
func TestLoadTestsWithoutThePlugin(t *testing.T) {
	a := newFakeAccount(t)
	t.Setenv("PATH", t.TempDir())
	for _, args := range [][]string{{"ui"}, {"run", "--workers", "2"}} {
		code, _, talk := quick(t.Context(),
			append(append([]string{"loadtest"}, args...), "-n", "my-app", "-f", "simple")...)
		if code != kit.ExitFailed || !strings.HasSuffix(
			talk,
			"zae-limiter: session-manager-plugin is not in PATH; install the Session Manager plugin for the "+
				"AWS CLI, version 1.2.497 or newer\n",
		) || strings.Count(talk, "\n") != 1 {
			t.Errorf("%q: code %d: %s", args, code, talk)
		}
	}
	if len(a.calls) > 0 {
		t.Errorf("it called %q", a.calls)
	}
}

func TestLoadTune(t *testing.T) {
	a := newFakeAccount(t)
	a.run = func(c loadtest.InvocationConfig) (loadtest.WorkerSummary, string) {
		p50 := 10 + float64(max(0, c.Users-10))
		return loadtest.WorkerSummary{
			Requests: 1000, RPS: 100 * float64(c.Users), P50: p50, P95: 2 * p50, P99: 3 * p50,
		}, ""
	}
	code, out, talk := quick(t.Context(), "loadtest", "tune", "-n", "my-app", "-f", "max_rps", "--step-duration",
		"20", "MaxRpsUser")
	want := "1\t100.0\t10.0 ms\t20.0 ms\t30.0 ms\t1000\t100%\tbaseline\n" +
		"40\t4000.0\t40.0 ms\t80.0 ms\t120.0 ms\t1000\t25%\t\n" +
		"11\t1100.0\t11.0 ms\t22.0 ms\t33.0 ms\t1000\t91%\t\n" +
		"16\t1600.0\t16.0 ms\t32.0 ms\t48.0 ms\t1000\t62%\t\n" +
		"13\t1300.0\t13.0 ms\t26.0 ms\t39.0 ms\t1000\t77%\t\n" +
		"12\t1200.0\t12.0 ms\t24.0 ms\t36.0 ms\t1000\t83%\toptimum\n"
	if diff := cmp.Diff(want, out); code != kit.ExitDone || diff != "" {
		t.Errorf("code %d: %s%s", code, diff, talk)
	}
	for _, want := range []string{
		"12 users per worker: 1200.0 requests/s, with a floor of p50 10.0 ms, p95 20.0 ms, p99 30.0 ms",
		"zae-limiter loadtest run -n my-app -f max_rps --users 100 --workers 9 MaxRpsUser",
		"--users 500 --workers 42", "--users 1000 --workers 84",
	} {
		if !strings.Contains(talk, want) {
			t.Errorf("it does not say %q: %s", want, talk)
		}
	}
	for i, e := range a.events {
		if want := map[bool]float64{true: 60, false: 20}[i == 0]; e.DurationSeconds != want ||
			e.UserClasses != "MaxRpsUser" {
			t.Errorf("invocation %d: %+v; want %v seconds", i, e, want)
		}
	}
	a.run = func(c loadtest.InvocationConfig) (loadtest.WorkerSummary, string) {
		if c.Users == 1 {
			return loadtest.WorkerSummary{Requests: 1000, RPS: 100, P50: 10, P95: 20, P99: 30}, ""
		}
		return loadtest.WorkerSummary{Requests: 5000, Failures: 2600, RPS: 800, P50: 1, P95: 1, P99: 1}, ""
	}
	_, out, talk = quick(t.Context(), "loadtest", "tune", "-n", "my-app", "-f", "max_rps", "--max-users", "2")
	if want := "1\t100.0\t10.0 ms\t20.0 ms\t30.0 ms\t1000\t100%\toptimum\n2\t800.0\t1.0 ms\t1.0 ms\t1.0 " +
		"ms\t5000\t1000%\t52% failed\n"; out != want || !strings.Contains(talk, ", 2,600 failures\n") {
		t.Errorf("%s%s", out, talk)
	}
	a.run = sampleRun
	code, out, talk = quick(t.Context(), "loadtest", "tune", "-n", "my-app", "-f", "max_rps")
	if code != kit.ExitFailed || !strings.HasSuffix(
		talk,
		"12 of 1234 requests of the baseline failed; run the scenario with one user until none fails, then tune it\n",
	) || !strings.HasSuffix(out, "1% failed\n") {
		t.Errorf("code %d: %s%s", code, out, talk)
	}
	a.run = func(loadtest.InvocationConfig) (loadtest.WorkerSummary, string) {
		return loadtest.WorkerSummary{Requests: 100}, ""
	}
	if code, _, talk := quick(
		t.Context(), "loadtest", "tune", "-n", "my-app", "-f", "max_rps",
	); code != kit.ExitFailed || !strings.HasSuffix(talk, "the baseline measured no latency\n") {
		t.Errorf("code %d: %s", code, talk)
	}
}

func TestOrchestrateInATask(t *testing.T) {
	a := newFakeAccount(t)
	m := newFakeMaster(t, 0, 8)
	m.state, m.users = "running", 25
	metadata := newMetadata(t, "10.0.2.106")
	master, err := url.Parse(m.URL)
	if err != nil {
		t.Fatal(err)
	}
	m.polled = func(n int) { m.workers = min(3, n-1) }
	for name, value := range map[string]string{
		"WORKER_FUNCTION_NAME": "my-app-load-worker", "LOCUSTFILE": "max_rps", "LOCUST_USER_CLASSES": "MaxRpsUser",
		"ECS_CONTAINER_METADATA_URI_V4": metadata,
		"LOCUST_WEB_PORT":               master.Port(), "IDLE_TIMEOUT": "1", "BOTO3_MAX_POOL": "50",
	} {
		t.Setenv(name, value)
	}
	code, _, talk := quick(t.Context(), "loadtest", "orchestrate")
	if code != kit.ExitDone || !strings.Contains(
		talk, "keeping workers of my-app-load-worker for the master at 10.0.2.106:5557",
	) || !strings.Contains(talk, "no test has run for 1s") {
		t.Errorf("code %d: %s", code, talk)
	}
	if len(a.events) != 3 {
		t.Fatalf("%d workers were invoked for 25 users, want 3", len(a.events))
	}
	want := loadtest.InvocationConfig{
		Mode: "worker", Locustfile: "max_rps", UserClasses: "MaxRpsUser", MasterHost: "10.0.2.106",
		MasterPort: 5557, PoolConnections: 50, JoinBefore: a.events[0].JoinBefore,
	}
	if diff := cmp.Diff(want, a.events[0]); diff != "" {
		t.Error(diff)
	}
	if left := time.Until(time.Unix(want.JoinBefore, 0)); left < 10*time.Second || left > 25*time.Second {
		t.Errorf("a worker may join for %v", left)
	}
}

func TestOrchestrateRefusesItsEnvironment(t *testing.T) {
	for _, test := range []struct{ rule, name, values string }{
		{"must be a number of seconds from 1 to 3600", "POLL_INTERVAL", "NaN 1e300 1e10 0 -1 0.5 3601 Inf soon"},
		{
			"must be a number of seconds above POLL_INTERVAL + 5, here 10, and at most 900", "PENDING_TIMEOUT",
			"NaN 5 10 901 1e300",
		},
		{"must be a number of seconds from 60 to 900", "LAMBDA_TIMEOUT", "NaN 59 901 -1"},
		{"must be a number above 0 and at most 1", "REPLACEMENT_PCT", "NaN 0 -0.1 1.01 80"},
		{"must be a number of seconds from 1 to 86400", "IDLE_TIMEOUT", "NaN 0 86401"},
		{"must be a whole number from 1 to 100000", "USERS_PER_WORKER", "NaN 0 0.5 1e19"},
		{"must be a whole number from 1 to 1000", "MIN_WORKERS", "NaN 0 none 1001"},
		{"must be a whole number from 1 to 1000", "MAX_WORKERS", "NaN 0 0.5 1001"},
		{"must be a number of seconds from 0 to 120", "STARTUP_LEAD_TIME", "NaN 1e12 -1 121"},
		{"must be a whole number from 1 to 65535", "MASTER_PORT", "NaN 1e9 0 65536"},
		{"must be a whole number from 1 to 65535", "LOCUST_WEB_PORT", "NaN 1e9 0 65536"},
		{"must be a whole number from 1 to 100000", "BOTO3_MAX_POOL", "NaN 0 1e9"},
	} {
		for value := range strings.FieldsSeq(test.values) {
			t.Run(test.name+"="+value, func(t *testing.T) {
				t.Setenv(test.name, value)
				code, _, talk := quick(t.Context(), "loadtest", "orchestrate")
				if want := fmt.Sprintf(
					"zae-limiter: invalid %s %q: %s\n", test.name, value, test.rule,
				); code != kit.ExitUsage || talk != want {
					t.Errorf("code %d: %s; want %s", code, talk, want)
				}
			})
		}
	}
	t.Setenv("MIN_WORKERS", "3")
	t.Setenv("MAX_WORKERS", "2")
	if code, _, talk := quick(t.Context(), "loadtest", "orchestrate"); code != kit.ExitUsage ||
		talk != "zae-limiter: MIN_WORKERS 3 is more than MAX_WORKERS 2\n" {
		t.Errorf("code %d: %s", code, talk)
	}
}

func TestOrchestrateAcceptsTheLimits(t *testing.T) {
	for _, set := range []string{
		"POLL_INTERVAL=1 PENDING_TIMEOUT=6.5 LAMBDA_TIMEOUT=60 REPLACEMENT_PCT=0.01 IDLE_TIMEOUT=1 " +
			"MIN_WORKERS=1 MAX_WORKERS=1 STARTUP_LEAD_TIME=0 MASTER_PORT=1",
		"POLL_INTERVAL=800 PENDING_TIMEOUT=900 LAMBDA_TIMEOUT=900 REPLACEMENT_PCT=1 IDLE_TIMEOUT=86400 " +
			"MIN_WORKERS=1000 MAX_WORKERS=1000 STARTUP_LEAD_TIME=120 MASTER_PORT=65535",
		"",
	} {
		variables := map[string]string{}
		for pair := range strings.FieldsSeq(set) {
			name, value, _ := strings.Cut(pair, "=")
			variables[name] = value
		}
		if _, err := family.ReadOrchestration(func(name string) string { return variables[name] }); err != nil {
			t.Errorf("%s: %v", set, err)
		}
	}
}

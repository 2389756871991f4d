package lambda

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/loadtest"
	"github.com/zeroae/zae-limiter-go/loadtest/locust"
	"github.com/zeroae/zae-limiter-go/memory"
)

// loadRig holds a load worker on a store in memory.
type loadRig struct {
	*loadHandler
	log  bytes.Buffer
	env  map[string]string
	repo limiter.Repository
	got  loadTarget
}

func newLoadRig(t *testing.T) *loadRig {
	t.Helper()
	r := &loadRig{
		repo: memory.New(nil),
		env:  map[string]string{"TARGET_STACK_NAME": "my-app", "LOCUSTFILE": "locustfiles/max_rps.py"},
	}
	h, err := newLoadHandler(func(name string) string { return r.env[name] }, &r.log, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.loadHandler, h.interval = h, 10*time.Millisecond
	h.open = func(_ context.Context, target loadTarget) (limiter.Repository, error) {
		r.got = target
		return keepOpen{r.repo}, nil
	}
	return r
}

// keepOpen is a store that stays open for the test.
type keepOpen struct{ limiter.Repository }

func (keepOpen) Close() error { return nil }

// withRequest returns the context of an invocation.
func withRequest(ctx context.Context) context.Context {
	return lambdacontext.NewContext(ctx, &lambdacontext.LambdaContext{AwsRequestID: "01234567-89ab-cdef"})
}

// active returns the names of the namespaces of a store.
func active(t *testing.T, repo limiter.Repository) (names []string) {
	t.Helper()
	for n, err := range repo.Namespaces(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, n.Name)
	}
	return names
}

func TestHeadlessLoadOnATable(t *testing.T) {
	r := newRig(t)
	before := active(t, r.repo)
	var log bytes.Buffer
	h, err := newLoadHandler(func(name string) string {
		return map[string]string{"TARGET_STACK_NAME": r.table}[name]
	}, &log, nil)
	r.ok(err)
	answer, err := h.handle(withRequest(t.Context()), json.RawMessage(
		`{"config": {"mode": "headless", "locustfile": "max_rps", "user_classes": "MaxRpsCascadeUser", "users": 4, "spawn_rate": 100, "duration_seconds": 0.5}}`))
	r.ok(err)
	text, err := json.Marshal(answer)
	r.ok(err)
	var fields map[string]float64
	r.ok(json.Unmarshal(text, &fields))
	for _, name := range []string{
		"total_requests", "requests_per_second", "avg_response_time", "min_response_time", "max_response_time",
		"p50", "p95", "p99",
	} {
		if fields[name] <= 0 {
			t.Errorf("%s is %v", name, fields[name])
		}
	}
	if len(fields) != 10 || fields["total_failures"] != 0 || fields["failure_rate"] != 0 ||
		fields["max_response_time"] > 60_000 {
		t.Errorf("%s", text)
	}
	if diff := cmp.Diff(before, active(t, r.repo)); diff != "" {
		t.Errorf("namespaces: %s", diff)
	}
	if !strings.Contains(
		log.String(), `"request_id":"01234567-89ab-cdef"`,
	) || !strings.Contains(log.String(), `"scenario":"max_rps"`) {
		t.Error(log.String())
	}
}

// A test ends early when its caller asks for that. It still returns what it
// measured.
func TestHeadlessLoadIsStopped(t *testing.T) {
	r := newLoadRig(t)
	lim, err := limiter.New(r.repo, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lim.RegisterNamespaces(t.Context(), loadtest.StopNamespace("0123abcd")); err != nil {
		t.Fatal(err)
	}
	answer, err := r.handle(withRequest(t.Context()),
		json.RawMessage(`{"config": {"users": 2, "spawn_rate": 1000, "duration_seconds": 600, "test_id": "0123abcd"}}`))
	if s, ok := answer.(loadtest.WorkerSummary); err != nil || !ok || s.Requests == 0 {
		t.Errorf("%+v, %v; want statistics", answer, err)
	}
}

// A test ends when a tenth of the time of its invocation is left.
func TestHeadlessLoadEndsBeforeItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLoadRig(t)
		r.env["LOCUSTFILE"] = "simple"
		ctx, cancel := context.WithTimeout(withRequest(t.Context()), 5*time.Minute)
		defer cancel()
		began := time.Now()
		answer, err := r.handle(ctx, json.RawMessage(`{"config": {"users": 2, "duration_seconds": 600}}`))
		if s, ok := answer.(loadtest.WorkerSummary); err != nil || !ok || s.Requests == 0 {
			t.Errorf("%+v, %v; want statistics", answer, err)
		}
		if took := time.Since(began); took < 270*time.Second || took > 275*time.Second {
			t.Errorf("it took %v of 5 minutes", took)
		}
	})
}

func TestWorkerOfAMaster(t *testing.T) {
	r := newLoadRig(t)
	r.env["LOCUST_USER_CLASSES"], r.env["TARGET_REGION"], r.env["BOTO3_MAX_POOL"] = "MaxRpsUser", "eu-west-3", "7"
	var got locust.Options
	var address string
	//nolint:contextcheck // the store is listed with the context of the test
	r.work = func(
		ctx context.Context, master string, open func(locust.Test) (locust.Swarm, error), opts *locust.Options,
	) (locust.Totals, error) {
		address, got = master, *opts
		got.Log = nil
		swarm, err := open(locust.Test{ID: "89abcdef", Worker: opts.ID, Record: func(loadtest.Event) {}})
		if err != nil {
			return locust.Totals{}, err
		}
		if err := swarm.Setup(ctx); err != nil {
			return locust.Totals{}, err
		}
		if names := active(t, r.repo); !cmp.Equal(names, []string{"default", "loadtest-max_rps-89abcdef"}) {
			t.Errorf("the test runs in %q", names)
		}
		return locust.Totals{}, swarm.Teardown(ctx)
	}
	answer, err := r.handle(withRequest(t.Context()),
		json.RawMessage(`{"config": {"mode": "worker", "master_host": "10.0.0.5"}}`))
	if diff := cmp.Diff(
		any(loadtest.WorkerEnd{Status: "worker_completed", Worker: "lambda_01234567"}), answer,
	); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	want := locust.Options{ID: "lambda_01234567", Scenario: "max_rps", Classes: []string{"MaxRpsUser"}}
	if address != "10.0.0.5:5557" || got.ID != want.ID || got.Scenario != want.Scenario ||
		!cmp.Equal(got.Classes, want.Classes) {
		t.Errorf("%s %+v; want %+v", address, got, want)
	}
	if want := (loadTarget{"my-app", "eu-west-3", "7"}); r.got != want {
		t.Errorf("opened %+v, want %+v", r.got, want)
	}
}

func TestLateWorkerEndsAtOnce(t *testing.T) {
	r := newLoadRig(t)
	r.work = func(
		context.Context, string, func(locust.Test) (locust.Swarm, error), *locust.Options,
	) (locust.Totals, error) {
		return locust.Totals{}, errors.New("it connected")
	}
	answer, err := r.handle(withRequest(t.Context()),
		json.RawMessage(`{"config": {"mode": "worker", "master_host": "10.0.0.5", "join_before": 1000}}`))
	if diff := cmp.Diff(
		any(loadtest.WorkerEnd{Status: "worker_expired", Worker: "lambda_01234567"}), answer,
	); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if _, err := r.handle(
		withRequest(t.Context()),
		json.RawMessage(`{"config": {"mode": "worker", "master_host": "10.0.0.5", "join_before": 99999999999}}`),
	); err == nil {
		t.Error("a worker in time did not connect")
	}
}

func TestInvalidLoadRequests(t *testing.T) {
	for request, want := range map[string]string{
		`[]`:                                         "decode the request for a load test",
		`{"config": {"mode": "other"}}`:              `invalid mode "other": must be headless or worker`,
		`{"config": {"mode": "worker"}}`:             "must be the address of the master",
		`{"config": {"users": -1}}`:                  `invalid users "-1"`,
		`{"config": {"spawn_rate": -1}}`:             `invalid spawn_rate "-1"`,
		`{"config": {"duration_seconds": -1}}`:       `invalid duration_seconds "-1"`,
		`{"config": {"master_port": 70000}}`:         `invalid master_port "70000"`,
		`{"config": {"locustfile": "max_rsp"}}`:      "did you mean max_rps?",
		`{"config": {"user_classes": "NoSuchUser"}}`: "NoSuchUser",
	} {
		r := newLoadRig(t)
		if _, err := r.handle(
			withRequest(t.Context()), json.RawMessage(request),
		); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", request, err, want)
		}
		if r.got != (loadTarget{}) {
			t.Errorf("%s opened the table", request)
		}
	}
	r := newLoadRig(t)
	r.env = nil
	if _, err := r.handle(
		withRequest(t.Context()), json.RawMessage(`{}`),
	); err == nil || !strings.HasPrefix(err.Error(), "there is no target") {
		t.Error(err)
	}
	if _, err := openTarget(
		t.Context(), loadTarget{table: "x", connections: "many"},
	); err == nil || !strings.HasPrefix(err.Error(), `BOTO3_MAX_POOL "many": must be`) {
		t.Error(err)
	}
}

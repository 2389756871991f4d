package manifest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/manifest"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

// lambda is a provisioner with one table, and the server that receives its
// answers to CloudFormation.
type lambda struct {
	*testing.T
	manifest.Provisioner
	repo   limiter.Repository
	id     string // of namespace tenant-a
	stack  string // sender of the requests
	name   string // resource in the stack
	url    string
	mu     sync.Mutex
	bodies []string
	status []int // statuses of the next answers, then 200
}

const (
	stackID         = "arn:aws:cloudformation:us-east-1:123456789012:stack/limits/1"
	tableProperty   = `"TableName": "my-app"`
	limitProperties = `"Resources": {"gpt-4": {"Limits": {"rpm": {"Capacity": "100"}}}, "claude": {"Limits": {"rpm": {"Capacity": "5"}}}}`
)

func newLambda(t *testing.T) *lambda {
	t.Helper()
	l := &lambda{T: t, repo: memory.New(nil), stack: stackID, name: "TenantLimits"}
	ns, err := l.repo.RegisterNamespace(bg, epoch, "tenant-a")
	check(t, err)
	l.id = ns.ID
	server := httptest.NewServer(http.HandlerFunc(l.receive))
	t.Cleanup(server.Close)
	l.url = server.URL + "/answer?X-Amz-Signature=secret"
	l.Provisioner = manifest.Provisioner{
		Table: "my-app",
		Open: func(ctx context.Context, table string) (limiter.Repository, error) {
			if table != "my-app" {
				return nil, fmt.Errorf("table %s: %w", table, limiter.ErrNotFound)
			}
			return l.repo.Namespace(ctx, "default") // a view, whose Close does nothing
		},
	}
	return l
}

func (l *lambda) receive(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPut || r.Header.Get("Content-Type") != "" ||
		r.ContentLength != int64(len(body)) {
		l.Errorf("%s with content type %q, length %d of %d, %v", r.Method, r.Header.Get("Content-Type"),
			r.ContentLength, len(body), err)
	}
	if len(l.status) > 0 {
		w.WriteHeader(l.status[0])
		l.status = l.status[1:]
		return
	}
	l.bodies = append(l.bodies, string(body))
}

// ask sends a request of CloudFormation and returns the answer that the server
// received.
func (l *lambda) ask(kind, physical, properties string) manifest.ResourceAnswer {
	l.Helper()
	event := fmt.Sprintf(`{"RequestType": %q, "ResponseURL": %q, "StackId": %q, "RequestId": "r1", "LogicalResourceId": %q,
		"ResourceType": "Custom::ZaeLimiterLimits", "PhysicalResourceId": %q, "ResourceProperties": {"ServiceToken": "arn", %s}}`,
		kind, l.url, l.stack, l.name, physical, properties)
	if _, err := l.Handle(bg, []byte(event)); err != nil {
		l.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.bodies) != 1 || len(l.bodies[0]) > 4096 {
		l.Fatalf("%d answers: %s", len(l.bodies), l.bodies)
	}
	var a manifest.ResourceAnswer
	check(l.T, json.Unmarshal([]byte(l.bodies[0]), &a))
	l.bodies = nil
	equal(l.T, "echo", []string{a.StackID, a.RequestID, a.LogicalResourceID}, []string{l.stack, "r1", l.name})
	return a
}

// limitedResources returns the resources with defaults in tenant-a.
func (l *lambda) limitedResources() []string {
	l.Helper()
	view, err := l.repo.Namespace(bg, "tenant-a")
	check(l.T, err)
	names, err := view.ResourcesWithDefaults(bg)
	check(l.T, err)
	return names
}

func (l *lambda) physicalID() string { return "my-app/" + l.id + "/limits-provisioner" }

func TestCustomResourceIsCreatedUpdatedAndDeleted(t *testing.T) {
	l := newLambda(t)
	a := l.ask("Create", "", tableProperty+`, "Namespace": "tenant-a", `+limitProperties)
	equal(t, "answer", a.Status+" "+a.PhysicalResourceID+" "+a.Reason, "SUCCESS "+l.physicalID()+" ")
	equal(t, "data", *a.Data, manifest.ResourceData{Created: 2})
	equal(t, "stored", l.limitedResources(), []string{"claude", "gpt-4"})

	a = l.ask("Update", l.physicalID(),
		`"NamespaceId": "`+l.id+`", "Resources": {"gpt-4": {"Limits": {"rpm": {"Capacity": 7}}}, "o1": {"Limits": {"rpm": {"Capacity": "5"}}}}`)
	equal(t, "answer", a.Status+" "+a.PhysicalResourceID, "SUCCESS "+l.physicalID())
	equal(t, "data", *a.Data, manifest.ResourceData{Created: 1, Updated: 1, Deleted: 1})
	equal(t, "stored", l.limitedResources(), []string{"gpt-4", "o1"})

	a = l.ask("Delete", l.physicalID(), `"Namespace": "whatever it is by now", "Unknown": 1`)
	equal(t, "answer", a.Status+" "+a.PhysicalResourceID, "SUCCESS "+l.physicalID())
	equal(t, "data", *a.Data, manifest.ResourceData{Deleted: 2})
	equal(t, "stored", len(l.limitedResources()), 0)

	view, err := l.repo.Namespace(bg, "tenant-a")
	check(t, err)
	for ev, err := range view.AuditEvents(bg, "$RESOURCE:gpt-4", "") {
		check(t, err)
		equal(t, "who", ev.Principal, stackID)
	}
}

func TestDeleteOfWhatIsGoneSucceeds(t *testing.T) {
	l := newLambda(t)
	check(t, l.repo.DeleteNamespace(bg, epoch, "tenant-a"))
	_, err := l.repo.RegisterNamespace(bg, epoch, "tenant-a") // a new namespace of the same name
	check(t, err)
	_, _, err = manifest.Apply(bg, l.repo,
		parse(t, "namespace: tenant-a\nresources: {gpt-4: {limits: {rpm: {capacity: 1}}}}"), nil)
	check(t, err)
	for _, id := range []string{
		"failed", "", l.physicalID(), "my-app/unknown/limits-provisioner",
		"gone/" + l.id + "/limits-provisioner", "my-app/a/b/limits-provisioner",
	} {
		a := l.ask("Delete", id, tableProperty)
		if a.Status != "SUCCESS" || id != "" && a.PhysicalResourceID != id {
			t.Errorf("%q: %+v", id, a)
		}
	}
	equal(t, "limits of the other one", l.limitedResources(), []string{"gpt-4"})
}

func TestFailedRequestsAreAnswered(t *testing.T) {
	l := newLambda(t)
	for properties, want := range map[string]string{
		`"Namespace": "tenant-b"`: "`zae-limiter namespace " +
			"register tenant-b` creates it",
		`"NamespaceId": "unknown"`:                                             `namespace ID "unknown": not found`,
		`"NamespaceId": "` + l.id + `", "Namespace": "b"`:                      `the manifest is for namespace "b", but id`,
		`"TableName": "other"`:                                                 `table other: not found`,
		`"Resources": {"gpt-4": {"rpm": 1}}`:                                   `Resources.gpt-4: there is no key "rpm" here`,
		`"System": {"Limits": {"` + strings.Repeat(`\u0001`, 3000) + `": {}}}`: `System.Limits`,
	} {
		a := l.ask("Create", "", properties)
		if a.Status != "FAILED" || a.PhysicalResourceID != "failed" || !strings.Contains(a.Reason, want) ||
			strings.Contains(a.Reason, "\n") {
			t.Errorf("%s: %+v", properties, a)
		}
		if a := l.ask("Update", l.physicalID(), properties); a.Status != "FAILED" ||
			a.PhysicalResourceID != l.physicalID() {
			t.Errorf("%s: %+v", properties, a)
		}
	}
	if a := l.ask("Rename", "x", tableProperty); a.Status != "FAILED" ||
		!strings.Contains(a.Reason, "Create, Update or Delete") {
		t.Errorf("%+v", a)
	}
}

// TestHalfCreatedResourceCanBeDeleted checks that a delete finds what a failed
// create has made.
func TestHalfCreatedResourceCanBeDeleted(t *testing.T) {
	l := newLambda(t)
	open := l.Open
	l.Open = func(ctx context.Context, table string) (limiter.Repository, error) {
		repo, err := open(ctx, table)
		check(t, err)
		failed := false
		return repotest.NewFaulty(repo, func(method string) repotest.Fault {
			if method == "ReplaceConfig" && !failed {
				failed = true
				return repotest.Before
			}
			return repotest.None
		}), nil
	}
	a := l.ask("Create", "", `"Namespace": "tenant-a", "System": {"OnUnavailable": "allow"}, `+limitProperties)
	if a.Status != "FAILED" || !strings.Contains(a.Reason, "1 of 3 changes failed; create system: ") {
		t.Errorf("%+v", a)
	}
	equal(t, "physical id", a.PhysicalResourceID, l.physicalID())
	equal(t, "data", *a.Data, manifest.ResourceData{Created: 2, Failed: 1})
	l.Open = open
	a = l.ask("Delete", a.PhysicalResourceID, tableProperty)
	equal(t, "answer", a.Status, "SUCCESS")
	equal(t, "stored", len(l.limitedResources()), 0)
}

func TestAnswerIsBroughtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries []time.Duration
		begin := time.Now()
		p := manifest.Provisioner{Client: &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) {
			tries = append(tries, time.Since(begin))
			switch len(tries) {
			case 1:
				return nil, io.ErrUnexpectedEOF
			case 2:
				return &http.Response{
					Status: "503 Slow down", StatusCode: http.StatusServiceUnavailable, Body: http.NoBody,
				}, nil
			}
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		})}}
		_, err := p.Handle(bg, []byte(`{"RequestType": "Delete", "ResponseURL": "http://example.com/?secret"}`))
		check(t, err)
		equal(t, "tries", tries, []time.Duration{0, 500 * time.Millisecond, 1500 * time.Millisecond})
	})
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAnswerThatCannotBeBroughtIsAnErrorWithoutTheAddress(t *testing.T) {
	l := newLambda(t)
	l.status = []int{403, 403}
	_, err := l.Handle(bg, []byte(`{"RequestType": "Delete", "ResponseURL": "`+l.url+`"}`))
	if err == nil || !strings.Contains(err.Error(), "403 Forbidden") || len(l.status) != 1 {
		t.Errorf("error %v, %v left", err, l.status)
	}
	synctest.Test(t, func(t *testing.T) {
		p := manifest.Provisioner{Client: &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) {
			return nil, io.ErrUnexpectedEOF
		})}}
		for _, url := range []string{"http://example.com/?secret", "secret://\x01", ""} {
			_, err := p.Handle(bg,
				[]byte(`{"RequestType": "Delete", "ResponseURL": `+string(must(json.Marshal(url)))+`}`))
			if err == nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: error %v", url, err)
			}
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestDeadlineLeavesTimeForTheAnswer checks that a function answers before it
// is stopped.
func TestDeadlineLeavesTimeForTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		repo := &hookedStore{Repository: memory.New(nil), before: sleepSecond}
		answered := time.Duration(0)
		begin := time.Now()
		p := manifest.Provisioner{
			Open: func(context.Context, string) (limiter.Repository, error) { return sameView{repo}, nil },
			Client: &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
				check(t, r.Context().Err())
				answered = time.Since(begin)
				return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
			})},
		}
		var b strings.Builder
		for i := range 1000 {
			fmt.Fprintf(&b, `, "e%d": {"Resources": {"r": {"Limits": {"rpm": {"Capacity": "1"}}}}}`, i)
		}
		ctx, cancel := context.WithTimeout(bg, 60*time.Second)
		defer cancel()
		a, err := p.Handle(ctx,
			[]byte(
				`{"RequestType": "Create", "ResponseURL": "http://example.com", "ResourceProperties": {"Entities": {`+
					b.String()[2:]+`}}}`,
			))
		check(t, err)
		if a := a.(*manifest.ResourceAnswer); a.Status != "FAILED" || a.Data.Created < 100 ||
			!strings.Contains(a.Reason, "deadline") {
			t.Errorf("%+v %+v", a, a.Data)
		}
		if answered < 35*time.Second || answered > 45*time.Second {
			t.Errorf("answered after %v", answered)
		}
	})
}

// sameView is a store whose namespaces are all the hooked store.
type sameView struct{ *hookedStore }

func (s sameView) Namespace(context.Context, string) (limiter.Repository, error) {
	return s.hookedStore, nil
}
func (s sameView) Close() error { return nil }

func TestProgramsPlanAndApply(t *testing.T) {
	l := newLambda(t)
	request := func(action, id string) string {
		return fmt.Sprintf(`{%s "table_name": "my-app", "namespace_id": %q, "manifest": {"namespace": "tenant-a",
			"system": {"limits": {"rpm": {"capacity": 1}}}, "entities": {"key-1": {"resources": {"_default_": {"limits": {"rpm": {"capacity": 2}}}}}}}}`, action, id)
	}
	answer := func(event string) string {
		t.Helper()
		a, err := l.Handle(bg, []byte(event))
		if err != nil {
			return err.Error()
		}
		text, err := json.Marshal(a)
		check(t, err)
		return string(text)
	}
	const changes = `"changes":[{"action":"create","level":"system","target":null},{"action":"create","level":"entity","target":"key-1/_default_"}]`
	equal(t, "plan", answer(request(`"action": "plan",`, l.id)), `{"status":"planned",`+changes+`}`)
	equal(t, "plan without saying so", answer(request(``, "")), `{"status":"planned",`+changes+`}`)
	equal(t, "apply", answer(request(`"action": "apply",`, l.id)),
		`{"status":"applied",`+changes+`,"created":2,"updated":0,"deleted":0,"errors":[]}`)
	equal(t, "plan again", answer(request(`"action": "plan",`, l.id)), `{"status":"planned","changes":[]}`)
	for event, want := range map[string]string{
		request(`"action": "destroy",`, l.id):                        `action is "destroy", but must be plan or apply`,
		request(`"action": "apply",`, "nope"):                        `namespace ID "nope": not found`,
		`{"action": "apply", "manifest": {"namespace": "tenant-b"}}`: `namespace "tenant-b": not found`,
		`{"action": "apply", "manifest": {"x": 1}}`:                  `there is no key "x" here; the keys are entities, namespace, resources, system`,
		`{"action": "apply"}`:                                        `a manifest is a mapping with the keys entities, namespace, resources, system`,
		`{"action": "apply", "table_name": "other", "manifest": {}}`: `table other: not found`,
	} {
		equal(t, event, answer(event), want)
	}
	if got := answer(`[]`); !strings.HasPrefix(got, "invalid request: ") {
		t.Errorf("a list: %s", got)
	}
}

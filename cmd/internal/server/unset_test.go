package server

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/memory"
)

// Limits that the operator has not stored are a fault of the server, for callers
// that take tokens. The operator learns what is missing, and the caller does not.
func TestNoLimitsIsAFaultOfTheServer(t *testing.T) {
	var reports []string
	r := newRig(t, memory.New(nil), Options{OnError: func(err error) { reports = append(reports, err.Error()) }})
	id := r.acquire("", "key", `{"rpm":1}`)
	if err := r.lim.DeleteResourceDefaults(context.Background(), "gpt-4"); err != nil {
		t.Fatal(err)
	}
	for path, body := range map[string]string{
		"/v1/acquire":                   acquireJSON("key-2", `{"rpm":1}`),
		"/v1/leases/" + id + "/consume": `{"consume":{"rpm":1}}`,
	} {
		reports = nil
		problem := r.want(500, request{path: path, body: body})
		entity := "key-2"
		if path != "/v1/acquire" {
			entity = "key"
		}
		if problem["detail"] != "the server is not set up for this request; its operator finds the reason in the log" ||
			len(problem) != 4 {
			t.Errorf("%s: %v", path, problem)
		}
		if diff := cmp.Diff(
			[]string{
				"there are no limits for entity " + entity + " and resource gpt-4 at any level; store some, " +
					"such as defaults of the resource",
			},
			reports,
		); diff != "" {
			t.Errorf("%s: reports (-want +got):\n%s", path, diff)
		}
	}
}

// A caller that asks about limits, or changes their bucket, asks for something that
// is not there.
func TestQuestionsAboutMissingLimits(t *testing.T) {
	var reports []error
	r := newRig(t, memory.New(nil), Options{OnError: func(err error) { reports = append(reports, err) }})
	for path, body := range map[string]string{
		"/v1/explain":             `{"entity_id":"key","resource":"unknown"}`,
		"/v1/entities/key/reset":  `{"resource":"unknown"}`,
		"/v1/entities/key/top-up": `{"resource":"unknown","amounts":{"rpm":1},"id":"one"}`,
	} {
		if p := r.want(
			404, request{path: path, body: body},
		); p["detail"] != "no level stores limits for this entity and resource; set some, such as defaults "+
			"of the resource" {
			t.Errorf("%s: %v", path, p)
		}
	}
	if len(reports) > 0 {
		t.Errorf("reports: %v", reports)
	}
}

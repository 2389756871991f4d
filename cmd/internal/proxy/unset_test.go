package proxy

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
)

// wantReport checks the texts of all errors that the operator got.
func (r *rig) wantReport(want ...string) {
	r.t.Helper()
	r.proxy.calls.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	var got []string
	for _, err := range r.errs {
		got = append(got, err.Error())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Errorf("reports (-want +got):\n%s", diff)
	}
}

// Limits that the operator has not stored are a fault of the proxy. The client gets
// one general sentence, in the form of its API, and the operator all of it.
func TestNoLimitsIsAFaultOfTheProxy(t *testing.T) {
	r := newRig(t, answerJSON(plainChat), func(o *Options) { o.Paths = []string{"*"} })
	for _, resource := range []string{"words", "other"} { // limits, and none that the proxy charges
		if err := r.lim.SetResourceDefaults(
			context.Background(), resource, limiter.PerMinute("words", 17),
		); err != nil {
			t.Fatal(err)
		}
	}
	entity := HashKey(aliceKey)
	noLimits := "there are no limits for entity " + entity + " and resource unknown at any level; store " +
		"some, such as defaults of the resource"
	const noneCharged = "has limits, but none that calls are charged to; store one of rpm, tpm"
	for _, test := range []struct {
		path, body, detail, kind, report string
	}{
		{chatPath, `{"model":"unknown"}`, "the model", "server_error", noLimits},
		{"/v1/messages", `{"model":"unknown","max_tokens":1}`, "the model", "api_error", noLimits},
		{chatPath, `{"model":"words"}`, "the model", "server_error", `invalid resource "words": ` + noneCharged},
		{"/v1/files", `{}`, "this call", "server_error", `invalid resource "other": ` + noneCharged},
	} {
		r.mu.Lock()
		r.errs = nil
		r.mu.Unlock()
		resp, body := r.post(test.path, test.body)
		r.wantStatus(resp, 500)
		detail := "this proxy is not set up for " + test.detail + "; its operator finds the reason in the log"
		var answer struct {
			Status int
			Detail string
			Error  struct{ Message, Type string }
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			t.Fatal(err)
		}
		if answer.Status != 500 || answer.Detail != detail || answer.Error.Message != detail ||
			answer.Error.Type != test.kind {
			t.Errorf("%s: %s", test.body, body)
		}
		if resp.Header.Get("X-Should-Retry") != "false" || resp.Header.Get("Retry-After") != "" {
			t.Errorf("%s: an SDK retries: %v", test.body, resp.Header)
		}
		for _, secret := range []string{entity, "words", "rpm", "17"} {
			if strings.Contains(body, secret) {
				t.Errorf("%s: the answer has %s: %s", test.body, secret, body)
			}
		}
		r.wantReport(test.report)
	}
	if log := r.log.String(); strings.Count(log, `"outcome":"unset"`) != 4 || !strings.Contains(log, noLimits) {
		t.Errorf("log %s", log)
	}
	if r.calls() != 0 {
		t.Errorf("%d calls reached the upstream", r.calls())
	}
}

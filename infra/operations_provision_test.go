package infra_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/manifest"
)

// provisionOperations are limits as a file, by way of the provisioner: its
// function is asked by stacks and by programs. One level changes at a time, so
// that every run sends the same.
func provisionOperations() []operation {
	const resources = `"Resources": {"gpt-4": {"Limits": {"rpm": {"Capacity": "%d"}}}}`
	const entities = `"Entities": {"key": {"Resources": {"gpt-4": {"Limits": {"rpm": {"Capacity": "%d"}}}}}}`
	created := `"Namespace": "declared", "System": {"OnUnavailable": "allow"}, ` + fmt.Sprintf(resources+", "+entities, 500, 100)
	return []operation{
		{"Managed", reading + applying, func(w *world) {
			_, _, _, err := w.repo.Managed(w.Context())
			w.ok(err)
		}},
		{"SetManaged", managing + applying, func(w *world) {
			w.ok(w.repo.SetManaged(w.Context(), noon, "", "hash", "", []limiter.Scope{{Resource: gpt}}))
		}},
		{"ReplaceConfig", managing + applying, func(w *world) {
			cfg := limiter.Config{OnUnavailable: limiter.Allow, Limits: []limiter.Limit{limiter.PerMinute("rpm", 100)}}
			w.ok(w.repo.ReplaceConfig(w.Context(), cfg, w.event()))
		}},
		{"Provision: create", managing + applying, func(w *world) {
			w.declared()
			w.provision("Create", "", created, `"SUCCESS"`)
		}},
		{"Provision: plan", reading + applying, func(w *world) {
			w.declared()
			w.invoke("ProvisionerFunction", `{"manifest": {"namespace": "declared"}}`, `"planned"`)
		}},
		{"Provision: a command with an id", managing + applying, func(w *world) {
			w.invoke("ProvisionerFunction", fmt.Sprintf(`{"action": "apply", "table_name": %q, "namespace_id": %q, "manifest": {
				"system": {"on_unavailable": "allow"}, "resources": {"gpt-4": {"limits": {"rpm": {"capacity": 600}}}},
				"entities": {"key": {"resources": {"gpt-4": {"limits": {"rpm": {"capacity": 100}}}}}}}}`, w.table, w.declared()), `"updated":1,"deleted":0,"errors":[]`)
		}},
		{"Provision: update", managing + applying, func(w *world) {
			id := w.declared()
			w.consume(w.connect(w.config(w.next), "declared"), "key", time.Now())
			w.provision("Update", w.table+"/"+id+"/limits-provisioner", fmt.Sprintf(`"NamespaceId": %q, `+resources+", "+entities, id, 700, 200), `"SUCCESS"`)
		}},
		{"Provision: delete", managing + applying, func(w *world) {
			w.provision("Delete", w.table+"/"+w.declared()+"/limits-provisioner", created, `"SUCCESS"`)
		}},
		{"Provision: delete, the namespace is gone", reading + applying, func(w *world) {
			w.provision("Delete", w.table+"/gone/limits-provisioner", created, `"SUCCESS"`)
		}},
		{"Provision: create, there is no such namespace", reading + applying, func(w *world) {
			w.provision("Create", "", `"Namespace": "nowhere"`, "namespace register nowhere")
		}},
	}
}

// What a store has for manifests, besides the port, is recorded by itself, too.
func TestOperationsAreAllOfStoresOfManifests(t *testing.T) {
	for method := range reflect.TypeFor[manifest.Store]().Methods() {
		if !slices.ContainsFunc(operations(), func(o operation) bool { return o.name == method.Name }) {
			t.Errorf("%s is not tried", method.Name)
		}
	}
}

// declared is the ID of the namespace whose limits are provisioned; the calls
// are about it.
func (w *world) declared() string {
	w.Helper()
	ns, err := w.others.RegisterNamespace(w.Context(), noon, "declared")
	w.ok(err)
	w.space = ns.ID
	return ns.ID
}

// provision asks in the name of CloudFormation.
func (w *world) provision(request, physical, properties, want string) {
	w.Helper()
	w.invoke("ProvisionerFunction", fmt.Sprintf(`{"RequestType": %q, "ResponseURL": "{answer}", "StackId": "arn:aws:cloudformation:limits",
		"RequestId": "1", "LogicalResourceId": "Limits", "PhysicalResourceId": %q, "ResourceProperties": {"ServiceToken": "arn", %s}}`,
		request, physical, properties), want)
}

package stores_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/manifest"
)

// TestRenamedResourceKeepsItsLimits renames a resource of a stack: CloudFormation creates
// the new one and deletes the old one.
func TestRenamedResourceKeepsItsLimits(t *testing.T) {
	for _, name := range []string{"sqlite", "dynamo"} {
		t.Run(name, func(t *testing.T) {
			repo := managedStores[name](t)
			_, err := repo.RegisterNamespace(bg, epoch, "tenant-a")
			check(t, err)
			tenant, err := repo.Namespace(bg, "tenant-a")
			check(t, err)
			server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			defer server.Close()
			p := manifest.Provisioner{
				Table: "my-app",
				Open: func(ctx context.Context, _ string) (limiter.Repository, error) {
					return repo.Namespace(ctx, "default") // a view, whose Close does nothing
				},
			}
			send := func(kind, resource, physical, properties string, want ...string) string {
				t.Helper()
				answer, err := p.Handle(bg, fmt.Appendf(nil, `{"RequestType": %q, "ResponseURL": %q,
					"StackId": "arn:aws:cloudformation:us-east-1:123456789012:stack/limits/1",
					"LogicalResourceId": %q, "PhysicalResourceId": %q, "ResourceProperties": {%s}}`,
					kind, server.URL, resource, physical, properties))
				check(t, err)
				a := answer.(*manifest.ResourceAnswer)
				if a.Status != "SUCCESS" {
					t.Fatalf("%s of %s: %+v", kind, resource, a)
				}
				stored, err := tenant.ResourcesWithDefaults(bg)
				check(t, err)
				equal(t, "stored after "+kind+" of "+resource, stored, want)
				return a.PhysicalResourceID
			}
			const properties = `"Namespace": "tenant-a", "Resources": {
				"gpt-4": {"Limits": {"rpm": {"Capacity": "100"}}}, "claude": {"Limits": {"rpm": {"Capacity": "5"}}}}`
			before := send("Create", "Old", "", properties, "claude", "gpt-4")
			after := send("Create", "New", "", properties, "claude", "gpt-4")
			send("Delete", "Old", before, "", "claude", "gpt-4")
			send("Delete", "New", after, "")
		})
	}
}

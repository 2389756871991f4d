package infra_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
	"github.com/zeroae/zae-limiter-go/internal/golden"
)

// The golden file has all resources and outputs of a load stack, for review.
func TestLoadTemplate(t *testing.T) {
	all := loadEverything(templates(t)["load.yaml"])
	text, err := json.MarshalIndent(
		fakeaws.Tree{"Resources": all.Resources(), "Outputs": all.Value(all.Doc["Outputs"])}, "", "  ",
	)
	must(t, err)
	golden.Check(t, "testdata/load.json", string(text)+"\n")
}

// A load stack costs nothing and takes nothing until a test starts.
func TestALoadStackIsIdle(t *testing.T) {
	made := loadEverything(templates(t)["load.yaml"]).Resources()
	function := made["WorkerFunction"]
	if function["ReservedConcurrentExecutions"] != nil {
		t.Error("the function takes concurrency from others")
	}
	if c := made["WorkerInvokeConfig"]; c["MaximumRetryAttempts"] != "0" || c["MaximumEventAgeInSeconds"] != "60" {
		t.Errorf("late workers: %v", c)
	}
	service := made["MasterService"]
	if service["DesiredCount"] != "0" || fakeaws.At(
		service, "NetworkConfiguration", "AwsvpcConfiguration", "AssignPublicIp",
	) != "DISABLED" {
		t.Errorf("%v", service)
	}
	for id, resource := range made {
		if strings.HasSuffix(id, "Alarm") {
			if diff := cmp.Diff([]string{"topic"}, fakeaws.Texts(resource["AlarmActions"])); diff != "" {
				t.Errorf("%s: %s", id, diff)
			}
		}
	}
}

// Both containers are essential: the end of one ends the other.
func TestContainers(t *testing.T) {
	made := loadEverything(templates(t)["load.yaml"]).Resources()
	list, _ := made["MasterTask"]["ContainerDefinitions"].([]any)
	var names []string
	for _, c := range list {
		names = append(names, fakeaws.Text(c, "Name"))
		if fakeaws.Text(c, "Essential") != "true" || fakeaws.Text(c, "Image") != "LocustRepository.RepositoryUri:tag" {
			t.Errorf("%v", c)
		}
		variables, _ := fakeaws.At(c, "Environment").([]any)
		if !slices.ContainsFunc(variables, func(v any) bool {
			return fakeaws.Text(v, "Name") == infra.ScenarioVariable
		}) {
			t.Errorf("%v has no %s", c, infra.ScenarioVariable)
		}
	}
	if diff := cmp.Diff([]string{infra.MasterContainer, infra.OrchestratorContainer}, names); diff != "" {
		t.Error(diff)
	}
}

// The template has the parameters of the settings, and each setting is one.
func TestLoadParameters(t *testing.T) {
	w := newLoadWorld(t)
	w.deploy(t, w.loadOptions())
	for name := range w.stack().Parameters {
		if fakeaws.Section(templates(t)["load.yaml"], "Parameters")[name] == nil {
			t.Errorf("the template has no parameter %s", name)
		}
	}
	if want := len(fakeaws.Section(templates(t)["load.yaml"], "Parameters")); len(w.stack().Parameters) != want {
		t.Errorf("%d parameters, want %d: %v", len(w.stack().Parameters), want, w.stack().Parameters)
	}
}

package infra_test

import (
	"encoding/xml"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
)

// network creates a VPC with two subnets in moto.
func (e *emulator) network() (vpc string, subnets []string) {
	e.Helper()
	var made struct {
		VPC string `xml:"vpc>vpcId"`
	}
	if err := xml.Unmarshal([]byte(e.query("ec2", "CreateVpc", "CidrBlock", "10.0.0.0/16")), &made); err != nil {
		e.Fatal(err)
	}
	for _, cidr := range []string{"10.0.0.0/24", "10.0.1.0/24"} {
		var subnet struct {
			ID string `xml:"subnet>subnetId"`
		}
		if err := xml.Unmarshal(
			[]byte(e.query("ec2", "CreateSubnet", "VpcId", made.VPC, "CidrBlock", cidr)), &subnet,
		); err != nil {
			e.Fatal(err)
		}
		subnets = append(subnets, subnet.ID)
	}
	return made.VPC, subnets
}

// resources returns the types of the resources of a stack.
func (e *emulator) resources(stack string) (all []string) {
	e.Helper()
	listed, err := e.stacks.ListStackResources(e.Context(), &cloudformation.ListStackResourcesInput{StackName: &stack})
	must(e, err)
	for _, r := range listed.StackResourceSummaries {
		if id := aws.ToString(r.LogicalResourceId); id != "" {
			all = append(all, id)
		}
	}
	slices.Sort(all)
	return all
}

// TestLoadLifeOnAnEmulator runs the life of a load stack on moto. It does not create
// alarms and the configuration of asynchronous invocations, and it starts no task.
func TestLoadLifeOnAnEmulator(t *testing.T) {
	e := newEmulator(t)
	w := &loadWorld{name: stackName(), bin: t.TempDir()}
	w.installDocker(t)
	opts := infra.Options{
		Dynamo:  dynamo.Options{AWS: fakeaws.Config(e.url), Region: "us-east-1", Timeout: time.Minute},
		Version: "1.2.3", Zip: functionZip(t), Poll: 1,
	}
	opts.Stack = infra.Stack{RoleNameFormat: "our-{}", PermissionBoundary: "edge", NoAlarms: true}
	deploy(t, w.name, opts)
	opts.Stack = infra.Stack{}
	load := &infra.LoadOptions{Options: opts, Program: fakeaws.Program(t, 62), Locust: "2.47.0"}
	load.Load.VPC, load.Load.Subnets = e.network()
	load.Load.SSMEndpoints = true
	if d := w.deploy(t, load); d.Action != "created" || !d.Pushed || !strings.HasSuffix(
		d.Outputs["LocustRepositoryUri"], "/"+infra.LoadName(w.name)+"-locust",
	) {
		t.Errorf("%+v", d)
	}
	want := slices.DeleteFunc(slices.Clone(loadIDs(t)), func(id string) bool {
		return strings.HasSuffix(id, "Alarm") || id == "WorkerInvokeConfig"
	})
	if diff := cmp.Diff(want, e.resources(infra.LoadName(w.name))); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	if d := w.deploy(t, load); d.Action != "unchanged" {
		t.Errorf("%+v", d)
	}
	load.Program = fakeaws.Program(t, 62, 1)
	for _, action := range []string{"updated", "unchanged"} {
		d, err := infra.PushLoad(t.Context(), w.name, load)
		must(t, err)
		if d.Action != action {
			t.Errorf("%+v", d)
		}
	}
	found, err := infra.ListLoads(t.Context(), &opts)
	must(t, err)
	if !slices.ContainsFunc(found, func(s infra.LoadSummary) bool {
		return s.Target == w.name && s.Status == "UPDATE_COMPLETE"
	}) {
		t.Errorf("%+v", found)
	}
	for _, existed := range []bool{true, false} {
		r, err := infra.DeleteLoad(t.Context(), w.name, &infra.LoadDeleteOptions{Options: opts})
		must(t, err)
		if r.Existed != existed || (r.Artifacts != "") != existed {
			t.Errorf("%+v", r)
		}
	}
	w.checkClean(t)
}

// loadIDs returns the logical IDs of all resources of a load stack.
func loadIDs(t *testing.T) (all []string) {
	t.Helper()
	for id := range fakeaws.Section(templates(t)["load.yaml"], "Resources") {
		all = append(all, id)
	}
	slices.Sort(all)
	return all
}

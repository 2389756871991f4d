package loadtest

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
)

const (
	loadVPC     = "vpc-0123456789abcdef0"
	loadSubnetA = "subnet-0123456789abcdefa"
	loadSubnetB = "subnet-0123456789abcdefb"
)

// resolveLoad returns what the command line would deploy, and its messages.
func resolveLoad(
	t *testing.T, in io.Reader, canAsk bool, deployed *infra.LoadStack, args ...string,
) (infra.LoadStack, string, error) {
	t.Helper()
	var messages bytes.Buffer
	c := kit.NewConsole(in, io.Discard, &messages)
	c.CanAsk = canAsk
	o := &deployOptions{loadCode: loadCode{Stack: &kit.Stack{Console: c}}, endpoint: true}
	cmd := &cobra.Command{}
	o.flags(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := o.resolve(ctx, "app", deployed, cmd.Flags())
	return s, messages.String(), err
}

// A flag changes only its own setting of what is deployed.
func TestLoadtestDeployMerges(t *testing.T) {
	deployed := infra.LoadStack{
		VPC: loadVPC, Subnets: []string{loadSubnetA, loadSubnetB}, MaxWorkers: 7, MinWorkers: 2, UsersPerWorker: 3,
		StartupLead: -1, Timeout: 2 * time.Minute,
		Memory: 512, CapacityProvider: infra.Fargate, SSMEndpoints: true, NoDynamoDBEndpoint: true,
	}
	with := func(change func(*infra.LoadStack)) infra.LoadStack {
		s := deployed
		change(&s)
		return s
	}
	for args, want := range map[string]infra.LoadStack{
		"":                                 deployed,
		"--max-workers 9":                  with(func(s *infra.LoadStack) { s.MaxWorkers = 9 }),
		"--min-workers 1":                  with(func(s *infra.LoadStack) { s.MinWorkers = 1 }),
		"--users-per-worker 8":             with(func(s *infra.LoadStack) { s.UsersPerWorker = 8 }),
		"--startup-lead-time 5":            with(func(s *infra.LoadStack) { s.StartupLead = 5 * time.Second }),
		"--startup-lead-time 0":            deployed,
		"--lambda-timeout 5":               with(func(s *infra.LoadStack) { s.Timeout = 5 * time.Minute }),
		"--lambda-memory 1024":             with(func(s *infra.LoadStack) { s.Memory = 1024 }),
		"--capacity-provider FARGATE_SPOT": with(func(s *infra.LoadStack) { s.CapacityProvider = infra.FargateSpot }),
		"--no-ssm-endpoint":                with(func(s *infra.LoadStack) { s.SSMEndpoints = false }),
		"--ssm-endpoint":                   deployed,
		"--dynamodb-endpoint":              with(func(s *infra.LoadStack) { s.NoDynamoDBEndpoint = false }),
		"--subnet-ids a,b --vpc-id v": with(func(s *infra.LoadStack) {
			s.VPC, s.Subnets = "v", []string{"a", "b"}
		}),
	} {
		got, _, err := resolveLoad(t, strings.NewReader(""), false, &deployed, strings.Fields(args)...)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", args, err, diff)
		}
	}
}

// A terminal is asked for a network that is missing, and nothing else is.
func TestLoadtestDeployAsks(t *testing.T) {
	subnets := loadSubnetA + ", " + loadSubnetB
	for _, test := range []struct {
		args, answers, want string // want is the last question
		deployed            *infra.LoadStack
	}{
		{"", loadVPC + "\n|" + subnets + "\n", "Two or more subnets of " + loadVPC + ", separated by commas: ", nil},
		{"--vpc-id " + loadVPC, subnets + "\n", "Two or more subnets of " + loadVPC + ", separated by commas: ", nil},
		{"--subnet-ids " + loadSubnetA + "," + loadSubnetB, loadVPC + "\n", "VPC for the load test (vpc-...): ", nil},
		{"", "", "Deploying app-load, for load tests of app:", &infra.LoadStack{
			VPC: loadVPC, Subnets: []string{loadSubnetA, loadSubnetB},
		}},
	} {
		in := &lineReader{lines: strings.Split(test.answers, "|")}
		got, messages, err := resolveLoad(t, in, true, test.deployed, strings.Fields(test.args)...)
		want := infra.LoadStack{VPC: loadVPC, Subnets: []string{loadSubnetA, loadSubnetB}}
		if diff := cmp.Diff(want, got); diff != "" || err != nil || !strings.Contains(messages, test.want) {
			t.Errorf("%q: %v, %q\n%s", test.args, err, messages, diff)
		}
	}
	_, _, err := resolveLoad(t, strings.NewReader(""), false, nil, "--vpc-id", loadVPC)
	if err == nil || kit.ExitCode(err) != kit.ExitUsage {
		t.Error(err)
	}
}

// lineReader returns a line with each read, as a terminal does.
type lineReader struct{ lines []string }

// Read returns the next line.
func (r *lineReader) Read(p []byte) (int, error) {
	if len(r.lines) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.lines[0])
	r.lines = r.lines[1:]
	return n, nil
}

// A new description of the task needs no confirmation, everything else does.
func TestLoadtestDeployConfirms(t *testing.T) {
	task := infra.Change{
		Action: "Modify", Resource: "MasterTask", Type: "AWS::ECS::TaskDefinition", Replacement: "True",
	}
	function := infra.Change{
		Action: "Modify", Resource: "WorkerFunction", Type: "AWS::Lambda::Function", Replacement: "False",
	}
	group := infra.Change{
		Action: "Modify", Resource: "MasterSecurityGroup", Type: "AWS::EC2::SecurityGroup", Replacement: "True",
	}
	o := &deployOptions{loadCode: loadCode{Stack: &kit.Stack{Console: kit.NewConsole(
		strings.NewReader(""), io.Discard, io.Discard,
	)}}}
	for _, test := range []struct {
		changes []infra.Change
		yes, ok bool
	}{
		{[]infra.Change{task}, false, true},
		{[]infra.Change{task, function}, false, true},
		{[]infra.Change{task, group}, false, false},
		{[]infra.Change{task, group}, true, true},
	} {
		if err := o.confirmLoad(t.Context(), "app-load", test.yes)(test.changes); (err == nil) != test.ok {
			t.Errorf("%v: %v", test.changes, err)
		}
	}
}

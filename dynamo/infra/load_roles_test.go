package infra_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
)

// loadRoles has the roles of the load template.
var loadRoles = map[string]role{
	"ExecRole": {fakeaws.Tree{"Service": "ecs-tasks.amazonaws.com"}, nil, []string{"ImageAccess", "LogAccess"}},
	"TaskRole": {
		fakeaws.Tree{"Service": "ecs-tasks.amazonaws.com"},
		[]any{"import app-FullAccessPolicyArn"},
		[]string{"ExecAccess", "WorkerAccess"},
	},
	"WorkerRole": {
		fakeaws.Tree{"Service": "lambda.amazonaws.com"},
		[]any{"import app-FullAccessPolicyArn"},
		[]string{"LogAccess", "NetworkAccess"},
	},
}

// loadHarmless lists the types of resources of the load template that grant no
// permission.
var loadHarmless = append([]string{
	"AWS::EC2::SecurityGroup", "AWS::EC2::SecurityGroupIngress", "AWS::EC2::VPCEndpoint", "AWS::ECR::Repository",
	"AWS::ECS::Cluster",
	"AWS::ECS::Service", "AWS::ECS::TaskDefinition", "AWS::Lambda::EventInvokeConfig",
}, harmless...)

// loadWorks has the accesses of each role: by ECS to start the containers, by the
// orchestrator and the agent for port forwarding, and by Lambda.
var loadWorks = map[string][]fakeaws.Access{
	"ExecRole": {
		{Action: "ecr:GetAuthorizationToken", Resource: "*"},
		{Action: "ecr:BatchCheckLayerAvailability", Resource: "LocustRepository.Arn"},
		{Action: "ecr:BatchGetImage", Resource: "LocustRepository.Arn"},
		{Action: "ecr:GetDownloadUrlForLayer", Resource: "LocustRepository.Arn"},
		{Action: "logs:CreateLogStream", Resource: "MasterLogGroup.Arn"},
		{Action: "logs:PutLogEvents", Resource: "MasterLogGroup.Arn"},
	},
	"TaskRole": {
		{Action: "lambda:InvokeFunction", Resource: "WorkerFunction.Arn"},
		{Action: "ssmmessages:CreateControlChannel", Resource: "*"},
		{Action: "ssmmessages:CreateDataChannel", Resource: "*"},
		{Action: "ssmmessages:OpenControlChannel", Resource: "*"},
		{Action: "ssmmessages:OpenDataChannel", Resource: "*"},
	},
	"WorkerRole": {
		{Action: "logs:CreateLogStream", Resource: "WorkerLogGroup.Arn"},
		{Action: "logs:PutLogEvents", Resource: "WorkerLogGroup.Arn"},
		{Action: "ec2:AssignPrivateIpAddresses", Resource: "*"},
		{Action: "ec2:CreateNetworkInterface", Resource: "*"},
		{Action: "ec2:DeleteNetworkInterface", Resource: "*"},
		{Action: "ec2:DescribeNetworkInterfaces", Resource: "*"},
		{Action: "ec2:DescribeSubnets", Resource: "*"},
		{Action: "ec2:UnassignPrivateIpAddresses", Resource: "*"},
	},
}

// loadEverything returns the load template with all resources.
func loadEverything(doc fakeaws.Tree) fakeaws.Template {
	return fakeaws.NewTemplate(doc, "app-load", map[string]string{
		"TargetStackName": "app", "VpcId": testVPC, "PrivateSubnetIds": subnetA + "," + subnetB,
		"PrivateRouteTableIds": "rtb-0a,rtb-0b", "CreateSsmEndpoint": "true",
		"CodeBucket": "code", "CodeKey": "key", "ImageTag": "tag", "AlarmSNSTopicArn": "topic",
		"PermissionBoundary": "edge", "RoleNameFormat": "our-{}",
	})
}

// loadTiers returns the roles with the permissions of the load template itself.
func loadTiers(tb testing.TB, doc fakeaws.Tree) (all []tier) {
	tb.Helper()
	made := loadEverything(doc).Resources()
	for id, works := range loadWorks {
		all = append(all, tier{name: id, policy: inline(tb, made[id]), works: works})
	}
	return all
}

// loadGrants returns permissions in a load template that TestLoadPermissions does not
// check, or that other principals have.
func loadGrants(doc fakeaws.Tree) (problems []string) {
	all := loadEverything(doc)
	for id, r := range fakeaws.Section(doc, "Resources") {
		kind := fakeaws.Text(r, "Type")
		want, isRole := loadRoles[id]
		if !isRole {
			if !slices.Contains(loadHarmless, kind) {
				problems = append(problems, fmt.Sprintf("%s is an %s: its permissions are not checked", id, kind))
			}
			continue
		}
		got := maps.Clone(all.Resources()[id])
		delete(got, "RoleName")
		delete(got, "PermissionsBoundary")
		got["Policies"] = slices.Sorted(maps.Keys(inlineDocuments(got)))
		if diff := cmp.Diff(want.properties(), got); diff != "" {
			problems = append(problems, fmt.Sprintf("%s (-want +got):\n%s", id, diff))
		}
		for _, p := range dependencies(doc, id) {
			if !strings.HasSuffix(p, ".ManagedPolicyArns depends on TargetStackName") {
				problems = append(problems, p)
			}
		}
	}
	return problems
}

func TestLoadRoles(t *testing.T) {
	for _, p := range loadGrants(templates(t)["load.yaml"]) {
		t.Error(p)
	}
}

// Each role allows what its service and our programs do, and no more.
func TestLoadPermissions(t *testing.T) {
	recorded := readCalls(t)
	tried := 0
	for _, tier := range loadTiers(t, templates(t)["load.yaml"]) {
		for _, p := range tier.problems(recorded) {
			t.Errorf("%s: %s", tier.name, p)
		}
		for _, m := range slices.Concat(removals(tier.policy), wildcards(tier.policy)) {
			tried++
			changed := tier
			changed.policy = m.policy
			if len(changed.problems(recorded)) == 0 {
				t.Errorf("%s %s: not detected", tier.name, m.change)
			}
		}
	}
	t.Logf("%d changes", tried)
}

// A worker may do all that the tested stack's policy for administrators allows: a
// test creates and purges a namespace. The import names an export of that stack.
func TestWorkersMayUseTheTable(t *testing.T) {
	target := everything(t, "app")
	made := loadEverything(templates(t)["load.yaml"]).Resources()
	for _, id := range []string{"TaskRole", "WorkerRole"} {
		policy := inline(t, made[id])
		for _, imported := range fakeaws.Texts(made[id]["ManagedPolicyArns"]) {
			for _, o := range fakeaws.Section(target.Doc, "Outputs") {
				if "import "+fakeaws.Text(target.Value(fakeaws.At(o, "Export", "Name"))) == imported {
					exported := fakeaws.Text(target.Value(fakeaws.At(o, "Value")))
					policy = append(policy, fakeaws.ParsePolicy(t, target.Resources()[exported]["PolicyDocument"])...)
				}
			}
		}
		recorded, checked := readCalls(t), 0
		for _, o := range operations() {
			if slices.Contains(strings.Fields(o.may), "full") {
				checked++
				if !(tier{policy: policy}).canSend(recorded[o.name], "") {
					t.Errorf("%s cannot do %s", id, o.name)
				}
			}
		}
		if checked < 10 {
			t.Errorf("%d operations", checked)
		}
	}
}

// TestLoadRoles detects each of these changes.
func TestLoadRoleMutantsAreDetected(t *testing.T) {
	const anything = `{Version: '2012-10-17', Statement: [{Effect: Allow, Action: '*', Resource: '*'}]}`
	template := string(infra.LoadTemplate())
	for _, change := range [][2]string{
		{"FullAccessPolicyArn'", "AdminRoleArn'"},
		{
			"- Fn::ImportValue: !Sub '${TargetStackName}-FullAccessPolicyArn'",
			"- arn:aws:iam::aws:policy/AdministratorAccess",
		},
		{"Principal: {Service: ecs-tasks.amazonaws.com}", "Principal: {Service: ecs-tasks.amazonaws.com, AWS: '*'}"},
		{
			"Principal: {Service: lambda.amazonaws.com}",
			"Principal: {Service: [lambda.amazonaws.com, ec2.amazonaws.com]}",
		},
		{
			"- PolicyName: ExecAccess",
			"- PolicyName: More\n          PolicyDocument: " + anything + "\n        - PolicyName: ExecAccess",
		},
		{"Resource: !GetAtt WorkerFunction.Arn", "Resource: !If [HasSNSTopic, '*', !GetAtt WorkerFunction.Arn]"},
		{"  # ---- roles\n", "  More: {Type: AWS::IAM::Policy, Properties: {PolicyDocument: " + anything + "}}\n"},
		{"  # ---- roles\n", "  More: {Type: AWS::Lambda::Permission, Properties: {}}\n"},
	} {
		changed := strings.Replace(template, change[0], change[1], 1)
		if changed == template {
			t.Errorf("%q is not in the template", change[0])
		} else if len(loadGrants(fakeaws.ParseTemplate(t, []byte(changed)))) == 0 {
			t.Errorf("%s instead of %s: not detected", change[1], change[0])
		}
	}
}

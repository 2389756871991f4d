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

// role is an IAM role of the template.
type role struct {
	principal fakeaws.Tree
	attached  []any    // policies of the template, which are tiers
	inline    []string // names of inline policies
}

// roles returns the roles of a stack with or without an archive and traces.
func roles(archive, traces bool) map[string]role {
	people := fakeaws.Tree{"AWS": "arn:aws:iam::" + fakeaws.AccountID + ":root"}
	functions := fakeaws.Tree{"Service": "lambda.amazonaws.com"}
	aggregator := []string{"LogAccess", "DynamoDBAccess"}
	if archive {
		aggregator = append(aggregator, "S3ArchiveAccess")
	}
	if traces {
		aggregator = append(aggregator, "XRayAccess")
	}
	return map[string]role{
		"AppRole":         {people, []any{"AcquireOnlyPolicy"}, nil},
		"AdminRole":       {people, []any{"FullAccessPolicy"}, nil},
		"ReadOnlyRole":    {people, []any{"ReadOnlyPolicy"}, nil},
		"AggregatorRole":  {functions, nil, aggregator},
		"ProvisionerRole": {functions, nil, []string{"LogAccess", "DynamoDBAccess"}},
	}
}

// properties returns the properties of a role, without its name and boundary, and with
// the names of inline policies.
func (r role) properties() fakeaws.Tree {
	p := fakeaws.Tree{"AssumeRolePolicyDocument": fakeaws.Tree{"Version": "2012-10-17", "Statement": []any{
		fakeaws.Tree{"Effect": "Allow", "Principal": r.principal, "Action": "sts:AssumeRole"},
	}}}
	if r.attached != nil {
		p["ManagedPolicyArns"] = r.attached
	}
	if r.inline != nil {
		p["Policies"] = r.inline
	}
	return p
}

// managedPolicies lists the managed policies, which are tiers.
var managedPolicies = []string{
	"AcquireOnlyPolicy", "FullAccessPolicy", "ReadOnlyPolicy",
	"NamespaceAcquirePolicy", "NamespaceFullAccessPolicy", "NamespaceReadOnlyPolicy",
}

// harmless lists the types of resources that grant no permission.
var harmless = []string{
	"AWS::DynamoDB::Table", "AWS::Lambda::Function", "AWS::Lambda::EventSourceMapping", "AWS::SQS::Queue",
	"AWS::Logs::LogGroup", "AWS::S3::Bucket", "AWS::CloudWatch::Alarm",
}

// extraGrants returns permissions in a template that TestPermissions does not check,
// or that other principals have.
func extraGrants(doc fakeaws.Tree) (problems []string) {
	for id, r := range fakeaws.Section(doc, "Resources") {
		kind := fakeaws.Text(r, "Type")
		_, isRole := roles(true, true)[id]
		switch {
		case kind == "AWS::IAM::Role" && isRole,
			kind == "AWS::IAM::ManagedPolicy" && slices.Contains(managedPolicies, id):
			problems = append(problems, dependencies(doc, id)...)
		case !slices.Contains(harmless, kind):
			problems = append(problems, fmt.Sprintf("%s is an %s: its permissions are not checked", id, kind))
		}
	}
	all := fakeaws.NewTemplate(doc, "app", map[string]string{"EnableIAMRoles": "true", "EnableTracing": "true"})
	for _, archive := range []bool{true, false} {
		for _, traces := range []bool{true, false} {
			s := fakeaws.NewTemplate(doc, "app", map[string]string{
				"EnableIAMRoles": "true", "EnableTracing": fmt.Sprint(traces),
				"EnableAuditArchival": fmt.Sprint(archive),
			})
			problems = append(problems, rolesDiffer(s, all, roles(archive, traces))...)
			problems = append(problems, policiesDiffer(s, all)...)
		}
	}
	return problems
}

// dependencies returns parameters and conditions that change the permissions of a
// resource, except for those of the archive and traces.
func dependencies(doc fakeaws.Tree, id string) (problems []string) {
	for _, property := range []string{"Policies", "PolicyDocument", "ManagedPolicyArns", "AssumeRolePolicyDocument"} {
		found := map[string]bool{}
		uses(fakeaws.At(fakeaws.Section(doc, "Resources")[id], "Properties", property), found)
		for use := range found {
			kind, name, _ := strings.Cut(use, " ")
			_, isParameter := fakeaws.Section(doc, "Parameters")[name]
			if isParameter || kind == "Condition" && name != "DeployAuditArchive" && name != "TracingEnabled" {
				problems = append(problems, fmt.Sprintf("%s.%s depends on %s", id, property, name))
			}
		}
	}
	return problems
}

// rolesDiffer compares the roles of a stack with want, and their inline policies with
// those of a complete stack.
func rolesDiffer(s, all fakeaws.Template, want map[string]role) (problems []string) {
	made, complete := s.Resources(), all.Resources()
	for id, r := range want {
		got := maps.Clone(made[id])
		delete(got, "RoleName")
		delete(got, "PermissionsBoundary")
		if documents := inlineDocuments(got); documents != nil {
			got["Policies"] = slices.Collect(maps.Keys(documents))
			for name, document := range documents {
				if !cmp.Equal(inlineDocuments(complete[id])[name], document) {
					problems = append(problems, fmt.Sprintf("%s.%s differs from the checked one", id, name))
				}
			}
		}
		sorted := func(names []string) []string { return slices.Sorted(slices.Values(names)) }
		if diff := cmp.Diff(r.properties(), got, cmp.Transformer("sorted", sorted)); diff != "" {
			problems = append(problems, fmt.Sprintf("%s (-want +got):\n%s", id, diff))
		}
	}
	return problems
}

// inlineDocuments returns the inline policies of a role by name.
func inlineDocuments(properties fakeaws.Tree) map[string]any {
	list, _ := properties["Policies"].([]any)
	documents := map[string]any{}
	for i, one := range list {
		name := fakeaws.Text(one, "PolicyName")
		if _, twice := documents[name]; twice {
			name += fmt.Sprint(" ", i)
		}
		documents[name] = fakeaws.At(one, "PolicyDocument")
	}
	if list == nil {
		return nil
	}
	return documents
}

// policiesDiffer returns managed policies that attach themselves, or that differ from
// those of a complete stack.
func policiesDiffer(s, all fakeaws.Template) (problems []string) {
	made, complete := s.Resources(), all.Resources()
	for _, id := range managedPolicies {
		names := slices.Sorted(maps.Keys(made[id]))
		if want := []string{"Description", "ManagedPolicyName", "PolicyDocument"}; !slices.Equal(names, want) {
			problems = append(problems, fmt.Sprintf("%s has %v, want %v", id, names, want))
		}
		if !cmp.Equal(complete[id]["PolicyDocument"], made[id]["PolicyDocument"]) {
			problems = append(problems, id+" differs from the checked one")
		}
	}
	return problems
}

// TestPermissions checks all permissions of the template.
func TestRoles(t *testing.T) {
	for _, p := range extraGrants(template(t)) {
		t.Error(p)
	}
}

// TestRoles detects each of these changes.
func TestRoleMutantsAreDetected(t *testing.T) {
	const (
		anything = `{Version: '2012-10-17', Statement: [{Effect: Allow, Action: '*', Resource: '*'}]}`
		app      = "ManagedPolicyArns: [!Ref AcquireOnlyPolicy]"
		aggr     = "RoleName: !If [HasCustomAggregatorRoleName"
		root     = "Principal: {AWS: !Sub 'arn:${AWS::Partition}:iam::${AWS::AccountId}:root'}"
		lambda   = "Principal: {Service: lambda.amazonaws.com}"
		account  = "\n  # ---- roles that this account may give to people and programs\n"
		traces   = "Resource: '*' # traces have no names\n          - "
	)
	template := string(infra.Template())
	for _, change := range [][2]string{
		{app, "ManagedPolicyArns: [!Ref FullAccessPolicy]"},
		{app, "ManagedPolicyArns: [!Ref AcquireOnlyPolicy, !Ref FullAccessPolicy]"},
		{app, "ManagedPolicyArns: []"},
		{app, "ManagedPolicyArns: [!If [Trace, !Ref FullAccessPolicy, !Ref AcquireOnlyPolicy]]"},
		{app, app + "\n      Policies: [{PolicyName: all, PolicyDocument: " + anything + "}]"},
		{aggr, "ManagedPolicyArns: [arn:aws:iam::aws:policy/AdministratorAccess]\n      " + aggr},
		{
			"- PolicyName: DynamoDBAccess",
			"- PolicyName: DynamoDBAccess\n          PolicyDocument: " + anything +
				"\n        - PolicyName: DynamoDBAccess",
		},
		{
			"- PolicyName: LogAccess",
			"- PolicyName: More\n          PolicyDocument: " + anything + "\n        - PolicyName: LogAccess",
		},
		{traces + "!Ref AWS::NoValue", traces + "{PolicyName: XRayAccess, PolicyDocument: " + anything + "}"},
		{"Action: sqs:SendMessage", "Action: !If [HasSNSTopic, '*', sqs:SendMessage]"},
		{"Action: sqs:SendMessage", "Action: !Sub '${LogLevel}'"},
		{root, "Principal: {AWS: '*'}"},
		{
			root,
			"Principal: {AWS: !Sub 'arn:${AWS::Partition}:iam::${AWS::AccountId}:root', Service: ec2.amazonaws.com}",
		},
		{lambda, "Principal: {Service: [lambda.amazonaws.com, ec2.amazonaws.com]}"},
		{lambda + "\n            Action: sts:AssumeRole", lambda + "\n            Action: sts:*"},
		{"Description: Rate limiter full access (all operations)", "Description: x\n      Roles: [!Ref AppRole]"},
		{"Description: Rate limiter full access (all operations)", "Description: x\n      Users: [me]"},
		{"Description: Rate limiter full access (all operations)", "Description: x\n      Groups: [us]"},
		{
			account,
			"\n  More: {Type: AWS::IAM::Policy, Properties: {PolicyDocument: " + anything +
				", Roles: [!Ref AppRole]}}\n" + account,
		},
		{account, "\n  More: {Type: AWS::IAM::Role, Properties: {}}\n" + account},
		{account, "\n  More: {Type: AWS::S3::BucketPolicy, Properties: {}}\n" + account},
	} {
		changed := strings.Replace(template, change[0], change[1], 1)
		if changed == template {
			t.Errorf("%q is not in the template", change[0])
		} else if len(extraGrants(fakeaws.ParseTemplate(t, []byte(changed)))) == 0 {
			t.Errorf("%s instead of %s: not detected", change[1], change[0])
		}
	}
}

package infra_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
)

// CloudFormation limits the size of a template in a request.
func TestTemplateFitsIntoARequest(t *testing.T) {
	const maxTemplate = 51_200
	for _, text := range [][]byte{infra.Template(), infra.LoadTemplate()} {
		if n := len(text); n > maxTemplate {
			t.Errorf("%d bytes, of at most %d", n, maxTemplate)
		}
	}
}

// uses adds the references in a part of a template to found, as "Ref X",
// "GetAtt X.Y" and "Condition X".
func uses(v any, found map[string]bool) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			uses(e, found)
		}
	case fakeaws.Tree:
		for name, e := range v {
			switch list := fakeaws.Texts(e); name {
			case "Ref":
				found["Ref "+list[0]] = true
			case "Fn::GetAtt":
				found["GetAtt "+strings.Join(list, ".")] = true
			case "Fn::Sub":
				for _, p := range fakeaws.Placeholder.FindAllStringSubmatch(list[0], -1) {
					kind := "Ref "
					if strings.Contains(p[1], ".") {
						kind = "GetAtt "
					}
					found[kind+p[1]] = true
				}
			case "Fn::If":
				found["Condition "+list[0]] = true
			case "Condition", "DependsOn":
				if len(list) == 1 {
					found[name+" "+list[0]] = true
				}
			}
			uses(e, found)
		}
	}
}

// attributes lists the attributes of each type of resource.
var attributes = map[string][]string{
	"AWS::DynamoDB::Table":  {"Arn", "StreamArn"},
	"AWS::SQS::Queue":       {"Arn", "QueueName"},
	"AWS::S3::Bucket":       {"Arn"},
	"AWS::Logs::LogGroup":   {"Arn"},
	"AWS::IAM::Role":        {"Arn"},
	"AWS::Lambda::Function": {"Arn"},

	"AWS::EC2::SecurityGroup": {"GroupId"},
	"AWS::ECR::Repository":    {"Arn", "RepositoryUri"},
	"AWS::ECS::Cluster":       {"Arn"},
	"AWS::ECS::Service":       {"Name"},
}

func TestEveryReferenceResolves(t *testing.T) {
	for name, doc := range templates(t) {
		t.Run(name, func(t *testing.T) { checkReferences(t, doc) })
	}
}

func checkReferences(t *testing.T, doc fakeaws.Tree) {
	t.Helper()
	pseudo := []string{"AWS::StackName", "AWS::Partition", "AWS::AccountId", "AWS::NoValue", "AWS::Region"}
	found := map[string]bool{}
	uses(doc, found)
	for use := range found {
		kind, name, _ := strings.Cut(use, " ")
		id, attribute, _ := strings.Cut(name, ".")
		made, isResource := fakeaws.Section(doc, "Resources")[id]
		ok := isResource
		switch kind {
		case "Ref":
			_, isParameter := fakeaws.Section(doc, "Parameters")[name]
			ok = isResource || isParameter || slices.Contains(pseudo, name)
		case "Condition":
			_, ok = fakeaws.Section(doc, "Conditions")[name]
		case "GetAtt":
			ok = isResource && slices.Contains(attributes[fakeaws.Text(made, "Type")], attribute)
		}
		if !ok {
			t.Errorf("%s does not resolve", use)
		}
	}
}

func TestNothingIsDeclaredInVain(t *testing.T) {
	for _, doc := range templates(t) {
		found := map[string]bool{}
		for _, name := range []string{"Conditions", "Resources", "Outputs"} { // a use in a rule alone has no effect
			uses(doc[name], found)
		}
		for name, kind := range map[string]string{"Parameters": "Ref ", "Conditions": "Condition "} {
			for declared := range fakeaws.Section(doc, name) {
				if !found[kind+declared] {
					t.Errorf("%s is declared and not used", declared)
				}
			}
		}
	}
}

// Emulators evaluate a combined condition only if it refers to others by name.
func TestConditionsAreFlat(t *testing.T) {
	all := maps.Clone(fakeaws.Section(template(t), "Conditions"))
	maps.Copy(all, fakeaws.Section(templates(t)["load.yaml"], "Conditions"))
	for name, condition := range all {
		for f, inside := range map[string]string{
			"Fn::And": "Condition", "Fn::Or": "Condition", "Fn::Not": "Fn::Equals",
		} {
			list, _ := fakeaws.At(condition, f).([]any)
			for _, a := range list {
				if fakeaws.At(a, inside) == nil {
					t.Errorf("%s: an %s of something other than %s: %v", name, f, inside, a)
				}
			}
		}
	}
}

// For all parameters, resources and outputs refer only to resources that exist.
func TestReferencesExist(t *testing.T) {
	checkExist(t, template(t), "EnableAggregator", "EnableProvisioner", "EnableAlarms", "EnableIAM", "EnableIAMRoles",
		"EnableAuditArchival", "EnableTracing", "AggregatorRoleArn", "ProvisionerRoleArn")
	checkExist(t, templates(t)["load.yaml"], "CreateSsmEndpoint", "CreateDynamoDBEndpoint", "PrivateRouteTableIds",
		"AlarmSNSTopicArn", "PermissionBoundary")
}

// checkExist checks a template with all combinations of values of parameters.
func checkExist(t *testing.T, doc fakeaws.Tree, names ...string) {
	t.Helper()
	for _, values := range combinations(names...) {
		s := fakeaws.NewTemplate(doc, "app", values)
		made := s.Resources()
		known := fakeaws.Section(doc, "Resources")
		check := func(who string, v any) {
			for _, word := range leaves(s.Value(v)) {
				id, _, _ := strings.Cut(word, ".")
				if _, is := known[id]; is && made[id] == nil {
					t.Errorf("%s needs %s, which does not exist with %v", who, id, values)
				}
			}
		}
		for id := range made {
			check(id, fakeaws.At(known[id], "Properties"))
			check(id, fakeaws.At(known[id], "DependsOn"))
		}
		for name, o := range fakeaws.Section(doc, "Outputs") {
			if s.Includes(o) {
				check("output "+name, fakeaws.At(o, "Value"))
			}
		}
	}
}

// combinations returns all combinations of values of parameters: switches are on or
// off, others blank or not.
func combinations(names ...string) (all []map[string]string) {
	for bits := range 1 << len(names) {
		values := map[string]string{}
		for i, name := range names {
			on := bits>>i&1 == 1
			switch {
			case strings.HasPrefix(name, "Enable"), strings.HasPrefix(name, "Create"):
				values[name] = fmt.Sprint(on)
			case on:
				values[name] = "arn:aws:iam::" + fakeaws.AccountID + ":role/x"
			default:
				values[name] = ""
			}
		}
		all = append(all, values)
	}
	return all
}

// leaves returns all leaves below v.
func leaves(v any) (all []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, e := range v {
			all = append(all, leaves(e)...)
		}
	case fakeaws.Tree:
		for _, e := range v {
			all = append(all, leaves(e)...)
		}
	}
	return all
}

// cfn-lint accepts the template. Ignored checks are in the template, with a reason.
func TestTemplatePassesLint(t *testing.T) {
	t.Parallel()
	const missingProgram = 3
	out, err := exec.CommandContext(t.Context(), "../../scripts/moto-local", "lint", "template.yaml",
		"load.yaml").CombinedOutput()
	exit, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case failed && exit.ExitCode() == missingProgram && os.Getenv("CI") != "true":
		t.Skipf("%s", out)
	case err != nil || len(out) > 0:
		t.Errorf("%v\n%s", err, out)
	}
}

// A rule rejects functions without code.
func TestFunctionsWithoutCodeAreRefused(t *testing.T) {
	doc := template(t)
	for _, values := range combinations(
		"EnableAggregator", "EnableProvisioner", "EnableIAM", "AggregatorRoleArn", "ProvisionerRoleArn",
		"CodeBucket", "CodeKey",
	) {
		s := fakeaws.NewTemplate(doc, "app", values)
		var want []string
		if values["CodeBucket"] == "" || values["CodeKey"] == "" {
			for id, text := range map[string]string{
				"AggregatorFunction": "The aggregator needs CodeBucket and CodeKey; or set EnableAggregator to false.",
				"ProvisionerFunction": "The provisioner needs CodeBucket and CodeKey; or set " +
					"EnableProvisioner to false.",
			} {
				if s.Includes(fakeaws.Section(doc, "Resources")[id]) {
					want = append(want, text)
				}
			}
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, s.Failures()); diff != "" {
			t.Errorf("%v (-want +got):\n%s", values, diff)
		}
	}
}

// Each switch enables or disables these resources.
func TestSwitches(t *testing.T) {
	const role = "arn:aws:iam::123456789012:role/x"
	policies := []string{
		"AcquireOnlyPolicy", "FullAccessPolicy", "ReadOnlyPolicy",
		"NamespaceAcquirePolicy", "NamespaceFullAccessPolicy", "NamespaceReadOnlyPolicy",
	}
	aggregator := []string{
		"AggregatorFunction", "AggregatorEventSourceMapping", "AggregatorDLQ", "AggregatorLogGroup",
		"AuditArchiveBucket",
	}
	provisioner := []string{"ProvisionerFunction", "ProvisionerLogGroup"}
	aggregatorAlarms := []string{
		"AggregatorDLQAlarm", "LambdaErrorRateAlarm", "LambdaDurationAlarm", "StreamIteratorAgeAlarm",
	}
	tableAlarms := []string{"DynamoDBReadThrottleAlarm", "DynamoDBWriteThrottleAlarm"}
	all := slices.Concat(policies, aggregator, provisioner, aggregatorAlarms, tableAlarms,
		[]string{"ProvisionerErrorAlarm", "AggregatorRole", "ProvisionerRole"})
	without := func(names ...string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(id string) bool { return slices.Contains(names, id) })
	}
	for _, test := range []struct {
		name   string
		values map[string]string
		want   []string // besides the table
	}{
		{"defaults", nil, all},
		{
			"roles",
			map[string]string{"EnableIAMRoles": "true"},
			append(slices.Clone(all), "AppRole", "AdminRole", "ReadOnlyRole"),
		},
		{"no IAM", map[string]string{"EnableIAM": "false"}, tableAlarms},
		{"no IAM, but roles", map[string]string{"EnableIAM": "false", "EnableIAMRoles": "true"}, tableAlarms},
		{
			"no IAM, role of the aggregator",
			map[string]string{"EnableIAM": "false", "AggregatorRoleArn": role},
			slices.Concat(aggregator, aggregatorAlarms, tableAlarms),
		},
		{
			"no IAM, role of the provisioner",
			map[string]string{"EnableIAM": "false", "ProvisionerRoleArn": role},
			slices.Concat(provisioner, []string{"ProvisionerErrorAlarm"}, tableAlarms),
		},
		{
			"roles from elsewhere",
			map[string]string{"AggregatorRoleArn": role, "ProvisionerRoleArn": role},
			without("AggregatorRole", "ProvisionerRole"),
		},
		{"no archive", map[string]string{"EnableAuditArchival": "false"}, without("AuditArchiveBucket")},
		{
			"no aggregator",
			map[string]string{"EnableAggregator": "false"},
			without(slices.Concat(aggregator, aggregatorAlarms, []string{"AggregatorRole"})...),
		},
		{
			"no provisioner",
			map[string]string{"EnableProvisioner": "false"},
			without(append(provisioner, "ProvisionerErrorAlarm", "ProvisionerRole")...),
		},
		{
			"no alarms",
			map[string]string{"EnableAlarms": "false"},
			without(slices.Concat(aggregatorAlarms, tableAlarms, []string{"ProvisionerErrorAlarm"})...),
		},
	} {
		got := slices.Sorted(maps.Keys(fakeaws.NewTemplate(template(t), "app", test.values).Resources()))
		want := slices.Sorted(slices.Values(append(slices.Clone(test.want), "RateLimitsTable")))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// templates returns both parsed templates of package infra.
func templates(tb testing.TB) map[string]fakeaws.Tree {
	tb.Helper()
	return map[string]fakeaws.Tree{
		"template.yaml": template(tb), "load.yaml": fakeaws.ParseTemplate(tb, infra.LoadTemplate()),
	}
}

// template returns the parsed template of package infra.
func template(tb testing.TB) fakeaws.Tree {
	tb.Helper()
	return fakeaws.ParseTemplate(tb, infra.Template())
}

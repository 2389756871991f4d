package infra_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/infra"
)

// A template that is sent with a request may be no longer.
func TestTemplateFitsIntoARequest(t *testing.T) {
	const most = 51_200
	if n := len(infra.Template()); n > most {
		t.Errorf("%d bytes, of at most %d", n, most)
	}
}

// uses are the names that a part of a template refers to, as "Ref X",
// "GetAtt X.Y" and "Condition X".
func uses(v any, found map[string]bool) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			uses(e, found)
		}
	case tree:
		for name, e := range v {
			switch list := texts(e); name {
			case "Ref":
				found["Ref "+list[0]] = true
			case "Fn::GetAtt":
				found["GetAtt "+strings.Join(list, ".")] = true
			case "Fn::Sub":
				for _, p := range placeholder.FindAllStringSubmatch(list[0], -1) {
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

// attributes are what each type of resource can be asked for.
var attributes = map[string][]string{
	"AWS::DynamoDB::Table":  {"Arn", "StreamArn"},
	"AWS::SQS::Queue":       {"Arn", "QueueName"},
	"AWS::S3::Bucket":       {"Arn"},
	"AWS::Logs::LogGroup":   {"Arn"},
	"AWS::IAM::Role":        {"Arn"},
	"AWS::Lambda::Function": {"Arn"},
}

func TestEveryReferenceResolves(t *testing.T) {
	doc := ours(t)
	pseudo := []string{"AWS::StackName", "AWS::Partition", "AWS::AccountId", "AWS::NoValue"}
	found := map[string]bool{}
	uses(doc, found)
	for use := range found {
		kind, name, _ := strings.Cut(use, " ")
		id, attribute, _ := strings.Cut(name, ".")
		made, isResource := section(doc, "Resources")[id]
		ok := isResource
		switch kind {
		case "Ref":
			_, isParameter := section(doc, "Parameters")[name]
			ok = isResource || isParameter || slices.Contains(pseudo, name)
		case "Condition":
			_, ok = section(doc, "Conditions")[name]
		case "GetAtt":
			ok = isResource && slices.Contains(attributes[text(at(made, "Type"))], attribute)
		}
		if !ok {
			t.Errorf("%s: there is no such thing", use)
		}
	}
}

func TestNothingIsDeclaredInVain(t *testing.T) {
	doc := ours(t)
	found := map[string]bool{}
	for _, name := range []string{"Conditions", "Resources", "Outputs"} { // a rule alone has no effect
		uses(doc[name], found)
	}
	for name, kind := range map[string]string{"Parameters": "Ref ", "Conditions": "Condition "} {
		for declared := range section(doc, name) {
			if !found[kind+declared] {
				t.Errorf("%s is declared and not used", declared)
			}
		}
	}
}

// Emulators evaluate a condition that combines others only if it names them.
func TestConditionsAreFlat(t *testing.T) {
	for name, condition := range section(ours(t), "Conditions") {
		for f, inside := range map[string]string{"Fn::And": "Condition", "Fn::Or": "Condition", "Fn::Not": "Fn::Equals"} {
			list, _ := at(condition, f).([]any)
			for _, a := range list {
				if at(a, inside) == nil {
					t.Errorf("%s: an %s of something other than %s: %v", name, f, inside, a)
				}
			}
		}
	}
}

// Whatever the parameters are, what is made refers only to what is made too.
func TestWhatIsMadeNeedsOnlyWhatIsMade(t *testing.T) {
	doc := ours(t)
	for _, values := range switched("EnableAggregator", "EnableProvisioner", "EnableAlarms", "EnableIAM", "EnableIAMRoles",
		"EnableAuditArchival", "EnableTracing", "AggregatorRoleArn", "ProvisionerRoleArn") {
		s := newStack(doc, "app", values)
		made := s.resources()
		known := section(doc, "Resources")
		check := func(who string, v any) {
			for _, word := range leaves(s.value(v)) {
				id, _, _ := strings.Cut(word, ".")
				if _, is := known[id]; is && made[id] == nil {
					t.Errorf("%s needs %s, which is not made with %v", who, id, values)
				}
			}
		}
		for id := range made {
			check(id, at(known[id], "Properties"))
			check(id, at(known[id], "DependsOn"))
		}
		for name, o := range section(doc, "Outputs") {
			if s.makes(o) {
				check("output "+name, at(o, "Value"))
			}
		}
	}
}

// switched are all combinations of values of parameters: switches are on or off,
// others blank or not.
func switched(names ...string) (all []map[string]string) {
	for bits := range 1 << len(names) {
		values := map[string]string{}
		for i, name := range names {
			on := bits>>i&1 == 1
			switch {
			case strings.HasPrefix(name, "Enable"):
				values[name] = fmt.Sprint(on)
			case on:
				values[name] = "arn:aws:iam::" + account + ":role/x"
			default:
				values[name] = ""
			}
		}
		all = append(all, values)
	}
	return all
}

// leaves are all texts below v.
func leaves(v any) (all []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, e := range v {
			all = append(all, leaves(e)...)
		}
	case tree:
		for _, e := range v {
			all = append(all, leaves(e)...)
		}
	}
	return all
}

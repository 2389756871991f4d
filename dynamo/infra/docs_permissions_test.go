package infra_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
)

// The page about permissions lists the statements of all policies and roles of the
// template.
func TestStatementsPage(t *testing.T) {
	made := everything(t, "my-app").Resources()
	rows := []string{"| who | actions | on | only if |", "|---|---|---|---|"}
	for _, p := range []struct{ who, resource string }{
		{"`my-app-acq`", "AcquireOnlyPolicy"},
		{"`my-app-full`", "FullAccessPolicy"},
		{"`my-app-read`", "ReadOnlyPolicy"},
		{"`my-app-ns-acq`", "NamespaceAcquirePolicy"},
		{"`my-app-ns-full`", "NamespaceFullAccessPolicy"},
		{"`my-app-ns-read`", "NamespaceReadOnlyPolicy"},
	} {
		rows = append(rows, statementRows(p.who, fakeaws.ParsePolicy(t, made[p.resource]["PolicyDocument"]))...)
	}
	rows = append(rows, statementRows("the aggregator", inline(t, made["AggregatorRole"]))...)
	rows = append(rows, statementRows("the provisioner", inline(t, made["ProvisionerRole"]))...)
	checkPage(t, "permissions.md", "statements", rows)
}

func statementRows(who string, p fakeaws.Policy) (rows []string) {
	for _, s := range p {
		var actions []string
		for _, a := range s.Actions {
			actions = append(actions, "`"+a+"`")
		}
		rows = append(rows,
			fmt.Sprintf("| %s | %s | %s | %s |", who, strings.Join(actions, ", "), placesOf(s.Resources),
				conditionsOf(s.Conditions)))
		who = ""
	}
	return rows
}

// placeTexts describes the resources of statements.
var placeTexts = map[string]string{
	"*":                              "all resources",
	"RateLimitsTable.Arn":            "the table",
	"RateLimitsTable.StreamArn":      "its stream",
	"AggregatorDLQ.Arn":              "the queue",
	"AggregatorLogGroup.Arn":         "its log group",
	"ProvisionerLogGroup.Arn":        "its log group",
	"AuditArchiveBucket.Arn":         "the archive",
	"AuditArchiveBucket.Arn/audit/*": "`audit/*` in the archive",
}

// placesOf returns the resources of a statement in words.
func placesOf(resources []string) string {
	var places, indexes []string
	for _, r := range resources {
		if _, index, isIndex := strings.Cut(r, "/index/"); isIndex {
			indexes = append(indexes, "`"+index+"`")
		} else {
			places = append(places, cmp.Or(placeTexts[r], "`"+r+"`"))
		}
	}
	return strings.Join(append(places, indexes...), ", ")
}

// conditionsOf returns the conditions of a statement in words. A condition Null only
// makes sure that a request has keys or attributes, which the others imply.
func conditionsOf(conditions []fakeaws.Condition) string {
	var all []string
	for _, c := range conditions {
		var values []string
		for _, v := range c.Values {
			values = append(values, "`"+strings.ReplaceAll(v, "${aws:PrincipalTag/zael_namespace_id}", "TAG")+"`")
		}
		list := strings.Join(values, " or ")
		switch c.Operator + " " + c.Key {
		case "ForAllValues:StringLike dynamodb:LeadingKeys":
			all = append(all, "every partition key is "+list)
		case "ForAllValues:StringNotLike dynamodb:LeadingKeys":
			all = append(all, "no partition key is "+list)
		case "ForAllValues:StringNotLike dynamodb:Attributes":
			all = append(all, "no attribute is "+list)
		case "StringNotEquals aws:PrincipalTag/zael_namespace_id":
			all = append(all, "TAG is not "+list)
		case "Null dynamodb:LeadingKeys", "Null dynamodb:Attributes":
		default:
			all = append(all, c.Operator+" "+c.Key+" "+list)
		}
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

// callTexts describes the calls of the port by what their users do. The page leaves
// out calls without a text.
var callTexts = map[string]string{
	"Consume":               "acquire, wait, consume within a lease",
	"Peek":                  "explain, what is available",
	"Credit":                "adjust, commit, roll back",
	"Buckets":               "balances of an entity or a resource",
	"Buckets: all":          "balances of a whole namespace: `top`, the dashboard",
	"BucketPage":            "balances of a whole namespace: `top`, the dashboard",
	"BucketsAt":             "balances of an entity or a resource",
	"CreateEntity":          "create an entity",
	"Entity":                "look up an entity",
	"Entities":              "list entities or children",
	"DeleteEntity":          "delete an entity",
	"SetConfig":             "set limits at any level",
	"Config":                "read limits of a level",
	"DeleteConfig":          "delete limits of a level",
	"SetSwitch":             "disable an entity, a resource or everything",
	"DeleteSwitch":          "enable an entity, a resource or everything",
	"Switches":              "list what is disabled",
	"Fill":                  "reset or top up a bucket",
	"ResourcesWithDefaults": "list resources with default limits",
	"ResourcesWithLimits":   "list resources with limits for entities",
	"EntitiesWithLimits":    "list entities with limits of their own",
	"Namespace":             "look up a namespace",
	"Namespaces":            "list namespaces",
	"RegisterNamespace":     "register a namespace",
	"DeleteNamespace":       "delete a namespace",
	"RecoverNamespace":      "recover a namespace",
	"PurgeNamespace":        "purge a namespace",
	"AuditEvents":           "audit trail of an entity, a resource or the system",
	"Usage":                 "usage of an entity or a resource",
	"Connect":               "connect",
	"Ping":                  "ping",
	"Version":               "read the version record",
	"Follow":                "count usage with `aggregate`",
	"PendingMigrations":     "look for pending migrations",
	"Migrate":               "migrate",
	"DescribeTable":         "`status` of the table",
	"Managed":               "`limits plan` and `limits diff`",
	"SetManaged":            "`limits apply`",
	"ReplaceConfig":         "`limits apply`",
	"Provision":             "", // depends on the request
	"Aggregate":             "", // by the function alone
	"Archive":               "",
}

// The page about permissions lists which policy allows which calls. TestPermissions
// compares the same list with the policies.
func TestCallsPage(t *testing.T) {
	names := []string{"acq", "full", "read", "ns-acq", "ns-full", "ns-read"}
	rows := []string{
		"| what | `-" + strings.Join(names, "` | `-") + "` |",
		"|---" + strings.Repeat("|:-:", len(names)) + "|",
	}
	said := map[string]string{}
	for _, o := range operations() {
		method, _, _ := strings.Cut(o.name, ":")
		text, known := callTexts[o.name]
		if !known {
			text, known = callTexts[method]
		}
		if !known {
			t.Errorf("%s has no entry in callTexts", o.name)
		}
		if text == "" {
			continue
		}
		row := o.marks(names)
		if before, listed := said[text]; listed && before != row {
			t.Errorf("%s (%s): another variant has other permissions", o.name, text)
		} else if !listed {
			said[text] = row
			rows = append(rows, "| "+text+row+" |")
		}
	}
	for name, text := range callTexts {
		if _, listed := said[text]; !listed && text != "" {
			t.Errorf("there is no operation %s", name)
		}
	}
	checkPage(t, "permissions.md", "calls", rows)
}

// marks returns the cells of a row that say which policies allow the operation.
func (o operation) marks(policies []string) (row string) {
	for _, name := range policies {
		mark := " "
		if slices.Contains(strings.Fields(o.may), name) {
			mark = "yes"
		}
		row += " | " + mark
	}
	return row
}

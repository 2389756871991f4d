package infra_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
)

// readCalls reads the recorded calls.
func readCalls(tb testing.TB) calls {
	tb.Helper()
	recorded, err := os.ReadFile(recordedCalls)
	if err != nil {
		tb.Fatal(err)
	}
	return parseCalls(string(recorded))
}

// Every tier allows its operations, and no others.
func TestPermissions(t *testing.T) {
	recorded := readCalls(t)
	for _, tier := range tiers(t) {
		for _, p := range tier.problems(recorded) {
			t.Errorf("%s: %s", tier.name, p)
		}
	}
}

// A principal of a namespace tier without a tag can read only the registry.
func TestNamespaceTiersNeedTheirTag(t *testing.T) {
	recorded := readCalls(t)
	for _, tier := range tiers(t) {
		if tier.tag == "" {
			continue
		}
		for name, sent := range recorded {
			about := slices.ContainsFunc(sent, func(c fakeaws.Call) bool {
				return c.String() != c.InOtherNamespace().String()
			})
			if about && tier.canSend(sent, "") {
				t.Errorf("%s without a tag can do %s", tier.name, name)
			}
		}
	}
}

// universe lists actions and resources that a policy might allow, in the stack and
// beside it.
var universe = []struct {
	service, actions string
	resources        []string
}{
	{"dynamodb", `BatchGetItem BatchWriteItem ConditionCheckItem DeleteItem GetItem PutItem Query Scan UpdateItem
		PartiQLDelete PartiQLInsert PartiQLSelect PartiQLUpdate
		CreateBackup CreateTable DeleteBackup DeleteResourcePolicy DeleteTable DescribeContinuousBackups DescribeTable DescribeTimeToLive
		ExportTableToPointInTime ListTagsOfResource PutResourcePolicy RestoreTableToPointInTime TagResource UpdateContinuousBackups
		UpdateTable UpdateTimeToLive
		DescribeStream GetRecords GetShardIterator ListStreams`, []string{
		fakeaws.TableARN, fakeaws.StreamARN, "OtherTable.Arn", "OtherTable.StreamArn",
	}},
	{"dynamodb", "Query Scan PartiQLSelect", []string{
		fakeaws.TableARN + "/index/GSI1", fakeaws.TableARN + "/index/GSI2", fakeaws.TableARN + "/index/GSI3",
		fakeaws.TableARN + "/index/GSI4", fakeaws.TableARN + "/index/GSI5", "OtherTable.Arn/index/GSI1",
	}},
	{"s3", "DeleteObject GetObject PutObject PutObjectAcl", []string{
		archived, "AuditArchiveBucket.Arn/other", "OtherBucket.Arn/audit/x",
	}},
	{"s3", "DeleteBucket ListBucket PutBucketPolicy", []string{"AuditArchiveBucket.Arn", "OtherBucket.Arn"}},
	{"sqs", "DeleteQueue PurgeQueue ReceiveMessage SendMessage", []string{"AggregatorDLQ.Arn", "OtherQueue.Arn"}},
	{"logs", "CreateLogGroup CreateLogStream DeleteLogGroup PutLogEvents", []string{
		"AggregatorLogGroup.Arn", "ProvisionerLogGroup.Arn", "MasterLogGroup.Arn", "WorkerLogGroup.Arn",
		"OtherLogGroup.Arn",
	}},
	{"xray", "GetTraceSummaries PutTelemetryRecords PutTraceSegments", []string{"*"}},
	{"iam", "PassRole", []string{"*"}},
	{"lambda", "DeleteFunction InvokeFunction PutFunctionConcurrency UpdateFunctionCode", []string{
		"WorkerFunction.Arn", "OtherFunction.Arn", "*",
	}},
	{"ecr", `BatchCheckLayerAvailability BatchDeleteImage BatchGetImage DeleteRepository GetDownloadUrlForLayer
		InitiateLayerUpload PutImage`, []string{"LocustRepository.Arn", "OtherRepository.Arn"}},
	{"ecr", "CreateRepository GetAuthorizationToken", []string{"*"}},
	{"ssmmessages", "CreateControlChannel CreateDataChannel OpenControlChannel OpenDataChannel", []string{"*"}},
	{"ssm", "GetParameter SendCommand StartSession", []string{"*"}},
	{"ecs", "ExecuteCommand RunTask StopTask UpdateService", []string{"Cluster.Arn", "*"}},
	{"ec2", `AssignPrivateIpAddresses CreateNetworkInterface CreateNetworkInterfacePermission DeleteNetworkInterface DescribeNetworkInterfaces
		DescribeSubnets RunInstances UnassignPrivateIpAddresses`, []string{"*"}},
	{"sts", "AssumeRole", []string{"*"}},
}

// probes lists keys of all kinds, because a permission may depend on the key.
var probes = []string{
	"", "NS/ENTITY#user", "NS/RESOURCE#gpt-4", "NS/SYSTEM#", "NS/AUDIT#user", "NS/PARENT#user",
	"NS/ENTITY_CONFIG#gpt-4", "NS",
	"_/SYSTEM#", "_", "OTHER/ENTITY#user", "OTHER", "SYSTEM#",
}

// unused returns the permissions that no operation needs.
func (t tier) unused(needed []fakeaws.Access) (all []string) {
	used := map[[2]string]bool{}
	for _, r := range needed {
		used[[2]string{r.Action, r.Resource}] = true
	}
	for _, u := range universe {
		for action := range strings.FieldsSeq(u.actions) {
			for _, resource := range u.resources {
				r := fakeaws.Access{Action: u.service + ":" + action, Resource: resource, Tag: t.tag}
				if !used[[2]string{r.Action, r.Resource}] && t.allowsAny(r) {
					all = append(all, "does not need "+r.String())
				}
			}
		}
	}
	return all
}

// allowsAny reports whether the policy allows an access for some key.
func (t tier) allowsAny(r fakeaws.Access) bool {
	return slices.ContainsFunc(probes, func(key string) bool {
		r.Keys, r.Attributes = strings.Fields(key), []string{"PK"}
		return t.policy.Allows(r)
	})
}

// nameless lists actions on things without a name, or that a service checks on all
// resources.
var nameless = strings.Fields(`xray:PutTelemetryRecords xray:PutTraceSegments ecr:GetAuthorizationToken
	ssmmessages:CreateControlChannel ssmmessages:CreateDataChannel ssmmessages:OpenControlChannel ssmmessages:OpenDataChannel
	ec2:AssignPrivateIpAddresses ec2:CreateNetworkInterface ec2:DeleteNetworkInterface ec2:DescribeNetworkInterfaces
	ec2:DescribeSubnets ec2:UnassignPrivateIpAddresses`)

// wildcards returns actions and resources with wildcards. Objects of the archive need
// one, and so do nameless actions.
func (t tier) wildcards() (all []string) {
	for _, s := range t.policy {
		for _, name := range slices.Concat(s.Actions, s.Resources) {
			onAll := name == "*" && !slices.ContainsFunc(s.Actions, func(a string) bool {
				return !slices.Contains(nameless, a)
			})
			if strings.ContainsAny(name, "*?") && name != "AuditArchiveBucket.Arn/audit/*" && !onAll {
				all = append(all, "has too much: "+name)
			}
		}
	}
	return all
}

// tier is a principal with permissions from the template.
type tier struct {
	name   string // as in operation.may
	policy fakeaws.Policy
	tag    string           // of its namespace, or ""
	closed bool             // it must not allow other operations
	works  []fakeaws.Access // accesses by AWS in its name
	never  string           // calls that it must not allow, one per line
	tagged string           // calls that it must not allow if the tag is the reserved namespace
}

// Applications may write only buckets. Limits of an entity are in the same partition,
// in attributes l_*.
const onlyBuckets = `
	PutItem NS/RESOURCE#gpt-4
	PutItem NS/SYSTEM#
	UpdateItem NS/SYSTEM#
	PutItem NS/AUDIT#user
	PutItem _/SYSTEM#
	UpdateItem _/SYSTEM#
	PutItem
	TransactWriteItems PutItem=NS/ENTITY#user PutItem=NS/SYSTEM#
	DeleteItem NS/ENTITY#user
	PutItem{PK,SK,l_rpm_cp} NS/ENTITY#user
	PutItem{PK,SK,b_rpm_tk,l_rpm_cp} NS/ENTITY#user
	UpdateItem{PK,SK,l_rpm_ra} NS/ENTITY#user
	UpdateItem{PK,SK,l_off} NS/ENTITY#user
	PutItem{PK,SK,l_off_resources} NS/ENTITY#user
	TransactWriteItems UpdateItem{PK,SK,l_rpm_cp}=NS/ENTITY#user
	TransactWriteItems PutItem{PK,SK,b_rpm_tk}=NS/ENTITY#user PutItem{PK,SK,l_rpm_cp}=NS/ENTITY#user
	PutItem{} NS/ENTITY#user
	UpdateItem{} NS/ENTITY#user`

// A namespace tier has no access to other namespaces and to the registry.
const onlyOwnReads = `
	GetItem OTHER/ENTITY#user
	GetItem NS2/ENTITY#user
	GetItem
	BatchGetItem NS/ENTITY#user OTHER/ENTITY#user
	Query OTHER/SYSTEM#
	Query@GSI2 OTHER/RESOURCE#gpt-4
	Query@GSI4 OTHER
	Query@GSI4 _`

const onlyOwnWrites = `
	PutItem OTHER/ENTITY#user
	UpdateItem OTHER/ENTITY#user
	DeleteItem OTHER/ENTITY#user
	BatchWriteItem NS/ENTITY#user OTHER/ENTITY#user
	PutItem _/SYSTEM#
	UpdateItem _/SYSTEM#
	DeleteItem _/SYSTEM#
	BatchWriteItem _/SYSTEM#
	PutItem
	TransactWriteItems PutItem=NS/ENTITY#user PutItem=OTHER/ENTITY#user
	TransactWriteItems PutItem=NS/ENTITY#user DeleteItem=_/SYSTEM#`

// tiers returns all principals of a stack.
func tiers(tb testing.TB) []tier {
	tb.Helper()
	made := everything(tb, "app").Resources()
	managed := func(id string) fakeaws.Policy { return fakeaws.ParsePolicy(tb, made[id]["PolicyDocument"]) }
	return []tier{
		{name: "acq", policy: managed("AcquireOnlyPolicy"), closed: true, never: onlyBuckets},
		{name: "full", policy: managed("FullAccessPolicy"), closed: true},
		{name: "read", policy: managed("ReadOnlyPolicy"), closed: true},
		{
			name: "ns-acq", policy: managed("NamespaceAcquirePolicy"), tag: fakeaws.Namespace, closed: true,
			never: onlyBuckets + onlyOwnReads + onlyOwnWrites,
		},
		{
			name: "ns-full", policy: managed("NamespaceFullAccessPolicy"), tag: fakeaws.Namespace, closed: true,
			never: onlyOwnReads + onlyOwnWrites, tagged: onlyOwnWrites,
		},
		{
			name: "ns-read", policy: managed("NamespaceReadOnlyPolicy"), tag: fakeaws.Namespace, closed: true,
			never: onlyOwnReads,
		},
		{name: "aggr", policy: inline(tb, made["AggregatorRole"]), works: aggregatorWorks, never: `
			BatchGetItem NS/ENTITY#user
			BatchGetItem NS/SYSTEM# _/SYSTEM#
			BatchGetItem
			UpdateItem NS/SYSTEM#
			UpdateItem _/SYSTEM#
			UpdateItem`},
		{name: "prov", policy: inline(tb, made["ProvisionerRole"]), works: provisionerWorks, never: `
			PutItem _/SYSTEM#
			UpdateItem _/SYSTEM#
			DeleteItem _/SYSTEM#
			TransactWriteItems PutItem=NS/SYSTEM# UpdateItem=_/SYSTEM#
			PutItem
			Query NS/ENTITY#user
			Query NS/SYSTEM#
			Query`},
	}
}

// inline returns all inline policies of a role as one.
func inline(tb testing.TB, role fakeaws.Tree) (p fakeaws.Policy) {
	tb.Helper()
	list, _ := role["Policies"].([]any)
	for _, one := range list {
		p = append(p, fakeaws.ParsePolicy(tb, fakeaws.At(one, "PolicyDocument"))...)
	}
	return p
}

// Lambda uses the role of the function to read the stream, report failures and write
// logs and traces. S3 reports a missing object only to callers with s3:ListBucket.
var aggregatorWorks = []fakeaws.Access{
	{Action: "dynamodb:DescribeStream", Resource: fakeaws.StreamARN},
	{Action: "dynamodb:GetRecords", Resource: fakeaws.StreamARN},
	{Action: "dynamodb:GetShardIterator", Resource: fakeaws.StreamARN},
	{Action: "dynamodb:ListStreams", Resource: fakeaws.StreamARN},
	{Action: "sqs:SendMessage", Resource: "AggregatorDLQ.Arn"},
	{Action: "logs:CreateLogStream", Resource: "AggregatorLogGroup.Arn"},
	{Action: "logs:PutLogEvents", Resource: "AggregatorLogGroup.Arn"},
	{Action: "s3:ListBucket", Resource: "AuditArchiveBucket.Arn"},
	{Action: "xray:PutTelemetryRecords", Resource: "*"},
	{Action: "xray:PutTraceSegments", Resource: "*"},
}

var provisionerWorks = []fakeaws.Access{
	{Action: "logs:CreateLogStream", Resource: "ProvisionerLogGroup.Arn"},
	{Action: "logs:PutLogEvents", Resource: "ProvisionerLogGroup.Arn"},
}

const (
	stream   = "RateLimitsTable.StreamArn"
	archived = "AuditArchiveBucket.Arn/audit/year=2026/month=05/day=04/audit-2026-05-04T12.jsonl.gz"
)

// problems returns all permissions that the tier lacks or should not have.
func (t tier) problems(recorded calls) (all []string) {
	needed := slices.Clone(t.works)
	for _, o := range operations() {
		for _, c := range recorded[o.name] {
			if slices.Contains(strings.Fields(o.may), t.name) {
				needed = append(needed, c.Accesses(t.tag, false)...)
				needed = append(needed, c.Accesses(t.tag, true)...)
			}
		}
		all = append(all, t.excess(o, recorded[o.name])...)
	}
	for _, r := range needed {
		if !t.policy.Allows(r) {
			all = append(all, "needs "+r.String())
		}
	}
	for tag, never := range map[string]string{t.tag: t.never, "_": t.tagged} {
		for line := range strings.Lines(never) {
			if line = strings.TrimSpace(line); line != "" && t.canSend([]fakeaws.Call{fakeaws.ParseCall(line)}, tag) {
				all = append(all, "must not "+line+" as "+tag)
			}
		}
	}
	return slices.Concat(all, t.unused(needed), t.wildcards())
}

// excess returns operations that the tier should not allow, at all or in another
// namespace.
func (t tier) excess(o operation, sent []fakeaws.Call) (all []string) {
	if t.closed && !slices.Contains(strings.Fields(o.may), t.name) && t.canSend(sent, t.tag) {
		all = append(all, "can do "+o.name)
	}
	var elsewhere []fakeaws.Call
	for _, c := range sent {
		elsewhere = append(elsewhere, c.InOtherNamespace())
	}
	shared := slices.EqualFunc(sent, elsewhere, func(a, b fakeaws.Call) bool { return a.String() == b.String() })
	if t.tag != "" && !shared && t.canSend(elsewhere, t.tag) {
		all = append(all, "can do "+o.name+" elsewhere")
	}
	return all
}

// canSend reports whether the policy allows all calls.
func (t tier) canSend(sent []fakeaws.Call, tag string) bool {
	for _, c := range sent {
		for _, r := range c.Accesses(tag, false) {
			if !t.policy.Allows(r) {
				return false
			}
		}
	}
	return true
}

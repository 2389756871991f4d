package infra_test

import (
	"slices"
	"strings"
	"testing"
)

// tier is a principal that the template gives permissions to.
type tier struct {
	name   string // as in operation.may
	policy policy
	tag    string    // of its namespace, if it has one
	closed bool      // operations that are not its work must be refused
	works  []request // what AWS does in its name, besides the operations
	never  string    // calls that must be refused, one a line
	tagged string    // calls that must be refused if the tag is the reserved namespace
}

// In the table every application writes buckets and nothing else. Limits of an
// entity are in the same partition, under attributes l_*.
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
	TransactWriteItems UpdateItem{PK,SK,l_rpm_cp}=NS/ENTITY#user
	TransactWriteItems PutItem{PK,SK,b_rpm_tk}=NS/ENTITY#user PutItem{PK,SK,l_rpm_cp}=NS/ENTITY#user
	PutItem{} NS/ENTITY#user
	UpdateItem{} NS/ENTITY#user`

// A namespace is closed to the others, and so is the registry.
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

// tiers are all principals of a stack with everything in it.
func tiers(tb testing.TB) []tier {
	tb.Helper()
	made := everything(tb, "app").resources()
	managed := func(id string) policy { return statements(tb, made[id]["PolicyDocument"]) }
	return []tier{
		{name: "acq", policy: managed("AcquireOnlyPolicy"), closed: true, never: onlyBuckets},
		{name: "full", policy: managed("FullAccessPolicy"), closed: true},
		{name: "read", policy: managed("ReadOnlyPolicy"), closed: true},
		{name: "ns-acq", policy: managed("NamespaceAcquirePolicy"), tag: own, closed: true, never: onlyBuckets + onlyOwnReads + onlyOwnWrites},
		{name: "ns-full", policy: managed("NamespaceFullAccessPolicy"), tag: own, closed: true, never: onlyOwnReads + onlyOwnWrites, tagged: onlyOwnWrites},
		{name: "ns-read", policy: managed("NamespaceReadOnlyPolicy"), tag: own, closed: true, never: onlyOwnReads},
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

// inline is all policies of a role together.
func inline(tb testing.TB, role tree) (p policy) {
	tb.Helper()
	list, _ := role["Policies"].([]any)
	for _, one := range list {
		p = append(p, statements(tb, at(one, "PolicyDocument"))...)
	}
	return p
}

// Lambda reads the stream with the role of the function, reports what failed,
// writes the log and traces. S3 tells only those that a file is missing who may
// list its bucket.
var aggregatorWorks = []request{
	{action: "dynamodb:DescribeStream", resource: stream},
	{action: "dynamodb:GetRecords", resource: stream},
	{action: "dynamodb:GetShardIterator", resource: stream},
	{action: "dynamodb:ListStreams", resource: stream},
	{action: "sqs:SendMessage", resource: "AggregatorDLQ.Arn"},
	{action: "logs:CreateLogStream", resource: "AggregatorLogGroup.Arn"},
	{action: "logs:PutLogEvents", resource: "AggregatorLogGroup.Arn"},
	{action: "s3:ListBucket", resource: "AuditArchiveBucket.Arn"},
	{action: "xray:PutTelemetryRecords", resource: "*"},
	{action: "xray:PutTraceSegments", resource: "*"},
}

var provisionerWorks = []request{
	{action: "logs:CreateLogStream", resource: "ProvisionerLogGroup.Arn"},
	{action: "logs:PutLogEvents", resource: "ProvisionerLogGroup.Arn"},
}

const (
	stream   = "RateLimitsTable.StreamArn"
	archived = "AuditArchiveBucket.Arn/audit/year=2026/month=05/day=04/audit-2026-05-04T12.jsonl.gz"
)

// problems are all reasons for which a tier may do less than its work, or more.
func (t tier) problems(recorded calls) (all []string) {
	needed := slices.Clone(t.works)
	for _, o := range operations() {
		for _, c := range recorded[o.name] {
			if slices.Contains(strings.Fields(o.may), t.name) {
				needed = append(needed, c.requests(t.tag, false)...)
				needed = append(needed, c.requests(t.tag, true)...)
			}
		}
		all = append(all, t.excess(o, recorded[o.name])...)
	}
	for _, r := range needed {
		if !t.policy.allows(r) {
			all = append(all, "needs "+r.String())
		}
	}
	for tag, never := range map[string]string{t.tag: t.never, "_": t.tagged} {
		for line := range strings.Lines(never) {
			if line = strings.TrimSpace(line); line != "" && t.carriesOut([]call{parseCall(line)}, tag) {
				all = append(all, "must not "+line+" as "+tag)
			}
		}
	}
	return slices.Concat(all, t.idle(needed), t.wild())
}

// excess is an operation that the tier could carry out though it is not its work,
// or in a namespace that is not its own.
func (t tier) excess(o operation, sent []call) (all []string) {
	if t.closed && !slices.Contains(strings.Fields(o.may), t.name) && t.carriesOut(sent, t.tag) {
		all = append(all, "can do "+o.name)
	}
	var elsewhere []call
	for _, c := range sent {
		elsewhere = append(elsewhere, c.elsewhere())
	}
	shared := slices.EqualFunc(sent, elsewhere, func(a, b call) bool { return a.String() == b.String() })
	if t.tag != "" && !shared && t.carriesOut(elsewhere, t.tag) {
		all = append(all, "can do "+o.name+" elsewhere")
	}
	return all
}

// carriesOut tells whether all of some calls are allowed.
func (t tier) carriesOut(sent []call, tag string) bool {
	for _, c := range sent {
		for _, r := range c.requests(tag, false) {
			if !t.policy.allows(r) {
				return false
			}
		}
	}
	return true
}

func (r request) String() string {
	return strings.Join(append([]string{written(r.action, r.attributes), "on", r.resource}, r.keys...), " ")
}

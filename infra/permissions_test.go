package infra_test

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// recordedFile is what the library sends, as recorded last.
func recordedFile(tb testing.TB) calls {
	tb.Helper()
	recorded, err := os.ReadFile(recordedCalls)
	if err != nil {
		tb.Fatal(err)
	}
	return parseCalls(tb, string(recorded))
}

// Everybody can do their work, and nobody more.
func TestPermissions(t *testing.T) {
	recorded := recordedFile(t)
	for _, tier := range tiers(t) {
		for _, p := range tier.problems(recorded) {
			t.Errorf("%s: %s", tier.name, p)
		}
	}
}

// A principal of a namespace tier that carries no tag reads the registry at most.
func TestNamespaceTiersNeedTheirTag(t *testing.T) {
	recorded := recordedFile(t)
	for _, tier := range tiers(t) {
		if tier.tag == "" {
			continue
		}
		for name, sent := range recorded {
			about := slices.ContainsFunc(sent, func(c call) bool { return c.String() != c.elsewhere().String() })
			if about && tier.carriesOut(sent, "") {
				t.Errorf("%s without a tag can do %s", tier.name, name)
			}
		}
	}
}

// universe is what could be asked of the parts of a stack, and of what is beside
// it: actions of a service, and what they may be about.
var universe = []struct {
	service, actions string
	resources        []string
}{
	{"dynamodb", `BatchGetItem BatchWriteItem ConditionCheckItem DeleteItem GetItem PutItem Query Scan UpdateItem
		PartiQLDelete PartiQLInsert PartiQLSelect PartiQLUpdate
		CreateBackup CreateTable DeleteBackup DeleteResourcePolicy DeleteTable DescribeContinuousBackups DescribeTable DescribeTimeToLive
		ExportTableToPointInTime ListTagsOfResource PutResourcePolicy RestoreTableToPointInTime TagResource UpdateContinuousBackups
		UpdateTable UpdateTimeToLive
		DescribeStream GetRecords GetShardIterator ListStreams`, []string{table, stream, "OtherTable.Arn", "OtherTable.StreamArn"}},
	{"dynamodb", "Query Scan PartiQLSelect", []string{
		table + "/index/GSI1", table + "/index/GSI2", table + "/index/GSI3", table + "/index/GSI4", table + "/index/GSI5", "OtherTable.Arn/index/GSI1",
	}},
	{"s3", "DeleteObject GetObject PutObject PutObjectAcl", []string{archived, "AuditArchiveBucket.Arn/other", "OtherBucket.Arn/audit/x"}},
	{"s3", "DeleteBucket ListBucket PutBucketPolicy", []string{"AuditArchiveBucket.Arn", "OtherBucket.Arn"}},
	{"sqs", "DeleteQueue PurgeQueue ReceiveMessage SendMessage", []string{"AggregatorDLQ.Arn", "OtherQueue.Arn"}},
	{"logs", "CreateLogGroup CreateLogStream DeleteLogGroup PutLogEvents", []string{"AggregatorLogGroup.Arn", "ProvisionerLogGroup.Arn", "OtherLogGroup.Arn"}},
	{"xray", "GetTraceSummaries PutTelemetryRecords PutTraceSegments", []string{"*"}},
	{"iam", "PassRole", []string{"*"}},
	{"lambda", "InvokeFunction", []string{"*"}},
	{"sts", "AssumeRole", []string{"*"}},
}

// probes are keys of all kinds, since some permission may hold for one of them.
var probes = []string{
	"", "NS/ENTITY#user", "NS/RESOURCE#gpt-4", "NS/SYSTEM#", "NS/AUDIT#user", "NS/PARENT#user", "NS/ENTITY_CONFIG#gpt-4", "NS",
	"_/SYSTEM#", "_", "OTHER/ENTITY#user", "OTHER", "SYSTEM#",
}

// idle is what the tier may do and nothing needs.
func (t tier) idle(needed []request) (all []string) {
	used := map[[2]string]bool{}
	for _, r := range needed {
		used[[2]string{r.action, r.resource}] = true
	}
	for _, u := range universe {
		for action := range strings.FieldsSeq(u.actions) {
			for _, resource := range u.resources {
				r := request{action: u.service + ":" + action, resource: resource, tag: t.tag}
				if !used[[2]string{r.action, r.resource}] && t.mayFor(r) {
					all = append(all, "has no use for "+r.String())
				}
			}
		}
	}
	return all
}

// mayFor tells whether a request is allowed for some keys.
func (t tier) mayFor(r request) bool {
	return slices.ContainsFunc(probes, func(key string) bool {
		r.keys, r.attributes = strings.Fields(key), []string{"PK"}
		return t.policy.allows(r)
	})
}

// wild are actions and resources that are not named in full. Objects of the
// archive cannot be, and traces have no names at all.
func (t tier) wild() (all []string) {
	for _, s := range t.policy {
		for _, name := range slices.Concat(s.actions, s.resources) {
			traces := name == "*" && !slices.ContainsFunc(s.actions, func(a string) bool { return !strings.HasPrefix(a, "xray:Put") })
			if strings.ContainsAny(name, "*?") && name != "AuditArchiveBucket.Arn/audit/*" && !traces {
				all = append(all, "has too much: "+name)
			}
		}
	}
	return all
}

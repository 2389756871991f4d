package infra_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// completeStack deploys a stack with functions and alarms.
func completeStack(t *testing.T) (*cloud, string, infra.Deployment) {
	t.Helper()
	c, name := newCloud(t), stackName()
	d := deploy(t, name, c.options())
	s := c.Find(name)
	maps.Copy(s.Outputs, map[string]string{
		"AggregatorDLQAlarmName":        name + "-aggregator-dlq-alarm",
		"DynamoDBReadThrottleAlarmName": name + "-read-throttle",
		"AcquireOnlyPolicyArn":          "arn:acq", "AppRoleArn": "arn:app",
		"AuditArchiveBucketName": name + "-archive",
	})
	c.Alarms = []fakeaws.Alarm{
		{Name: name + "-read-throttle", State: "OK", Reason: "fine"},
		{Name: name + "-aggregator-dlq-alarm", State: "INSUFFICIENT_DATA", Reason: "new"},
		{Name: "of-another-stack", State: "ALARM", Reason: "no"},
	}
	for _, suffix := range []string{"-aggregator", "-limits-provisioner"} {
		c.Functions[name+suffix] = functionJSON(t, d.Code.SHA256, "Active")
	}
	c.Mappings = `{"UUID":"u","State":"Enabled","LastProcessingResult":"OK","LastModified":1767323045}`
	return c, name, d
}

// functionJSON returns the response to GetFunction.
func functionJSON(t *testing.T, sha256, state string) string {
	t.Helper()
	sum, err := hex.DecodeString(sha256)
	must(t, err)
	return fmt.Sprintf(`{"Configuration":{"State":%q,"StateReason":"because","LastUpdateStatus":"Successful","Runtime":"provided.al2023","Architectures":["arm64"],"CodeSha256":%q,"LastModified":"2026-01-02T03:04:05.000+0000","MemorySize":256,"Timeout":60},"Tags":{"zae-limiter:lambda-version":"1.2.3"}}`,
		state, base64.StdEncoding.EncodeToString(sum))
}

// inspect returns the status of a stack, and checks that nothing is written.
func inspect(t *testing.T, c *cloud, name string) infra.Status {
	t.Helper()
	opts := c.options()
	c.TakeCalls()
	st, err := infra.Inspect(t.Context(), name, &opts)
	must(t, err)
	writes := []string{
		"CreateStack", "CreateChangeSet", "DeleteStack", "PutObject", "PutItem", "UpdateItem",
		"TransactWriteItems", "BatchWriteItem", "CreateBucket",
	}
	if got := c.TakeCalls(writes...); len(got) > 0 {
		t.Errorf("Inspect wrote: %v", got)
	}
	return st
}

func TestStatusOfAStackThatIsReady(t *testing.T) {
	t.Parallel()
	c, name, d := completeStack(t)
	got := inspect(t, c, name)
	s := c.Find(name)
	function := func(name string) infra.FunctionStatus {
		return infra.FunctionStatus{
			Exists: true, Name: name, State: "Active", LastUpdate: "Successful", Reason: "because",
			Runtime: "provided.al2023", Architecture: "arm64", Version: "1.2.3",
			SHA256: d.Code.SHA256, Modified: "2026-01-02T03:04:05.000+0000", MemoryMB: 256, Timeout: 60,
		}
	}
	index := func(name, projection string) infra.IndexStatus {
		return infra.IndexStatus{Name: name, Status: "ACTIVE", Projection: projection}
	}
	want := infra.Status{
		Name: name, Region: fakeaws.Region, Verdict: infra.Ready, Problems: []string{}, Available: true,
		Stack: infra.StackStatus{
			Exists: true, ID: s.ID, Status: "CREATE_COMPLETE", Created: s.Created, Parameters: s.Parameters,
			Tags: s.Tags, Outputs: s.Outputs,
		},
		Table: infra.TableStatus{
			Exists: true, Status: "ACTIVE", Items: got.Table.Items,
			Indexes: []infra.IndexStatus{
				index("GSI1", "ALL"), index("GSI2", "ALL"), index("GSI3", "KEYS_ONLY"),
				index("GSI4", "KEYS_ONLY"),
			},
			Stream: "NEW_AND_OLD_IMAGES", TTL: "ENABLED", TTLAttribute: "ttl", RecoveryDays: 7,
		},
		Aggregator: function(name + "-aggregator"), Provisioner: function(name + "-limits-provisioner"),
		EventSource: infra.EventSourceStatus{Exists: true, State: "Enabled", LastResult: "OK"},
		DeadLetters: infra.QueueStatus{Exists: true, URL: s.Outputs["AggregatorDLQUrl"]},
		Versions: infra.VersionStatus{
			Program: "1.2.3", ProgramSchema: "0.8.0", Stack: "1.2.3", Lambda: "1.2.3", Schema: "0.8.0",
			ClientMin: "0.0.0", UpdatedBy: "cli:1.2.3", Pending: []string{},
		},
		Alarms: infra.AlarmsStatus{List: []infra.AlarmStatus{
			{Name: name + "-aggregator-dlq-alarm", State: "INSUFFICIENT_DATA", Reason: "new"},
			{Name: name + "-read-throttle", State: "OK", Reason: "fine"},
		}},
		IAM: map[string]string{"AcquireOnlyPolicyArn": "arn:acq", "AppRoleArn": "arn:app"},
	}
	ignored := cmp.Options{
		cmpopts.IgnoreFields(infra.Status{}, "CheckedAt", "LatencyMillis", "CostHints"),
		cmpopts.IgnoreFields(infra.EventSourceStatus{}, "Modified"),
		cmpopts.IgnoreFields(infra.VersionStatus{}, "UpdatedAt"),
		cmpopts.IgnoreFields(infra.TableStatus{}, "Bytes"), cmpopts.IgnoreFields(infra.IndexStatus{}, "Bytes"),
	}
	if diff := cmp.Diff(want, got, ignored); diff != "" {
		t.Error(diff)
	}
	if got.Table.Items < 3 || got.Table.Bytes == 0 || len(got.CostHints) != 5 || got.EventSource.Modified.IsZero() ||
		got.Versions.UpdatedAt.IsZero() {
		t.Errorf("%+v", got)
	}
	if _, err := json.Marshal(got); err != nil {
		t.Error(err)
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		arrange func(*cloud, *fakeaws.Stack, infra.Deployment)
		want    infra.Verdict
		says    string
	}{
		"updated": {func(_ *cloud, s *fakeaws.Stack, _ infra.Deployment) {
			s.Status = "UPDATE_COMPLETE"
		}, infra.Ready, ""},
		"update undone": {func(_ *cloud, s *fakeaws.Stack, _ infra.Deployment) {
			s.Status = "UPDATE_ROLLBACK_COMPLETE"
		}, infra.Degraded, "rolled back"},
		"updating": {func(_ *cloud, s *fakeaws.Stack, _ infra.Deployment) {
			s.Status = "UPDATE_IN_PROGRESS"
		}, infra.Changing, "UPDATE_IN_PROGRESS"},
		"never made": {func(_ *cloud, s *fakeaws.Stack, _ infra.Deployment) {
			s.Status, s.Reason = "ROLLBACK_COMPLETE", "why"
		}, infra.Broken, "why"},
		"stuck": {func(_ *cloud, s *fakeaws.Stack, _ infra.Deployment) {
			s.Status = "UPDATE_ROLLBACK_FAILED"
		}, infra.Broken, "UPDATE_ROLLBACK_FAILED"},
		"no table": {func(c *cloud, s *fakeaws.Stack, _ infra.Deployment) {
			c.DropTable(s.Name)
		}, infra.Unreachable, "no table"},
		"no stack": {func(_ *cloud, s *fakeaws.Stack, _ infra.Deployment) {
			s.Status = "DELETE_COMPLETE"
		}, infra.Degraded, "no stack"},
		"messages": {func(c *cloud, _ *fakeaws.Stack, _ infra.Deployment) {
			c.Messages = "7"
		}, infra.Degraded, "7 changes"},
		"alarm": {func(c *cloud, s *fakeaws.Stack, _ infra.Deployment) {
			c.Alarms[0].State = "ALARM"
		}, infra.Degraded, "fine"},
		"disabled": {func(c *cloud, _ *fakeaws.Stack, _ infra.Deployment) {
			c.Mappings = `{"State":"Disabled"}`
		}, infra.Degraded, "Disabled"},
		"not mapped": {func(c *cloud, _ *fakeaws.Stack, _ infra.Deployment) {
			c.Mappings = ""
		}, infra.Degraded, "no event source"},
		"failing": {func(c *cloud, _ *fakeaws.Stack, _ infra.Deployment) {
			c.Mappings = `{"State":"Enabled","LastProcessingResult":"PROBLEM: Function call failed"}`
		}, infra.Degraded, "Function call failed"},
		"function failed": {func(c *cloud, s *fakeaws.Stack, d infra.Deployment) {
			c.Functions[s.Name+"-aggregator"] = functionJSON(t, d.Code.SHA256, "Failed")
		}, infra.Degraded, "is Failed: because"},
		"code of another": {func(c *cloud, s *fakeaws.Stack, _ infra.Deployment) {
			c.Functions[s.Name+"-aggregator"] = functionJSON(t, strings.Repeat("ab", 32), "Active")
		}, infra.Degraded, "restores it"},
		"creation undone": {func(_ *cloud, s *fakeaws.Stack, _ infra.Deployment) {
			s.Status = "ROLLBACK_IN_PROGRESS"
		}, infra.Broken, "ROLLBACK_IN_PROGRESS"},
		"never executed": {func(_ *cloud, s *fakeaws.Stack, _ infra.Deployment) {
			s.Status = "REVIEW_IN_PROGRESS"
		}, infra.Broken, "REVIEW_IN_PROGRESS"},
		"no functions": {func(c *cloud, s *fakeaws.Stack, _ infra.Deployment) {
			clear(c.Functions)
			c.Mappings = ""
			s.Parameters["EnableAggregator"], s.Parameters["EnableIAM"] = "false", "false"
		}, infra.Ready, ""},
		"aggregator gone": {func(c *cloud, s *fakeaws.Stack, _ infra.Deployment) {
			delete(c.Functions, s.Name+"-aggregator")
			c.Mappings = ""
		}, infra.Degraded, "-aggregator does not exist; infra.Deploy with NoAggregator and then without(app-"},
		"provisioner gone": {func(c *cloud, s *fakeaws.Stack, _ infra.Deployment) {
			delete(c.Functions, s.Name+"-limits-provisioner")
		}, infra.Degraded, "-limits-provisioner does not exist"},
		"code deployed by hand": {func(_ *cloud, s *fakeaws.Stack, _ infra.Deployment) {
			s.Parameters["CodeKey"] = "lambda.zip"
		}, infra.Ready, ""},
		"newer table": {func(c *cloud, s *fakeaws.Stack, _ infra.Deployment) {
			c.SetSchema(s.Name, "9.0.0")
		}, infra.Broken, "schema 9.0.0"},
		"no record": {func(c *cloud, s *fakeaws.Stack, _ infra.Deployment) {
			c.SetSchema(s.Name, "")
		}, infra.Degraded, "no version record"},
		"updating, no table": {func(c *cloud, s *fakeaws.Stack, _ infra.Deployment) {
			s.Status = "CREATE_IN_PROGRESS"
			c.DropTable(s.Name)
		}, infra.Unreachable, "CREATE_IN_PROGRESS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, name, d := completeStack(t)
			test.arrange(c, c.Find(name), d)
			st := inspect(t, c, name)
			all := dynamotest.SaidBy(strings.Join(st.Problems, "\n"), st.Remedies)
			if st.Verdict != test.want || !strings.Contains(all, test.says) ||
				(test.want == infra.Ready) != (all == "") || len(st.Problems) > 1 && st.Problems[0] == st.Problems[1] {
				t.Errorf("%s: %s", st.Verdict, all)
			}
		})
	}
}

// TestStatusReportsDeniedCalls denies each call, and finds the error in its part of
// the status.
func TestStatusReportsDeniedCalls(t *testing.T) {
	t.Parallel()
	for op, part := range map[string]func(infra.Status) string{
		"DescribeStacks":            func(st infra.Status) string { return st.Stack.Error },
		"DescribeTable":             func(st infra.Status) string { return st.Table.Error },
		"DescribeTimeToLive":        func(st infra.Status) string { return st.Table.Error },
		"DescribeContinuousBackups": func(st infra.Status) string { return st.Table.Error },
		"BatchGetItem":              func(st infra.Status) string { return st.Versions.Error },
		"GetItem":                   func(st infra.Status) string { return st.Versions.Error },
		"GetFunction":               func(st infra.Status) string { return st.Aggregator.Error },
		"ListEventSourceMappings":   func(st infra.Status) string { return st.EventSource.Error },
		"GetQueueAttributes":        func(st infra.Status) string { return st.DeadLetters.Error },
		"DescribeAlarms":            func(st infra.Status) string { return st.Alarms.Error },
	} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			c, name, _ := completeStack(t)
			c.Deny(op)
			st := inspect(t, c, name)
			if got := part(st); !strings.Contains(got, op) || !slices.ContainsFunc(st.Problems, func(p string) bool {
				return strings.Contains(p, got)
			}) {
				t.Errorf("%q: %v", got, st.Problems)
			}
			want := infra.Uncertain
			if op == "DescribeTable" {
				want = infra.Unreachable
			}
			if st.Verdict != want {
				t.Error(st.Verdict)
			}
		})
	}
}

func TestStatusNeedsAName(t *testing.T) {
	t.Parallel()
	_, err := infra.Inspect(t.Context(), "a_b", nil)
	checkError[*limiter.InvalidError](t, err)
}

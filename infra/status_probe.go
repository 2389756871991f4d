package infra

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamodbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// Each probe fills its own part of a Status, so they may run together.

// errorOf is an error for people; "" for none, and for what is not there.
func errorOf(err error) string {
	if err == nil || errors.Is(err, limiter.ErrNotFound) {
		return ""
	}
	return explain(err).Error()
}

func (s *session) probeStack(ctx context.Context, st *Status) {
	stack, err := s.find(ctx)
	if none, ok := errors.AsType[*noStacksError](err); ok {
		st.Stack.Reason = "there is no CloudFormation at " + none.at
		return
	}
	st.Stack.Error = errorOf(err)
	if stack == nil {
		return
	}
	parameters := map[string]string{}
	for _, p := range stack.Parameters {
		parameters[aws.ToString(p.ParameterKey)] = aws.ToString(p.ParameterValue)
	}
	st.Stack = StackStatus{
		Exists: stateOf(stack) != missing, ID: aws.ToString(stack.StackId),
		Status: string(stack.StackStatus), Reason: aws.ToString(stack.StackStatusReason),
		Created: aws.ToTime(stack.CreationTime), Updated: aws.ToTime(stack.LastUpdatedTime), Protected: aws.ToBool(stack.EnableTerminationProtection),
		Parameters: parameters, Tags: tagsOf(*stack), Outputs: outputsOf(stack),
	}
	for output, value := range st.Stack.Outputs {
		if strings.HasSuffix(output, "PolicyArn") || strings.HasSuffix(output, "RoleArn") {
			st.IAM[output] = value
		}
	}
}

func (s *session) probeTable(ctx context.Context, st *Status) {
	asked := s.opts.Now()
	out, err := s.tables.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &s.name})
	if err != nil {
		if !is[*dynamodbtypes.ResourceNotFoundException](err) {
			st.Table.Error = errorOf(err)
		}
		return
	}
	st.LatencyMillis = s.opts.Now().Sub(asked).Milliseconds()
	t := out.Table
	st.Available = t.TableStatus == dynamodbtypes.TableStatusActive || t.TableStatus == dynamodbtypes.TableStatusUpdating
	st.Table = TableStatus{
		Exists: true, Status: string(t.TableStatus), Items: aws.ToInt64(t.ItemCount), Bytes: aws.ToInt64(t.TableSizeBytes),
		Indexes: []IndexStatus{}, DeletionProtection: aws.ToBool(t.DeletionProtectionEnabled),
	}
	for _, index := range t.GlobalSecondaryIndexes {
		st.Table.Indexes = append(st.Table.Indexes, IndexStatus{aws.ToString(index.IndexName), string(index.IndexStatus), aws.ToInt64(index.IndexSizeBytes)})
	}
	slices.SortFunc(st.Table.Indexes, func(a, b IndexStatus) int { return cmp.Compare(a.Name, b.Name) })
	if t.StreamSpecification != nil && aws.ToBool(t.StreamSpecification.StreamEnabled) {
		st.Table.Stream = string(t.StreamSpecification.StreamViewType)
	}
	st.Table.Error = errorOf(errors.Join(s.probeTTL(ctx, &st.Table), s.probeBackups(ctx, &st.Table)))
}

func (s *session) probeTTL(ctx context.Context, t *TableStatus) error {
	out, err := s.tables.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &s.name})
	if err == nil && out.TimeToLiveDescription != nil {
		t.TTL = string(out.TimeToLiveDescription.TimeToLiveStatus)
		t.TTLAttribute = aws.ToString(out.TimeToLiveDescription.AttributeName)
	}
	return err
}

func (s *session) probeBackups(ctx context.Context, t *TableStatus) error {
	out, err := s.tables.DescribeContinuousBackups(ctx, &dynamodb.DescribeContinuousBackupsInput{TableName: &s.name})
	if errorCode(err) == "UnknownOperationException" { // of engines for development
		return nil
	}
	if err != nil || out.ContinuousBackupsDescription == nil || out.ContinuousBackupsDescription.PointInTimeRecoveryDescription == nil {
		return err
	}
	if d := out.ContinuousBackupsDescription.PointInTimeRecoveryDescription; d.PointInTimeRecoveryStatus == dynamodbtypes.PointInTimeRecoveryStatusEnabled {
		t.RecoveryDays = int(cmp.Or(aws.ToInt32(d.RecoveryPeriodInDays), 35))
	}
	return nil
}

func (s *session) probeVersions(ctx context.Context, st *Status) {
	v := VersionStatus{Program: s.opts.Version, ProgramSchema: dynamo.SchemaVersion, Pending: []string{}}
	defer func() { st.Versions = v }()
	repo, err := s.table(ctx)
	if refused, ok := errors.AsType[*limiter.VersionError](err); ok {
		v.Schema, v.Refused = refused.Schema, refused.Error()
		return
	}
	if err != nil {
		v.Error = errorOf(err)
		return
	}
	defer func() { _ = repo.Close() }()
	record, err := repo.Version(ctx)
	if err == nil || errors.Is(err, limiter.ErrNotFound) {
		v.Schema, v.ClientMin, v.UpdatedBy, v.UpdatedAt = record.Schema, record.ClientMin, record.UpdatedBy, record.UpdatedAt
		var pending []dynamo.Migration
		pending, err = dynamo.PendingMigrations(ctx, s.name, &dynamo.MigrateOptions{Options: s.opts.Dynamo})
		for _, m := range pending {
			v.Pending = append(v.Pending, m.Version)
		}
	}
	v.Error = errorOf(err)
}

func (s *session) probeDeadLetters(ctx context.Context, st *Status) {
	url := st.Stack.Outputs["AggregatorDLQUrl"]
	if url == "" {
		return
	}
	st.DeadLetters = QueueStatus{Exists: true, URL: url}
	out, err := s.queues.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: &url, AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameApproximateNumberOfMessages},
	})
	if err == nil {
		st.DeadLetters.Messages, err = strconv.ParseInt(out.Attributes[string(sqstypes.QueueAttributeNameApproximateNumberOfMessages)], 10, 64)
	}
	st.DeadLetters.Error = errorOf(err)
}

func (s *session) probeAlarms(ctx context.Context, st *Status) {
	var names []string
	for _, output := range slices.Sorted(maps.Keys(st.Stack.Outputs)) {
		if strings.HasSuffix(output, "AlarmName") {
			names = append(names, st.Stack.Outputs[output])
		}
	}
	if len(names) == 0 {
		return
	}
	out, err := s.metrics.DescribeAlarms(ctx, &cloudwatch.DescribeAlarmsInput{AlarmNames: names})
	st.Alarms.Error = errorOf(err)
	if err != nil {
		return
	}
	for _, a := range out.MetricAlarms {
		st.Alarms.List = append(st.Alarms.List, AlarmStatus{
			aws.ToString(a.AlarmName), string(a.StateValue), aws.ToString(a.StateReason), aws.ToTime(a.StateUpdatedTimestamp),
		})
	}
	slices.SortFunc(st.Alarms.List, func(a, b AlarmStatus) int { return cmp.Compare(a.Name, b.Name) })
}

package infra

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamodbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/remedy"
)

// Each probe sets its own part of a Status, so that probes can run concurrently.

// probeError returns the text of an error, or "" for nil and for limiter.ErrNotFound.
func probeError(err error) string {
	if err == nil || errors.Is(err, limiter.ErrNotFound) {
		return ""
	}
	return explain(err).Error()
}

func (s *session) probeStack(ctx context.Context, st *Status) {
	stack, err := s.find(ctx)
	// An endpoint without CloudFormation is no failure of the probe.
	if none, ok := errors.AsType[*noCloudFormationError](err); ok {
		st.Stack.Reason = "there is no CloudFormation at " + none.at
		return
	}

	st.Stack.Error = probeError(err)
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
		Created: aws.ToTime(stack.CreationTime), Updated: aws.ToTime(stack.LastUpdatedTime),
		Protected:  aws.ToBool(stack.EnableTerminationProtection),
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
			st.Table.Error = probeError(err)
		}
		return
	}
	st.LatencyMillis = s.opts.Now().Sub(asked).Milliseconds()

	t := out.Table
	// An update, such as that of an index, does not stop requests.
	st.Available = t.TableStatus == dynamodbtypes.TableStatusActive ||
		t.TableStatus == dynamodbtypes.TableStatusUpdating

	st.Table = TableStatus{
		Exists: true, Status: string(t.TableStatus), Items: aws.ToInt64(t.ItemCount),
		Bytes:   aws.ToInt64(t.TableSizeBytes),
		Indexes: []IndexStatus{}, DeletionProtection: aws.ToBool(t.DeletionProtectionEnabled),
	}

	for _, index := range t.GlobalSecondaryIndexes {
		st.Table.Indexes = append(st.Table.Indexes, newIndexStatus(index))
	}
	slices.SortFunc(st.Table.Indexes, func(a, b IndexStatus) int { return cmp.Compare(a.Name, b.Name) })

	if t.StreamSpecification != nil && aws.ToBool(t.StreamSpecification.StreamEnabled) {
		st.Table.Stream = string(t.StreamSpecification.StreamViewType)
	}

	st.Table.Error = probeError(errors.Join(s.probeTTL(ctx, &st.Table), s.probeBackups(ctx, &st.Table)))
}

func newIndexStatus(index dynamodbtypes.GlobalSecondaryIndexDescription) IndexStatus {
	st := IndexStatus{
		Name: aws.ToString(index.IndexName), Status: string(index.IndexStatus),
		Bytes: aws.ToInt64(index.IndexSizeBytes),
	}
	if index.Projection != nil {
		st.Projection = string(index.Projection.ProjectionType)
	}
	return st
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
	// DynamoDB Local does not know the call.
	if errorCode(err) == "UnknownOperationException" {
		return nil
	}

	if err != nil || out.ContinuousBackupsDescription == nil ||
		out.ContinuousBackupsDescription.PointInTimeRecoveryDescription == nil {
		return err
	}

	// Without a period, recovery covers the maximum of the service.
	if d := out.ContinuousBackupsDescription.PointInTimeRecoveryDescription; d.PointInTimeRecoveryStatus ==
		dynamodbtypes.PointInTimeRecoveryStatusEnabled {
		t.RecoveryDays = int(cmp.Or(aws.ToInt32(d.RecoveryPeriodInDays), 35))
	}
	return nil
}

func (s *session) probeVersions(ctx context.Context, st *Status) {
	v := VersionStatus{Program: s.opts.Version, ProgramSchema: dynamo.SchemaVersion, Pending: []string{}}
	// The parts that were read stay, also where a later one fails.
	defer func() { st.Versions = v }()

	repo, err := s.table(ctx)
	if refused, ok := errors.AsType[*limiter.VersionError](err); ok {
		v.Schema, v.Refused = refused.Schema, refused.Error()
		st.Remedies = remedy.Of(err)
		return
	}

	if err != nil {
		v.Error = probeError(err)
		return
	}
	defer func() { _ = repo.Close() }()

	record, err := repo.Version(ctx)
	// A table without a version record may have data that predate such records,
	// so migrations may be pending.
	if err == nil || errors.Is(err, limiter.ErrNotFound) {
		v.Schema, v.ClientMin, v.UpdatedBy, v.UpdatedAt =
			record.Schema, record.ClientMin, record.UpdatedBy, record.UpdatedAt
		var pending []dynamo.Migration
		pending, err = dynamo.PendingMigrations(ctx, s.name, &dynamo.MigrateOptions{Options: s.opts.Dynamo})
		for _, m := range pending {
			v.Pending = append(v.Pending, m.Version)
		}
	}

	if err == nil {
		err = repo.CheckBuckets(ctx)
	}

	// A table of a newer version is a finding, not a failure of the probe.
	if refused, ok := errors.AsType[*limiter.VersionError](err); ok {
		st.Remedies = remedy.Of(err)
		v.Refused, err = refused.Error(), nil
	}

	v.Error = probeError(err)
}

func (s *session) probeAggregator(ctx context.Context, st *Status) {
	st.Aggregator = s.probeFunction(ctx, s.name+aggregatorSuffix)
}

func (s *session) probeProvisioner(ctx context.Context, st *Status) {
	st.Provisioner = s.probeFunction(ctx, s.name+provisionerSuffix)
}

func (s *session) probeFunction(ctx context.Context, name string) FunctionStatus {
	f := FunctionStatus{Name: name}
	var out struct {
		Configuration *struct {
			State, StateReason, LastUpdateStatus, LastUpdateStatusReason string
			Runtime, CodeSha256, LastModified                            string
			MemorySize, Timeout                                          int
			Architectures                                                []string
		}
		Tags map[string]string
	}

	err := s.functions.get(ctx, "GetFunction", functionPath(name), nil, &out)
	if isMissingFunction(err) {
		return f
	}

	if err != nil || out.Configuration == nil {
		f.Error = probeError(err)
		return f
	}

	c := out.Configuration
	f.Exists, f.State, f.LastUpdate, f.Runtime = true, c.State, c.LastUpdateStatus, c.Runtime
	f.Version, f.SHA256, f.Modified = out.Tags[tagLambdaVersion], hexHash(c.CodeSha256), c.LastModified
	f.MemoryMB, f.Timeout = c.MemorySize, c.Timeout
	f.Reason = c.StateReason

	if c.LastUpdateStatus == "Failed" {
		f.Reason = c.LastUpdateStatusReason
	}

	if len(c.Architectures) > 0 {
		f.Architecture = c.Architectures[0]
	}

	return f
}

// hexHash converts a hash from base64 to hexadecimal. It returns "" if it is invalid.
func hexHash(hash string) string {
	sum, err := base64.StdEncoding.DecodeString(hash)
	if err != nil {
		return ""
	}
	return hex.EncodeToString(sum)
}

func (s *session) probeEventSource(ctx context.Context, st *Status) {
	var out struct {
		EventSourceMappings []struct {
			State, StateTransitionReason, LastProcessingResult string
			LastModified                                       float64 // in Unix seconds
		}
	}

	err := s.functions.get(ctx, "ListEventSourceMappings", "/2015-03-31/event-source-mappings",
		url.Values{"FunctionName": {s.name + aggregatorSuffix}}, &out)
	if isMissingFunction(err) {
		return
	}

	st.EventSource.Error = probeError(err)
	if err != nil || len(out.EventSourceMappings) == 0 {
		return
	}

	m := out.EventSourceMappings[0]
	st.EventSource = EventSourceStatus{
		Exists: true, State: m.State, Reason: m.StateTransitionReason, LastResult: m.LastProcessingResult,
	}
	if m.LastModified != 0 {
		st.EventSource.Modified = time.UnixMilli(int64(m.LastModified * 1e3)).UTC()
	}
}

func (s *session) probeDeadLetters(ctx context.Context, st *Status) {
	queue := st.Stack.Outputs["AggregatorDLQUrl"]
	if queue == "" {
		return
	}

	st.DeadLetters = QueueStatus{Exists: true, URL: queue}
	const messages = "ApproximateNumberOfMessages"
	var out struct{ Attributes map[string]string }

	err := s.queues.call(ctx, "GetQueueAttributes", map[string]any{
		"AttributeNames": []string{messages}, "QueueUrl": queue,
	}, &out)
	if err == nil {
		st.DeadLetters.Messages, err = strconv.ParseInt(out.Attributes[messages], 10, 64)
	}

	st.DeadLetters.Error = probeError(err)
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

	args := url.Values{}
	for i, name := range names {
		args.Set(fmt.Sprintf("AlarmNames.member.%d", i+1), name)
	}

	var out struct {
		Alarms []struct {
			AlarmName, StateValue, StateReason string
			StateUpdatedTimestamp              time.Time
		} `xml:"DescribeAlarmsResult>MetricAlarms>member"`
	}

	err := s.metrics.submit(ctx, "DescribeAlarms", args, &out)
	st.Alarms.Error = probeError(err)
	if err != nil {
		return
	}

	for _, a := range out.Alarms {
		st.Alarms.List = append(st.Alarms.List, AlarmStatus{
			a.AlarmName, a.StateValue, a.StateReason, a.StateUpdatedTimestamp,
		})
	}

	slices.SortFunc(st.Alarms.List, func(a, b AlarmStatus) int { return cmp.Compare(a.Name, b.Name) })
}

package infra

import (
	"context"
	"encoding/base64"
	"encoding/hex"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
)

func (s *session) probeAggregator(ctx context.Context, st *Status) {
	st.Aggregator = s.probeFunction(ctx, s.name+aggregatorSuffix)
}

func (s *session) probeProvisioner(ctx context.Context, st *Status) {
	st.Provisioner = s.probeFunction(ctx, s.name+provisionerSuffix)
}

func (s *session) probeFunction(ctx context.Context, name string) FunctionStatus {
	f := FunctionStatus{Name: name}
	out, err := s.functions.GetFunction(ctx, &lambda.GetFunctionInput{FunctionName: &name})
	if is[*lambdatypes.ResourceNotFoundException](err) {
		return f
	}
	if err != nil || out.Configuration == nil {
		f.Error = errorOf(err)
		return f
	}
	c := out.Configuration
	f.Exists, f.State, f.LastUpdate, f.Runtime = true, string(c.State), string(c.LastUpdateStatus), string(c.Runtime)
	f.Version, f.SHA256, f.Modified = out.Tags[tagLambdaVersion], hexadecimal(aws.ToString(c.CodeSha256)), aws.ToString(c.LastModified)
	f.MemoryMB, f.Timeout = int(aws.ToInt32(c.MemorySize)), int(aws.ToInt32(c.Timeout))
	f.Reason = aws.ToString(c.StateReason)
	if c.LastUpdateStatus == lambdatypes.LastUpdateStatusFailed {
		f.Reason = aws.ToString(c.LastUpdateStatusReason)
	}
	if len(c.Architectures) > 0 {
		f.Architecture = string(c.Architectures[0])
	}
	return f
}

// hexadecimal is a hash that the service gives in base 64; "" if it is none.
func hexadecimal(hash string) string {
	sum, err := base64.StdEncoding.DecodeString(hash)
	if err != nil {
		return ""
	}
	return hex.EncodeToString(sum)
}

func (s *session) probeEventSource(ctx context.Context, st *Status) {
	out, err := s.functions.ListEventSourceMappings(ctx, &lambda.ListEventSourceMappingsInput{FunctionName: aws.String(s.name + aggregatorSuffix)})
	if is[*lambdatypes.ResourceNotFoundException](err) {
		return
	}
	st.EventSource.Error = errorOf(err)
	if err != nil || len(out.EventSourceMappings) == 0 {
		return
	}
	m := out.EventSourceMappings[0]
	st.EventSource = EventSourceStatus{
		Exists: true, State: aws.ToString(m.State), Reason: aws.ToString(m.StateTransitionReason),
		LastResult: aws.ToString(m.LastProcessingResult), Modified: aws.ToTime(m.LastModified),
	}
}

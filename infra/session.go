package infra

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/logging"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/hint"
)

// session is one call of this package: an account and a region, and mostly a
// stack in it.
type session struct {
	opts   Options
	name   string
	op     string // the call, for errors
	region string
	place  hint.Place // of the commands that errors suggest
	doubt  error      // about the stack that is wanted, which what is there may remove
	voices sync.Map   // whether a custom endpoint, a string, has answered

	stacks    *cloudformation.Client
	tables    *dynamodb.Client
	functions *lambda.Client
	queues    *sqs.Client
	metrics   *cloudwatch.Client
	buckets   *s3.Client
	identity  *sts.Client
}

// dial is a session about the stack of that name. Nothing is sent yet, unless
// the environment asks for credentials or settings to be fetched.
func dial(ctx context.Context, op, name string, opts *Options) (*session, error) {
	name = dynamo.TableName(name)
	if err := checkStackName(name); err != nil {
		return nil, err
	}
	s, err := newSession(ctx, op, opts)
	if err != nil {
		return nil, err
	}
	s.name = name
	return s, nil
}

func newSession(ctx context.Context, op string, opts *Options) (*session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := &session{op: op}
	if opts != nil {
		s.opts = *opts
	}
	s.opts = s.opts.withDefaults()
	cfg, err := s.config(ctx)
	if err != nil {
		return nil, failure(ctx, op, err)
	}
	s.region = cfg.Region
	s.stacks = cloudformation.NewFromConfig(cfg, s.onlyStacks, func(o *cloudformation.Options) { o.APIOptions = s.promptly(o.APIOptions, o.BaseEndpoint) })
	s.place = hint.Place{Region: cfg.Region, Endpoint: aws.ToString(s.stacks.Options().BaseEndpoint)}
	s.connect(cfg)
	return s, nil
}

// connect makes the clients of the services beside CloudFormation.
func (s *session) connect(cfg aws.Config) {
	s.tables = dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		o.DisableValidateResponseChecksum = true
		o.APIOptions = s.promptly(o.APIOptions, o.BaseEndpoint)
	})
	s.functions = lambda.NewFromConfig(cfg, func(o *lambda.Options) { o.APIOptions = s.promptly(o.APIOptions, o.BaseEndpoint) })
	s.queues = sqs.NewFromConfig(cfg, func(o *sqs.Options) { o.APIOptions = s.promptly(o.APIOptions, o.BaseEndpoint) })
	s.metrics = cloudwatch.NewFromConfig(cfg, func(o *cloudwatch.Options) { o.APIOptions = s.promptly(o.APIOptions, o.BaseEndpoint) })
	s.buckets = s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.UsePathStyle = o.BaseEndpoint != nil // an address of one's own has no names for buckets below it
		o.APIOptions = s.promptly(o.APIOptions, o.BaseEndpoint)
	})
	s.identity = sts.NewFromConfig(cfg, func(o *sts.Options) { o.APIOptions = s.promptly(o.APIOptions, o.BaseEndpoint) })
}

// longestAnswer is how long a service may take to begin its answer.
const longestAnswer = 30 * time.Second

// maxAttempts is how often a call is sent. CloudFormation has few calls to
// spare for an account, and a deployment can wait.
const maxAttempts = 10

func (s *session) config(ctx context.Context) (aws.Config, error) {
	var cfg aws.Config
	if given := s.opts.Dynamo.AWS; given != nil {
		cfg = given.Copy()
	} else {
		var err error
		if cfg, err = config.LoadDefaultConfig(ctx, config.WithLogger(logging.Nop{})); err != nil {
			return cfg, err
		}
		if loaded, ok := cfg.HTTPClient.(*awshttp.BuildableClient); ok { // it has the certificates of AWS_CA_BUNDLE
			cfg.HTTPClient = loaded.WithTransportOptions(func(t *http.Transport) { t.ResponseHeaderTimeout = longestAnswer })
		}
	}
	cfg.Region = cmp.Or(s.opts.Dynamo.Region, cfg.Region)
	if cfg.Region == "" {
		return cfg, errors.New("no AWS region; name one, or set AWS_REGION or that of the profile")
	}
	if s.opts.Dynamo.Endpoint != "" {
		cfg.BaseEndpoint = aws.String(s.opts.Dynamo.Endpoint)
	}
	if cfg.RetryMaxAttempts == 0 && cfg.Retryer == nil {
		cfg.Retryer = patient
	}
	return cfg, nil
}

// patient tries often what is throttled, and not again what nobody answers: an
// address that is wrong stays so.
func patient() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = maxAttempts
		o.Retryables = append([]retry.IsErrorRetryable{retry.IsErrorRetryableFunc(nobodyAnswers)}, o.Retryables...)
	})
}

// nobodyAnswers says no to what could not even be connected to, and to what
// stayed silent.
func nobodyAnswers(err error) aws.Ternary {
	if failed, ok := errors.AsType[*net.OpError](err); ok && failed.Op == "dial" {
		return aws.FalseTernary
	}
	if slow, ok := errors.AsType[net.Error](err); ok && slow.Timeout() {
		return aws.FalseTernary
	}
	return aws.UnknownTernary
}

// table connects to the stack's table itself, without a namespace.
func (s *session) table(ctx context.Context) (*dynamo.Repository, error) {
	opts := s.opts.Dynamo
	opts.Namespace = "_"
	return dynamo.Connect(ctx, s.name, &opts)
}

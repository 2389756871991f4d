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
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/logging"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/remedy"
)

// session is the state of one call of this package: the account, the region and
// the name of the stack, if the call has one.
type session struct {
	opts Options
	name string // of the stack
	// target is the name for users: that of the stack or, for a load stack, that of
	// the stack that it tests.
	target string
	kind   string // typeLimiter or typeLoad
	op     string // the call, for errors
	region string
	// endpoint is the custom endpoint of CloudFormation, or "".
	endpoint string
	// unresolved is an error in Options.Stack that Options.Resolve may still fix.
	unresolved error
	answered   sync.Map // custom endpoint (string) to whether it has responded (bool)

	stacks   *cloudformation.Client
	tables   *dynamodb.Client
	buckets  *s3.Client
	identity *sts.Client

	functions, queues, metrics, containers, tunnels, registry, networks *client
}

// newStackSession returns a session for the stack of that name.
func newStackSession(ctx context.Context, op, name string, opts *Options) (*session, error) {
	name = dynamo.TableName(name)
	if err := checkStackName(name); err != nil {
		return nil, err
	}
	s, err := newSession(ctx, op, opts)
	if err != nil {
		return nil, err
	}

	s.name, s.target, s.kind = name, name, typeLimiter
	return s, nil
}

// newSession returns a session without a stack. It sends no request, unless the
// environment requires fetching credentials or settings.
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
		return nil, translateError(ctx, op, err)
	}

	s.region = cfg.Region
	s.stacks = cloudformation.NewFromConfig(cfg, s.requireCloudFormation, func(o *cloudformation.Options) {
		o.APIOptions = s.limitFirstResponse(o.APIOptions, o.BaseEndpoint)
	})

	s.endpoint = aws.ToString(s.stacks.Options().BaseEndpoint)

	s.connect(ctx, cfg)
	return s, nil
}

// connect creates the clients of the services other than CloudFormation.
func (s *session) connect(ctx context.Context, cfg aws.Config) {
	s.tables = dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		// The SDK would print a line to stderr about a wrong checksum, which a
		// library must not do. TLS protects the bytes.
		o.DisableValidateResponseChecksum = true
		o.APIOptions = s.limitFirstResponse(o.APIOptions, o.BaseEndpoint)
	})
	s.buckets = s3.NewFromConfig(cfg, func(o *s3.Options) {
		// A custom endpoint has no host name for each bucket.
		o.UsePathStyle = o.BaseEndpoint != nil
		o.APIOptions = s.limitFirstResponse(o.APIOptions, o.BaseEndpoint)
	})
	s.identity = sts.NewFromConfig(cfg, func(o *sts.Options) {
		o.APIOptions = s.limitFirstResponse(o.APIOptions, o.BaseEndpoint)
	})

	s.functions = s.newClient(ctx, serviceLambda, cfg)
	s.queues = s.newClient(ctx, serviceSQS, cfg)
	s.metrics = s.newClient(ctx, serviceCloudWatch, cfg)
	s.containers = s.newClient(ctx, serviceECS, cfg)
	s.tunnels = s.newClient(ctx, serviceSSM, cfg)
	s.registry = s.newClient(ctx, serviceECR, cfg)
	s.networks = s.newClient(ctx, serviceEC2, cfg)
}

// remedy returns a remedy for what has a name, in the region and at the endpoint of
// the session.
func (s *session) remedy(call remedy.Call, name string, args ...string) *dynamo.Remedy {
	return &dynamo.Remedy{Call: call, Name: name, Args: args, Region: s.region, Endpoint: s.endpoint}
}

// ofKind returns the remedy about the stack: limiters and load tests have calls of
// their own.
func (s *session) ofKind(limiter, load remedy.Call) *dynamo.Remedy {
	if s.kind == typeLoad {
		limiter = load
	}
	return s.remedy(limiter, s.target)
}

// responseTimeout is the timeout for the first byte of a response.
const responseTimeout = 30 * time.Second

// maxAttempts is the number of attempts of a call. It is high because
// CloudFormation throttles an account early, and a deployment can wait.
const maxAttempts = 10

// config returns the configuration for all services.
func (s *session) config(ctx context.Context) (aws.Config, error) {
	var cfg aws.Config
	if given := s.opts.Dynamo.AWS; given != nil {
		cfg = given.Copy()
	} else {
		var err error
		if cfg, err = config.LoadDefaultConfig(ctx, config.WithLogger(logging.Nop{})); err != nil {
			return cfg, err
		}

		// Changing the client that was loaded keeps the certificates of
		// AWS_CA_BUNDLE.
		if loaded, ok := cfg.HTTPClient.(*awshttp.BuildableClient); ok {
			cfg.HTTPClient = loaded.WithTransportOptions(func(t *http.Transport) {
				t.ResponseHeaderTimeout = responseTimeout
			})
		}
	}

	cfg.Region = cmp.Or(s.opts.Dynamo.Region, cfg.Region)
	if cfg.Region == "" {
		return cfg, errors.New("no AWS region; pass one, set AWS_REGION, or set a region in the profile")
	}

	if s.opts.Dynamo.Endpoint != "" {
		cfg.BaseEndpoint = aws.String(s.opts.Dynamo.Endpoint)
	}

	// Settings of the caller or of the environment win over the ones for a
	// deployment.
	if cfg.RetryMaxAttempts == 0 && cfg.Retryer == nil {
		cfg.Retryer = newRetryer
	}

	return cfg, nil
}

// newRetryer returns a retryer that does not retry an unreachable endpoint.
func newRetryer() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = maxAttempts
		o.Retryables = append([]retry.IsErrorRetryable{retry.IsErrorRetryableFunc(retryUnreachable)}, o.Retryables...)
	})
}

// retryUnreachable returns false for failed connections and timeouts.
func retryUnreachable(err error) aws.Ternary {
	if failed, ok := errors.AsType[*net.OpError](err); ok && failed.Op == "dial" {
		return aws.FalseTernary
	}
	if slow, ok := errors.AsType[net.Error](err); ok && slow.Timeout() {
		return aws.FalseTernary
	}
	return aws.UnknownTernary
}

// table connects to the stack's table, without a namespace.
func (s *session) table(ctx context.Context) (*dynamo.Repository, error) {
	opts := s.opts.Dynamo
	// The namespace may not exist yet. The reserved one needs no registration.
	opts.Namespace = "_"
	return dynamo.Connect(ctx, s.name, &opts)
}

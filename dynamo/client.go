package dynamo

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"
)

// dial makes the clients. Nothing is sent yet, unless the environment asks for
// credentials or settings to be fetched.
func (s *store) dial(ctx context.Context) error {
	var cfg aws.Config
	if s.opts.AWS != nil {
		cfg = s.opts.AWS.Copy()
	} else {
		var err error
		if cfg, err = config.LoadDefaultConfig(ctx, config.WithLogger(logging.Nop{})); err != nil { // which would print to stderr
			return err
		}
		if loaded, ok := cfg.HTTPClient.(*awshttp.BuildableClient); ok { // it has the certificates of AWS_CA_BUNDLE
			cfg.HTTPClient = tuned(loaded)
		}
	}
	cfg.Region = cmp.Or(s.opts.Region, cfg.Region)
	if cfg.Region == "" {
		return errNoRegion
	}
	s.opts.Region = cfg.Region
	if cfg.HTTPClient == nil {
		cfg.HTTPClient = tuned(awshttp.NewBuildableClient())
	}
	if _, cached := cfg.Credentials.(*aws.CredentialsCache); cfg.Credentials != nil && !cached {
		cfg.Credentials = aws.NewCredentialsCache(cfg.Credentials)
	}
	s.config = cfg
	s.slow = dynamodb.NewFromConfig(cfg, s.direct)
	s.client = dynamodb.NewFromConfig(cfg, s.direct, func(o *dynamodb.Options) {
		if cfg.Retryer == nil && cfg.RetryMode == "" && cfg.RetryMaxAttempts == 0 {
			o.Retryer = newRetryer()
		}
	})
	s.once = dynamodb.NewFromConfig(cfg, s.direct, func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
	return nil
}

var errNoRegion = errors.New("no AWS region; name one, or set AWS_REGION or that of the profile")

// direct says where requests go, and how long they may be silent.
func (s *store) direct(o *dynamodb.Options) {
	// The SDK compares checksums only after it has used a reply, and then writes a
	// line to stderr, which a library must not; TLS vouches for the bytes.
	o.DisableValidateResponseChecksum = true
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		return stack.Deserialize.Add(tries{s}, middleware.After) // closest to the wire: signing is no silence
	})
	if s.opts.Endpoint != "" {
		o.BaseEndpoint = aws.String(s.opts.Endpoint)
	}
}

// tuned is a client for a table one hop away, in the same region. The SDK keeps
// 10 idle connections to a host: with more calls than that under way, most
// would begin with a handshake. And it waits half a minute for a connection,
// which is longer than any caller of a limiter waits; a table that has not
// answered after longestAnswer has lost the request.
func tuned(c *awshttp.BuildableClient) *awshttp.BuildableClient {
	const idle = 512
	return c.WithDialerOptions(func(d *net.Dialer) {
		d.Timeout = time.Second
		d.KeepAlive = 15 * time.Second
	}).WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConns, t.MaxIdleConnsPerHost = 2*idle, idle
		t.IdleConnTimeout = 90 * time.Second
		t.TLSHandshakeTimeout = 2 * time.Second
		t.ResponseHeaderTimeout = longestAnswer
	})
}

// longestAnswer is how long a request may wait for its answer that nothing else
// limits.
const longestAnswer = 5 * time.Second

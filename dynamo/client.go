package dynamo

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/wire"
)

// newClients makes the clients. It sends nothing, unless the environment says that
// credentials or settings have to be fetched.
func (s *store) newClients(ctx context.Context) error {
	var cfg aws.Config
	if s.opts.AWS != nil {
		cfg = s.opts.AWS.Copy()
	} else {
		var err error

		// The default logger prints to stderr, which a library must not.
		if cfg, err = config.LoadDefaultConfig(ctx, config.WithLogger(logging.Nop{})); err != nil {
			return err
		}

		// The client that the SDK loaded has the certificates of AWS_CA_BUNDLE.
		if loaded, ok := cfg.HTTPClient.(*awshttp.BuildableClient); ok {
			cfg.HTTPClient = tuneHTTP(loaded)
		}
	}

	cfg.Region = cmp.Or(s.opts.Region, cfg.Region)
	if cfg.Region == "" {
		return errNoRegion
	}
	s.opts.Region = cfg.Region

	if cfg.HTTPClient == nil {
		cfg.HTTPClient = tuneHTTP(awshttp.NewBuildableClient())
	}

	// Otherwise each request would fetch credentials, perhaps over the network.
	if _, cached := cfg.Credentials.(*aws.CredentialsCache); cfg.Credentials != nil && !cached {
		cfg.Credentials = aws.NewCredentialsCache(cfg.Credentials)
	}

	s.config = cfg
	s.slow = dynamodb.NewFromConfig(cfg, s.configure)
	s.client = dynamodb.NewFromConfig(cfg, s.configure, func(o *dynamodb.Options) {
		// What the caller has configured about retries takes precedence.
		if cfg.Retryer == nil && cfg.RetryMode == "" && cfg.RetryMaxAttempts == 0 {
			o.Retryer = newRetryer()
		}
	})

	s.once = dynamodb.NewFromConfig(cfg, s.configure, noRetries)
	s.newWire()
	return nil
}

// noRetries makes a client send each request once.
func noRetries(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }

// newWire makes the lean way to send an update, if the caller has configured
// nothing that it would bypass.
func (s *store) newWire() {
	// Without our own middleware: it would count the requests that only serve
	// as models, and the wire refuses clients with middleware.
	plain := dynamodb.NewFromConfig(s.config, s.setEndpoint, noRetries)
	client := s.once.Options().HTTPClient

	send := func(req *http.Request) (*http.Response, error) {
		return s.watch(req.Context(), func(ctx context.Context) (*http.Response, error) {
			return client.Do(req.WithContext(ctx))
		})
	}

	s.wire, _ = wire.New(plain, send)
}

var errNoRegion = errors.New("no AWS region; pass one, set AWS_REGION, or set a region in the profile")

// configure sets the endpoint and the timeout of each try.
func (s *store) configure(o *dynamodb.Options) {
	s.setEndpoint(o)

	// The SDK compares checksums after it has used a response, and then prints a
	// line to stderr, which a library must not. TLS protects the bytes.
	o.DisableValidateResponseChecksum = true

	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		if s.opts.CountCapacity {
			if err := stack.Initialize.Add(capacityMeter{&s.used}, middleware.After); err != nil {
				return err
			}
		}

		if err := stack.Initialize.Add(budgetMeter{}, middleware.After); err != nil {
			return err
		}

		// Closest to the wire, so that signing does not count.
		return stack.Deserialize.Add(tryTimeouts{s}, middleware.After)
	})
}

// setEndpoint overrides the endpoint of the configuration.
func (s *store) setEndpoint(o *dynamodb.Options) {
	if s.opts.Endpoint != "" {
		o.BaseEndpoint = aws.String(s.opts.Endpoint)
	}
}

// newRetryer returns a retryer for calls with a short timeout: the SDK's own waits
// up to a second before the second try, and up to two before the third.
func newRetryer() aws.Retryer {
	return awsretry.NewStandard(func(o *awsretry.StandardOptions) {
		o.MaxAttempts = 1 + maxUnknown
		o.Backoff = awsretry.BackoffDelayerFunc(func(try int, err error) (time.Duration, error) {
			// The table is busy or unreachable, and needs a longer pause.
			if retryable(err) {
				try += 3
			}
			return backoff(try), nil
		})
	})
}

// api returns a client that retries by itself: the slow one for a long operation.
func (s *store) api(ctx context.Context) *dynamodb.Client {
	if limit, ok := ctx.Value(tryTimeoutKey{}).(time.Duration); ok && limit == 0 {
		return s.slow
	}
	return s.client
}

// tuneHTTP returns a client for a table in the same region. The SDK keeps 10 idle
// connections to a host, so that with more calls at a time most would begin with
// a handshake. It waits half a minute for a connection, longer than any caller of
// a limiter waits. A table that has not answered after maxResponseTime has lost
// the request.
func tuneHTTP(c *awshttp.BuildableClient) *awshttp.BuildableClient {
	const idle = 512
	return c.WithDialerOptions(func(d *net.Dialer) {
		d.Timeout = time.Second
		d.KeepAlive = 15 * time.Second
	}).WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConns, t.MaxIdleConnsPerHost = 2*idle, idle
		t.IdleConnTimeout = 90 * time.Second
		t.TLSHandshakeTimeout = 2 * time.Second
		t.ResponseHeaderTimeout = maxResponseTime
	})
}

// maxResponseTime is how long a request without another limit waits for its
// response.
const maxResponseTime = 5 * time.Second

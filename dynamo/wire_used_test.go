package dynamo

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"
	"github.com/aws/smithy-go/tracing"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// ownTracer is a tracer of the caller.
type ownTracer struct{ tracing.NopTracerProvider }

// ownHook is an interceptor of the caller.
type ownHook struct{}

func (ownHook) BeforeTransmit(context.Context, *smithyhttp.InterceptorContext) error { return nil }

// serviceOption sets an option of the SDK's client in a configuration.
func serviceOption(change func(o *dynamodb.Options)) func(*aws.Config) {
	return func(cfg *aws.Config) {
		cfg.ServiceOptions = append(cfg.ServiceOptions, func(_ string, options any) {
			if o, ok := options.(*dynamodb.Options); ok {
				change(o)
			}
		})
	}
}

// oldResolver resolves endpoints in the way that the SDK has replaced.
func oldResolver(string, string, ...any) (aws.Endpoint, error) { //nolint:staticcheck // callers may still use it
	return aws.Endpoint{URL: "http://localhost"}, nil //nolint:staticcheck // callers may still use it
}

// discovery is a source of configuration that enables endpoint discovery.
type discovery struct{}

// GetEnableEndpointDiscovery returns the setting.
func (discovery) GetEnableEndpointDiscovery(context.Context) (aws.EndpointDiscoveryEnableState, bool, error) {
	return aws.EndpointDiscoveryEnabled, true, nil
}

// TestWireIsUsedOnlyIfNothingIsBypassed opens a table with configurations that
// ask for something that only the SDK does, and with others.
func TestWireIsUsedOnlyIfNothingIsBypassed(t *testing.T) {
	t.Parallel()
	requireWire(t)
	for name, c := range map[string]struct {
		change func(*aws.Config)
		used   bool
	}{
		"plain":        {func(*aws.Config) {}, true},
		"own endpoint": {func(cfg *aws.Config) { cfg.BaseEndpoint = aws.String("http://localhost:8000") }, true},
		"retries": {func(cfg *aws.Config) {
			cfg.RetryMaxAttempts, cfg.RetryMode = 7, aws.RetryModeAdaptive
		}, true},
		"application": {func(cfg *aws.Config) { cfg.AppID = "shop" }, true},
		"FIPS": {serviceOption(func(o *dynamodb.Options) {
			o.EndpointOptions.UseFIPSEndpoint = aws.FIPSEndpointStateEnabled
		}), true},
		"account": {func(cfg *aws.Config) {
			cfg.AccountIDEndpointMode = aws.AccountIDEndpointModeRequired
		}, true},
		"anonymous":      {func(cfg *aws.Config) { cfg.Credentials = aws.AnonymousCredentials{} }, false},
		"no credentials": {func(cfg *aws.Config) { cfg.Credentials = nil }, false},
		"API options": {func(cfg *aws.Config) {
			cfg.APIOptions = append(cfg.APIOptions, func(*middleware.Stack) error { return nil })
		}, false},
		"API options of the service": {serviceOption(func(o *dynamodb.Options) {
			o.APIOptions = append(o.APIOptions, func(*middleware.Stack) error { return nil })
		}), false},
		"interceptors": {func(cfg *aws.Config) { cfg.Interceptors.AddBeforeTransmit(ownHook{}) }, false},
		"tracer":       {serviceOption(func(o *dynamodb.Options) { o.TracerProvider = &ownTracer{} }), false},
		"endpoint discovery": {func(cfg *aws.Config) {
			cfg.ConfigSources = append(cfg.ConfigSources, discovery{})
		}, false},
		"old resolver": {func(cfg *aws.Config) {
			//nolint:staticcheck // callers may still use it
			cfg.EndpointResolverWithOptions = aws.EndpointResolverWithOptionsFunc(oldResolver)
		}, false},
		"auth preference": {func(cfg *aws.Config) { cfg.AuthSchemePreference = []string{"sigv4a"} }, false},
		"logging":         {func(cfg *aws.Config) { cfg.ClientLogMode = aws.LogRetries }, false},
		"no skew":         {func(cfg *aws.Config) { cfg.DisableClockSkewCorrection = true }, false},
		"compression":     {serviceOption(func(o *dynamodb.Options) { o.EnableAcceptEncodingGzip = true }), false},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("a", "b", "")}
			c.change(&cfg)
			s, err := newStore(t.Context(), "test", "table", &Options{AWS: &cfg})
			if err != nil {
				t.Fatal(err)
			}
			if used := s.wire != nil; used != c.used {
				t.Errorf("the wire is used: %v", used)
			}
		})
	}
}
